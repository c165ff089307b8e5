# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Unrolls a step in microbatches into one canonical program, by the rules (B1) to (B3).

The unrolled program first cuts the batch. Then it contains the microbatch program once per microbatch, and the
additions of sums, in the order in which a single process executes these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from repro_mlir import ir
from repro_mlir.base.errors import ReproError
from repro_mlir.base.limits import limits
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.distributed.tree import fold
from repro_mlir.program import Program
from repro_mlir.program.canonical import read_module, write_module
from repro_mlir.program.microbatches import MicrobatchProgram
from repro_mlir.verification.operators.cloning import clone, operations_of

MOST_OPERATORS = 1 << 17
"""The maximum number of operators, including nested operations. Reading that many takes about a minute."""


Place = tuple[int | None, int]
"""Identifies a value: the index of its operator (None for an argument), and its position among the results or
arguments."""


@dataclass(frozen=True)
class Unrolled:
    """A step in microbatches as one program.

    Attributes:
      program: a program with the same state, inputs and outputs as the step, bit for bit.
      phases: consecutive ranges of operators, each with a description of what they compute.
      gives: for each microbatch, the values in `program` that are its contributions to the sums and its own new state.
    """

    program: Program
    phases: tuple[tuple[range, str], ...]
    gives: tuple[tuple[Place, ...], ...]


def unroll(step: MicrobatchProgram) -> Unrolled:
    """Unrolls a step in microbatches into one program. Raises ReproError if the program would have too many
    operators."""
    with ir.Context(), ir.Location.unknown():
        return _Unroller(step).run()


class _Unroller:
    """Writes the unrolled program in the current MLIR context."""

    def __init__(self, step: MicrobatchProgram) -> None:
        self._step = step
        self._module = ir.Module.create()
        self._part, self._finish = (read_module(each.data) for each in (step.part, step.finish))
        self._written: dict[str, ir.Module] = {}
        self._places: dict[ir.Value, Place] = {}
        self._phases: list[tuple[range, str]] = []
        self._count = 0
        lengths = [_count(each.operation) for each in (self._part, self._finish)]
        count, sums = step.microbatches.count, len(step.sums)
        total = count * lengths[0] + lengths[1] + 5 * count * (len(step.cut) + 1) + 6 * sums * (count - 1)
        total += 4 * count * len(step.own)
        size = count * len(step.part.data) + len(step.finish.data)
        if total > MOST_OPERATORS or size > limits().text_bytes:
            raise ReproError(
                f"expected at most {MOST_OPERATORS:,} operators and {limits().text_bytes:,} bytes to look at "
                f"operators one by one, got a step of {total:,} operators and {size:,} bytes in {count} microbatches"
            )

    def run(self) -> Unrolled:
        """Writes `main` and returns the unrolled program."""
        step, microbatches = self._step, self._step.microbatches
        with ir.InsertionPoint(self._module.body):
            arguments = [_type(kind) for kind in (*step.state, *step.inputs)]
            results = [_type(kind) for kind in (*step.state, *step.outputs)]
            attributes = {
                "sym_name": ir.StringAttr.get("main"),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(arguments, results)),
                "repro.num_state": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(step.state)),
            }
            main = ir.Operation.create("func.func", regions=1, attributes=attributes)
        block = main.regions[0].blocks.append(*arguments)
        gives: list[tuple[Place, ...]] = []
        with ir.InsertionPoint(block):
            values = list(block.arguments)
            self._places = {value: (None, i) for i, value in enumerate(values)}
            state, inputs = values[: len(step.state)], values[len(step.state) :]
            with_rows = [self._given(number, state, inputs) for number in range(microbatches.count)]
            self._end_phase("the cut of the batch")

            new: list[list[ir.Value]] = []

            def part(number: int) -> list[ir.Value]:
                found = self._inline(self._part, with_rows[number])
                gives.append(tuple(self._places[value] for value in found))
                self._end_phase(f"microbatch {number}")
                # (B2) `fold` calls `part` for the microbatches in ascending order, so `new` is in that order too.
                new.append(found[len(step.sums) :])
                return found[: len(step.sums)]

            def add(left: list[ir.Value], right: list[ir.Value]) -> list[ir.Value]:
                pairs = zip(step.sums, left, right, strict=True)
                found = [self._write(_sum(kind), a, b) for kind, a, b in pairs]
                self._end_phase("a sum of microbatches")
                return found

            def leaf(number: int) -> list[ir.Value]:
                first, *others = range(number * microbatches.accumulate, (number + 1) * microbatches.accumulate)
                total = part(first)
                for each in others:
                    total = add(total, part(each))
                return total

            sums = fold(range(microbatches.leaves), leaf, add)
            shared = [value for i, value in enumerate(inputs) if i not in step.cut]
            stacked = zip(step.own, zip(*new, strict=True), strict=True) if step.own else ()
            own = [self._write(_stack(step.state[i]), *parts) for i, parts in stacked]
            self._end_phase("the state of microbatches")
            returned = self._inline(self._finish, [*state, *sums, *own, *shared])
            self._end_phase("the end of the step")
            ir.Operation.create("func.return", operands=returned)
        signature = step.state, step.inputs, step.outputs, step.num_hyper_parameters
        untrusted = step.part.untrusted or step.finish.untrusted
        program = Program(write_module(self._module), *signature, step.initial, untrusted=untrusted)
        return Unrolled(program, tuple(self._phases), tuple(gives))

    def _given(self, number: int, state: Sequence[ir.Value], inputs: Sequence[ir.Value]) -> list[ir.Value]:
        """(B1) Returns the arguments of microbatch `number`."""
        step = self._step
        given = [*state, *inputs]
        if step.random is not None:
            given[step.random] = self._write(_advance(number), state[step.random])
        for i in step.own:
            given[i] = self._write(_own_slice(step.state[i], number), state[i])
        for i in step.cut:
            rows = _row_slice(step.inputs[i], step.microbatches.count, number)
            given[len(state) + i] = self._write(rows, inputs[i])
        return given

    def _write(self, text: str, *arguments: ir.Value) -> ir.Value:
        """Inlines a program with one result, and returns that result."""
        if text not in self._written:
            self._written[text] = ir.Module.parse(text)
        return self._inline(self._written[text], arguments)[0]

    def _inline(self, module: ir.Module, arguments: Iterable[ir.Value]) -> list[ir.Value]:
        """Inlines the operators of a program at the insertion point, and returns the program's results."""
        block = module.body.operations[0].regions[0].blocks[0]
        renamed = dict(zip(block.arguments, arguments, strict=True))
        operations = operations_of(module)
        for operation in operations:
            results = clone(operation, renamed)
            self._places |= {value: (self._count, i) for i, value in enumerate(results)}
            self._count += 1
        ends = block.operations[len(block.operations) - 1]
        return [renamed[value] for value in ends.operands]

    def _end_phase(self, what: str) -> None:
        begin = self._phases[-1][0].stop if self._phases else 0
        if self._count > begin:
            self._phases.append((range(begin, self._count), what))


def _count(operation: Any) -> int:
    """Returns the number of operations nested in an operation."""
    inner = [each for region in operation.regions for block in region for each in block]
    return len(inner) + sum(_count(each.operation) for each in inner)


def _type(kind: TensorType) -> Any:
    return ir.Type.parse(_text(kind))


def _text(kind: TensorType) -> str:
    return f"tensor<{'x'.join([*map(str, kind.shape), kind.element])}>"


def _sum(kind: TensorType) -> str:
    """Returns a program that adds two float tensors (B2) or, for tensors of another element type, checks that both are
    equal and returns the first (B3)."""
    element = kind.element
    if ELEMENTS[element].format is not None:
        return _elementwise(kind, 2, [f"%s = arith.addf %a, %b : {element}", f"linalg.yield %s : {element}"])
    message = "(B3) integers of the state differ between microbatches, expected equal ones"
    check = [f"%e = arith.cmpi eq, %a, %b : {element}", f'cf.assert %e, "{message}"']
    return _elementwise(kind, 2, [*check, f"linalg.yield %a : {element}"])


def _advance(count: int) -> str:
    """(B1) Returns a program that adds the number of a microbatch, `count`, to the step of the random numbers."""
    body = [f"%n = arith.constant {count} : i64", "%s = arith.addi %a, %n : i64", "linalg.yield %s : i64"]
    return _elementwise(TensorType("step", "i64", ()), 1, body)


def _elementwise(kind: TensorType, operands: int, body: Sequence[str]) -> str:
    """Returns a program that computes a tensor element by element from `operands` tensors (1 or 2). `body` computes an
    element from %a and %b, the elements of these tensors."""
    dims = ", ".join(f"d{i}" for i in range(len(kind.shape)))
    maps = ", ".join([f"affine_map<({dims}) -> ({dims})>"] * (operands + 1))
    loops = ", ".join(['"parallel"'] * len(kind.shape))
    text, names = _text(kind), "ab"[:operands]
    inside = ", ".join(f"%{name}: {kind.element}" for name in (*names, "o"))
    given, kinds = ", ".join(f"%{name}" for name in "xy"[:operands]), ", ".join([text] * operands)
    return _program(
        [kind] * operands,
        kind,
        [
            f"%0 = tensor.empty() : {text}",
            f"%1 = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{loops}]}} "
            f"ins({given} : {kinds}) outs(%0 : {text}) {{\n^bb0({inside}):\n{_lines(body)}}} -> {text}",
            f"return %1 : {text}",
        ],
    )


def _row_slice(kind: TensorType, count: int, number: int) -> str:
    """(B1) Returns a program that extracts the rows of a microbatch."""
    rows, others = kind.shape[0] // count, kind.shape[1:]
    piece = TensorType(kind.name, kind.element, (rows, *others))
    places = [number * rows, *[0] * len(others)], piece.shape, [1] * len(kind.shape)
    ranges = "".join(f"[{', '.join(map(str, each))}]" for each in places)
    sliced = f"%0 = tensor.extract_slice %x{ranges} : {_text(kind)} to {_text(piece)}"
    return _program([kind], piece, [sliced, f"return %0 : {_text(piece)}"])


def _own_slice(kind: TensorType, number: int) -> str:
    """(B5) Returns a program that extracts the slice of a state tensor that belongs to a microbatch."""
    part = TensorType(kind.name, kind.element, kind.shape[1:])
    piece = TensorType(kind.name, kind.element, (1, *part.shape))
    zeros, ones = [0] * len(part.shape), [1] * len(kind.shape)
    ranges = "".join(f"[{', '.join(map(str, each))}]" for each in ([number, *zeros], piece.shape, ones))
    body = [
        f"%0 = tensor.extract_slice %x{ranges} : {_text(kind)} to {_text(piece)}",
        f"%1 = tensor.collapse_shape %0 {_joined(part)} : {_text(piece)} into {_text(part)}",
        f"return %1 : {_text(part)}",
    ]
    return _program([kind], part, body)


def _stack(kind: TensorType) -> str:
    """(B5) Returns a program that stacks the slices of all microbatches into a state tensor."""
    part = TensorType(kind.name, kind.element, kind.shape[1:])
    piece = TensorType(kind.name, kind.element, (1, *part.shape))
    names = [f"%x{i}" for i in range(kind.shape[0])]
    pieces = [
        f"%p{i} = tensor.expand_shape {name} {_joined(part)} output_shape {list(piece.shape)} : "
        f"{_text(part)} into {_text(piece)}"
        for i, name in enumerate(names)
    ]
    given = ", ".join(f"%p{i}" for i in range(len(names)))
    kinds = ", ".join([_text(piece)] * len(names))
    whole = f"%0 = tensor.concat dim(0) {given} : ({kinds}) -> {_text(kind)}"
    arguments = ", ".join(f"{name}: {_text(part)}" for name in names)
    body = _lines([*pieces, whole, f"return %0 : {_text(kind)}"])
    return f"func.func @main({arguments}) -> {_text(kind)} {{\n{body}}}\n"


def _joined(part: TensorType) -> str:
    """Returns the reassociation from shape [1, *part] to `part`: the source dimensions of each result dimension."""
    if not part.shape:
        return "[]"
    first, *others = range(len(part.shape) + 1)
    return str([[first, others[0]], *([each] for each in others[1:])])


def _program(arguments: Sequence[TensorType], result: TensorType, body: Sequence[str]) -> str:
    given = ", ".join(f"%{name}: {_text(kind)}" for name, kind in zip("xy", arguments, strict=False))
    return f"func.func @main({given}) -> {_text(result)} {{\n{_lines(body)}}}\n"


def _lines(operations: Sequence[str]) -> str:
    """Returns operations as lines of text. Each has an unknown location, since otherwise its location would be the
    position in this text."""
    return "".join(f"{operation} loc(unknown)\n" for operation in operations)
