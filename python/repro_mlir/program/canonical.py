# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads and writes canonical programs in their stored form, and extracts their identity, names and types.

docs/verification/identity.md defines the stored form.

The constructor of `Program` examines each program here, so other code can rely on a canonical program with a correct
signature.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.reference.program import Operation, ParsedProgram, ValueType
from repro_mlir.reference.stored import body_hash, read_program

if TYPE_CHECKING:
    from repro_mlir import ir


@dataclass(frozen=True)
class Examined:
    """The properties that this module extracts from a canonical program.

    Attributes:
      data: the stored program.
      identity: the identity (H2), in hexadecimal.
      num_state: the number of arguments, and of results, that are state.
      arguments, results: the name (empty if the module has none), element type and shape of each argument and each
        result.
      kept: the positions of state tensors that the program returns unchanged.
      moved: the positions of arguments whose elements may be copied unchanged to a result, apart from the results in
        `kept`.
      unread: the positions of arguments without a use.
    """

    data: bytes = field(repr=False)
    identity: str
    num_state: int
    arguments: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    kept: frozenset[int]
    moved: frozenset[int]
    unread: frozenset[int]

    def check(self, state: Sequence[TensorType], inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> None:
        """Raises ReproError if a signature differs from the module in counts, element types, shapes or names."""
        for role, kinds, found in (
            ("state", state, self.arguments[: self.num_state]),
            ("state", state, self.results[: self.num_state]),
            ("input", inputs, self.arguments[self.num_state :]),
            ("output", outputs, self.results[self.num_state :]),
        ):
            if len(kinds) != len(found):
                raise ReproError(f"expected {len(found)} {role} tensors in the signature, got {len(kinds)}")
            for i, (kind, own) in enumerate(zip(kinds, found, strict=True)):
                wanted = TensorType(own.name or kind.name, own.element, own.shape)
                # A shape of floats or bools would compare equal to a shape of integers.
                is_plain = isinstance(kind.name, str) and all(type(extent) is int for extent in kind.shape)
                if kind != wanted or not is_plain:
                    raise ReproError(f"{role} {i} of the signature: expected {wanted}, as in the program, got {kind}")
        for role, kinds in (("state", state), ("output", outputs)):
            double = [name for name, count in Counter(kind.name for kind in kinds).items() if count > 1]
            if double:
                raise ReproError(f"expected {role} tensors with different names, got {double[0]!r} twice")


@functools.lru_cache(maxsize=8)
def examine(data: bytes) -> Examined:
    """Reads and verifies a stored program.

    Raises:
      ReproError: the bytes are not a program; the message is the first error with its location.
    """
    from repro_mlir import ir
    from repro_mlir._mlir_libs import _repro

    with ir.Context():
        module = read_module(data)
        main = module.body.operations[0]
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        num_state = ir.IntegerAttr(main.attributes["repro.num_state"]).value
        kept = _kept(main, num_state)
        return Examined(
            data,
            _repro.program_hash(module),
            num_state,
            _described(ir, kind.inputs, main, "arg_attrs"),
            _described(ir, kind.results, main, "res_attrs"),
            kept,
            _moved(ir, main, kept),
            frozenset(i for i, each in enumerate(main.regions[0].blocks[0].arguments) if not [*each.uses]),
        )


@functools.lru_cache(maxsize=8)
def examine_admitted(data: bytes) -> Examined:
    """Reads a stored program that `sandbox.admit` has accepted, without MLIR; the result is that of `examine`.

    Raises:
      ProgramError: the bytes are not a program.
    """
    program = read_program(data)
    body = program.body
    states = zip(body.arguments[: program.num_state], body.yields, strict=False)
    kept = frozenset(i for i, (argument, value) in enumerate(states) if argument == value)
    used = {*body.yields}.union(*(each.uses() for each in body.operations))
    return Examined(
        data,
        body_hash(data),
        program.num_state,
        _tensor_types(program.argument_names, body.argument_types),
        _tensor_types(program.result_names, program.result_types),
        kept,
        _moved_in(program, kept),
        frozenset(i for i, number in enumerate(body.arguments) if number not in used),
    )


def _tensor_types(names: Sequence[str], kinds: Sequence[ValueType]) -> tuple[TensorType, ...]:
    return tuple(TensorType(name, kind.element.name, kind.shape or ()) for name, kind in zip(names, kinds, strict=True))


def _moved_in(program: ParsedProgram, kept: frozenset[int]) -> frozenset[int]:
    body = program.body
    positions = {number: i for i, number in enumerate(body.arguments)}
    made = {number: (operation, i) for operation in body.operations for i, number in enumerate(operation.results)}
    worklist = [number for i, number in enumerate(body.yields) if i not in kept]
    seen: set[int] = set()
    while worklist:
        number = worklist.pop()
        if number not in seen and number in made:
            worklist += _moved_operands(*made[number])
        seen.add(number)
    return frozenset(positions[number] for number in seen if number in positions)


def _moved_operands(operation: Operation, result: int) -> Sequence[int]:
    """Returns the operands whose elements a result of an operation may contain."""
    if operation.name not in _MOVEMENTS:
        return ()
    if operation.name != "linalg.generic":
        return operation.operands
    (body,) = operation.regions
    yielded = body.yields[result]
    return [operation.operands[body.arguments.index(yielded)]] if yielded in body.arguments else []


@functools.cache
def compiler_identity() -> bytes:
    """Returns bytes that change with the files of the compiler library. They are computed once, so that they describe
    the loaded library even if its files are replaced later."""
    from repro_mlir._mlir_libs import _repro

    libraries = [
        f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}"
        for path in sorted(Path(_repro.__file__).parent.glob("*.so"))
        if "Repro" in path.name or path.name.startswith("_repro")
    ]
    return "\n".join(libraries).encode()


def read_module(data: bytes) -> ir.Module:
    """Reads a canonical module from its stored bytes (docs/verification/identity.md) in the current context.

    Raises:
      ReproError: the bytes are invalid; the message contains the location of the error.
    """
    from repro_mlir._mlir_libs import _repro

    try:
        return _repro.read_program(data)
    except ValueError as error:
        raise ReproError(f"expected a stored program: {_first_lines(error)}") from None


def write_module(module: ir.Module) -> bytes:
    """Returns the stored bytes of a canonical module. Raises ReproError if the module is not canonical."""
    from repro_mlir._mlir_libs import _repro

    try:
        return _repro.write_program(module)
    except ValueError as error:
        raise ReproError(f"expected a canonical program: {_first_lines(error)}") from None


def from_bytes(data: bytes) -> str:
    """Returns the readable MLIR text of a stored program, with locations. Raises ReproError as `read_module` does."""
    from repro_mlir import ir

    with ir.Context():
        return str(read_module(data).operation.get_asm(enable_debug_info=True))


def to_bytes(text: str) -> bytes:
    """Returns the stored bytes of a program in MLIR text. Raises ReproError if the program is not canonical."""
    from repro_mlir import ir

    with ir.Context():
        try:
            module = ir.Module.parse(text)
        except (ir.MLIRError, ValueError) as error:
            raise ReproError(f"expected a canonical program: {_first_lines(error)}") from None
        return write_module(module)


def _first_lines(error: Exception) -> str:
    lines = (line.strip().removeprefix("loc(unknown): ") for line in str(error).splitlines()[:2])
    return " ".join(lines)


# Operations whose results may contain unchanged elements of their operands. For a linalg.generic, this is the case if
# its body yields one of the body's arguments.
_MOVEMENTS = frozenset(
    ["linalg.generic", "repro.barrier", "repro.scatter"]
    + [f"tensor.{name}" for name in ("cast", "collapse_shape", "concat", "expand_shape", "extract", "extract_slice")]
    + [f"tensor.{name}" for name in ("from_elements", "insert_slice", "pad", "splat")]
)


def _results(main: Any) -> list[Any]:
    (block,) = main.regions[0].blocks
    return list(block.operations[len(block.operations) - 1].operands)


def _kept(main: Any, num_state: int) -> frozenset[int]:
    arguments = main.regions[0].blocks[0].arguments
    return frozenset(i for i, value in enumerate(_results(main)[:num_state]) if value == arguments[i])


def _moved(ir: Any, main: Any, kept: frozenset[int]) -> frozenset[int]:
    moved: set[int] = set()
    worklist, seen = [value for i, value in enumerate(_results(main)) if i not in kept], set()
    while worklist:
        value = worklist.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, ir.BlockArgument):
            moved.add(ir.BlockArgument(value).arg_number)
            continue
        op = ir.OpResult(value).owner
        if op.name not in _MOVEMENTS:
            continue
        operands = list(op.operands)
        if op.name == "linalg.generic":
            (body,) = op.regions[0].blocks
            yielded = body.operations[len(body.operations) - 1].operands[ir.OpResult(value).result_number]
            given = isinstance(yielded, ir.BlockArgument) and ir.BlockArgument(yielded).owner == body
            operands = [operands[ir.BlockArgument(yielded).arg_number]] if given else []
        worklist += operands
    return frozenset(moved)


def _described(ir: Any, kinds: Sequence[Any], main: Any, key: str) -> tuple[TensorType, ...]:
    names = [""] * len(kinds)
    if key in main.attributes:
        for i, entry in enumerate(ir.ArrayAttr(main.attributes[key])):
            if "repro.name" in ir.DictAttr(entry):
                names[i] = ir.StringAttr(ir.DictAttr(entry)["repro.name"]).value
    ranked = [ir.RankedTensorType(kind) for kind in kinds]
    return tuple(
        TensorType(name, str(kind.element_type), tuple(kind.shape)) for name, kind in zip(names, ranked, strict=True)
    )
