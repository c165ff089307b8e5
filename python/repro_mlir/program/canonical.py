# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Canonical programs as the bytes of docs/identity.md, and what they say about themselves: identity, names and types.

Every `Program` is examined here when it is made, so that nothing else has to ask whether it is canonical or its
signature true.
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

if TYPE_CHECKING:
    from repro_mlir import ir


@dataclass(frozen=True)
class Examined:
    """A canonical program as its callers see it.

    Attributes:
      data: the program as it is stored.
      identity: the identity (H2), in hexadecimal.
      num_state: how many arguments and results are state.
      arguments, results: name (empty where the module has none), element type and shape of each.
      kept: the states that are returned as they are.
      moved: the arguments of which elements may become elements of a result as they are, other than those of `kept`
        their own.
      unread: the arguments that no operation reads, nor a result is.
    """

    data: bytes = field(repr=False)
    identity: str
    num_state: int
    arguments: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    kept: frozenset[int]
    moved: frozenset[int]
    unread: frozenset[int]

    def is_named(self, identity: str) -> bool:
        """Whether this is an identity of the program, in hexadecimal, of whichever version."""
        # That of version 1 hashes every element of every constant, also of gigabytes of zeros.
        return identity == self.identity or identity == _first_identity(self.data)

    def check(self, state: Sequence[TensorType], inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> None:
        """ReproError where a signature is not that of the module: counts, element types, shapes, names."""
        for role, kinds, found in (
            ("state", state, self.arguments[: self.num_state]),
            ("state", state, self.results[: self.num_state]),
            ("input", inputs, self.arguments[self.num_state :]),
            ("output", outputs, self.results[self.num_state :]),
        ):
            if len(kinds) != len(found):
                raise ReproError(f"the signature has {len(kinds)} {role} tensors, the program {len(found)}")
            for i, (kind, own) in enumerate(zip(kinds, found, strict=True)):
                wanted = TensorType(own.name or kind.name, own.element, own.shape)
                # A shape of floats or truth values would be equal.
                is_plain = isinstance(kind.name, str) and all(type(extent) is int for extent in kind.shape)
                if kind != wanted or not is_plain:
                    raise ReproError(f"{role} {i} of the signature is {kind}, of the program {wanted}")
        for role, kinds in (("state", state), ("output", outputs)):
            double = [name for name, count in Counter(kind.name for kind in kinds).items() if count > 1]
            if double:
                raise ReproError(f"two {role} tensors have the name {double[0]!r}, expected names of their own")


@functools.lru_cache(maxsize=8)
def examine(data: bytes) -> Examined:
    """Reads and verifies a stored program.

    Raises:
      ReproError: bytes that are no program, with the first error and its place.
    """
    from repro_mlir import ir
    from repro_mlir._mlir_libs import _repro

    with ir.Context():
        module = read_module(data)
        main = module.body.operations[0]
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        num_state = ir.IntegerAttr(main.attributes["repro.num_state"]).value
        kept = _kept(ir, main, num_state)
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
def _first_identity(data: bytes) -> str:
    """The identity of version 1, which receipts and bundles of before name."""
    from repro_mlir import ir
    from repro_mlir._mlir_libs import _repro

    with ir.Context():
        return _repro.program_hash(read_module(data), 1)


@functools.cache
def compiler_identity() -> bytes:
    """Changes whenever the compiler library does. It is that of the library that is loaded, whatever comes later."""
    from repro_mlir._mlir_libs import _repro

    libraries = [
        f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}"
        for path in sorted(Path(_repro.__file__).parent.glob("*.so"))
        if "Repro" in path.name or path.name.startswith("_repro")
    ]
    return "\n".join(libraries).encode()


def read_module(data: bytes) -> ir.Module:
    """The canonical module that is stored as these bytes (docs/identity.md), in the current context.

    Raises:
      ReproError: any other bytes, with the place where they are wrong.
    """
    from repro_mlir._mlir_libs import _repro

    try:
        return _repro.read_program(data)
    except ValueError as error:
        raise ReproError(f"expected a stored program: {_first_lines(error)}") from None


def write_module(module: ir.Module) -> bytes:
    """A canonical module as it is stored. ReproError for a module that is none."""
    from repro_mlir._mlir_libs import _repro

    try:
        return _repro.write_program(module)
    except ValueError as error:
        raise ReproError(f"expected a canonical program: {_first_lines(error)}") from None


def from_bytes(data: bytes) -> str:
    """The text of a stored program, for people, with its locations. ReproError as `read_module`."""
    from repro_mlir import ir

    with ir.Context():
        return str(read_module(data).operation.get_asm(enable_debug_info=True))


def to_bytes(text: str) -> bytes:
    """The program with this text as it is stored. ReproError for text that is no canonical program."""
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


# Operations whose results hold elements of their operands; a generic does where it yields what it was given.
_MOVEMENTS = frozenset(
    ["linalg.generic", "repro.barrier", "repro.scatter"]
    + [f"tensor.{name}" for name in ("cast", "collapse_shape", "concat", "expand_shape", "extract", "extract_slice")]
    + [f"tensor.{name}" for name in ("from_elements", "insert_slice", "pad", "splat")]
)


def _results(main: Any) -> list[Any]:
    (block,) = main.regions[0].blocks
    return list(block.operations[len(block.operations) - 1].operands)


def _kept(ir: Any, main: Any, num_state: int) -> frozenset[int]:
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
