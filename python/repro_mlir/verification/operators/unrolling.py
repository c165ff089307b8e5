# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Unrolls a step in microbatches into one canonical program, by the rules (B1) to (B3).

The unrolled program first cuts the batch. Then it contains the microbatch program once per microbatch, and the
additions of sums, in the order in which a single process executes these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repro_mlir.base.errors import ReproError
from repro_mlir.base.limits import limits
from repro_mlir.base.numerics.formats import element_type
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.distributed.tree import fold
from repro_mlir.program import Program
from repro_mlir.program.microbatches import MicrobatchProgram
from repro_mlir.reference.program import Body, ParsedProgram, ValueType
from repro_mlir.reference.stored import read_program
from repro_mlir.verification.operators.building import BlockBuilder, type_of

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


_DIFFERENT = "(B3) integers of the state differ between microbatches, expected equal ones"


def unroll(step: MicrobatchProgram) -> Unrolled:
    """Unrolls a step in microbatches into one program. Raises ReproError if the program would have too many
    operators."""
    return _Unroller(step).run()


class _Unroller:
    """Writes the unrolled program."""

    def __init__(self, step: MicrobatchProgram) -> None:
        self._step = step
        self._part, self._finish = (read_program(each.data) for each in (step.part, step.finish))
        self._block = BlockBuilder([type_of(kind) for kind in (*step.state, *step.inputs)])
        self._phases: list[tuple[range, str]] = []
        lengths = [_count(each.body) for each in (self._part, self._finish)]
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
        step, microbatches, block = self._step, self._step.microbatches, self._block
        state, inputs = block.arguments[: len(step.state)], block.arguments[len(step.state) :]
        with_rows = [self._given(number, state, inputs) for number in range(microbatches.count)]
        self._end_phase("the cut of the batch")
        gives: list[list[int]] = []

        def part(number: int) -> list[int]:
            found = self._inline(self._part, with_rows[number])
            self._end_phase(f"microbatch {number}")
            # (B2) `fold` calls `part` for the microbatches in ascending order, so `gives` is in that order too.
            gives.append(found)
            return found[: len(step.sums)]

        def add(left: list[int], right: list[int]) -> list[int]:
            found = [self._sum(type_of(kind), pair) for kind, *pair in zip(step.sums, left, right, strict=True)]
            self._end_phase("a sum of microbatches")
            return found

        def leaf(number: int) -> list[int]:
            first, *others = range(number * microbatches.accumulate, (number + 1) * microbatches.accumulate)
            total = part(first)
            for each in others:
                total = add(total, part(each))
            return total

        sums = fold(range(microbatches.leaves), leaf, add)
        shared = [value for i, value in enumerate(inputs) if i not in step.cut]
        new = [found[len(step.sums) :] for found in gives]
        own = [self._stack(step.state[i], [each[place] for each in new]) for place, i in enumerate(step.own)]
        self._end_phase("the state of microbatches")
        returned = self._inline(self._finish, [*state, *sums, *own, *shared])
        self._end_phase("the end of the step")
        signature = step.state, step.inputs, step.outputs, step.num_hyper_parameters
        untrusted = step.part.untrusted or step.finish.untrusted
        data = block.program(returned, len(step.state))
        places = self._places()
        program = Program(data, *signature, step.initial, untrusted=untrusted)
        return Unrolled(program, tuple(self._phases), tuple(tuple(places[value] for value in each) for each in gives))

    def _places(self) -> dict[int, Place]:
        """Returns the place of each value by its number."""
        places: dict[int, Place] = {number: (None, i) for i, number in enumerate(self._block.arguments)}
        for index, operation in enumerate(self._block.operations):
            places |= {number: (index, i) for i, number in enumerate(operation.results)}
        return places

    def _given(self, number: int, state: Sequence[int], inputs: Sequence[int]) -> list[int]:
        """(B1) Returns the arguments of microbatch `number`."""
        step = self._step
        given = [*state, *inputs]
        if step.random is not None:
            given[step.random] = self._advanced(state[step.random], number)
        for i in step.own:
            given[i] = self._own_slice(step.state[i], state[i], number)
        for i in step.cut:
            given[len(state) + i] = self._rows(step.inputs[i], inputs[i], number)
        return given

    def _inline(self, program: ParsedProgram, arguments: Sequence[int]) -> list[int]:
        """Copies the operators of a program, and returns the program's results."""
        renamed = dict(zip(program.body.arguments, arguments, strict=True))
        for operation in program.body.operations:
            self._block.clone(operation, renamed)
        return [renamed[number] for number in program.body.yields]

    def _end_phase(self, what: str) -> None:
        begin, end = self._phases[-1][0].stop if self._phases else 0, len(self._block.operations)
        if end > begin:
            self._phases.append((range(begin, end), what))

    def _sum(self, kind: ValueType, pair: Sequence[int]) -> int:
        """Adds two float tensors (B2) or, for tensors of another element type, checks that both are equal and returns
        the first (B3)."""
        body = self._block.elementwise(pair, kind)
        first, second, _ = body.arguments
        if kind.element.is_float:
            (first,) = body.write("arith.addf", [first, second], [ValueType(kind.element, None)])
        else:
            (equal,) = body.write("arith.cmpi", [first, second], [ValueType(element_type("i1"), None)], bytes(8))
            body.write("cf.assert", [equal], (), message=_DIFFERENT)
        return self._block.write_elementwise(pair, kind, body, first)

    def _advanced(self, step: int, count: int) -> int:
        """(B1) Adds the number of a microbatch, `count`, to the step of the random numbers."""
        scalar, kind = ValueType(element_type("i64"), None), ValueType(element_type("i64"), ())
        body = self._block.elementwise([step], kind)
        number = body.constant(scalar, count)
        (result,) = body.write("arith.addi", [body.arguments[0], number], [scalar])
        return self._block.write_elementwise([step], kind, body, result)

    def _rows(self, kind: TensorType, source: int, number: int) -> int:
        """(B1) Extracts the rows of a microbatch."""
        rows, others = kind.shape[0] // self._step.microbatches.count, kind.shape[1:]
        piece = ValueType(type_of(kind).element, (rows, *others))
        return self._block.slice(source, [number * rows, *[0] * len(others)], piece)

    def _own_slice(self, kind: TensorType, source: int, number: int) -> int:
        """(B5) Extracts the slice of a state tensor that belongs to a microbatch."""
        element, part = type_of(kind).element, kind.shape[1:]
        piece = self._block.slice(source, [number, *[0] * len(part)], ValueType(element, (1, *part)))
        return self._block.without_first(piece, ValueType(element, part))

    def _stack(self, kind: TensorType, parts: Sequence[int]) -> int:
        """(B5) Stacks the slices of all microbatches into a state tensor."""
        whole = type_of(kind)
        piece = ValueType(whole.element, (1, *kind.shape[1:]))
        return self._block.concatenate([self._block.with_first(each, piece) for each in parts], whole)


def _count(body: Body) -> int:
    """Returns the number of operations in a block, including nested ones."""
    inner = (region for operation in body.operations for region in operation.regions)
    return len(body.operations) + 1 + sum(map(_count, inner))
