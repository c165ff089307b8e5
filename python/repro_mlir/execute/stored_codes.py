# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Inference programs whose state has quantized weights: the codes and scales that a recipe computes from each
weight."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro_mlir import ir
from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.execute.executable import compile
from repro_mlir.program import Program
from repro_mlir.program.canonical import read_module, write_module
from repro_mlir.program.program import read_signature
from repro_mlir.program.signatures import named, set_arguments, set_results, signed_arguments, signed_results

_QUANTIZE = "repro.quantize"
_PARTS = ("codes", "scales", "tensor")


@float_environment()
def store_codes(program: Program, target: str = "cpu", threads: int | None = None) -> Program:
    """Returns an inference program that reads codes and scales (Q2) instead of quantizing the weights in each run.

    Results of `repro.quantize` that depend on the state alone are computed once and become state, with f4 codes packed
    two per byte (Q7); a weight that no other operation reads is removed from the state. The outputs are the same, bit
    for bit; the program and its hash differ.

    Args:
      program: inference under a recipe with weights in blocks (`apply_precision`), with its initial state.
      target, threads: where the codes are computed, as for `repro_mlir.compile`; no bit depends on them.
    Returns:
      A program with the same inputs and outputs. Its state consists of the remaining tensors of the former state and,
      after these, `<weight>.codes` and `<weight>.scales` for each tensor in blocks, and `<weight>.tensor` if a scale
      uses the amax of more than a block.
    Raises:
      ReproError: a program that changes its state, that has no weight in blocks, or that has no initial state.
    """
    if not isinstance(program, Program):
        raise ReproError(f"expected a Program, got a {type(program).__name__}")
    if len(program.examined.kept) != len(program.state):
        raise ReproError("expected inference, which does not change the state: codes would not follow changed weights")
    weights = [*program.initial_state().values()]
    with ir.Context(), ir.Location.unknown():
        found = _find(program)
        read = sorted(found.read)
        making = read_signature(_making(found))
        left, data = _reading(_find(program), len(program.state))
    making = dataclasses.replace(making, untrusted=program.untrusted)
    _, made = compile(making, target, threads)({}, *(weights[i] for i in read))
    return dataclasses.replace(
        program,
        data=data,
        state=(*(program.state[i] for i in left), *making.outputs),
        initial=(*(program.initial[i] for i in left), *map(np.asarray, made.values())),
    )


@dataclass
class _Codes:
    """The quantized values that a program computes from its state alone.

    Attributes:
      module: the program.
      values: the values that become state, by name.
      read: the indices of the state tensors that the values are computed from.
    """

    module: ir.Module
    values: dict[str, Any]
    read: set[int]

    @property
    def main(self) -> Any:
        """The function of the module."""
        return self.module.body.operations[0]

    @property
    def block(self) -> Any:
        """The only block of the function."""
        return self.main.regions[0].blocks[0]


def _find(program: Program) -> _Codes:
    found = _Codes(read_module(program.data), {}, set())
    names = {kind.name for kind in program.state}
    # Maps each value that depends on the state alone to the indices of the state tensors on which it depends.
    known = {found.block.arguments[i]: {i} for i in range(len(program.state))}
    for op in found.block.operations:
        read = _outside(op.operation)
        if not all(value in known for value in read):
            continue
        origin = set().union(*(known[value] for value in read))
        known |= dict.fromkeys(op.operation.results, origin)
        if op.operation.name != _QUANTIZE or not origin:
            continue
        weight = program.state[min(origin)].name
        base = next(each for each in _candidates(weight) if not any(f"{each}.{part}" in names for part in _PARTS))
        for part, value in zip(_PARTS, [*op.operation.results, *_tensor(op.operation)], strict=False):
            if value not in found.values.values():
                found.values[f"{base}.{part}"] = value
        names.update(found.values)
        found.read |= origin
    if not found.values:
        raise ReproError("expected inference under a recipe with weights in blocks, got one that quantizes no state")
    return found


def _candidates(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}.{number}" for number in itertools.count(1))


def _tensor(quantize: ir.Operation) -> list[Any]:
    """Returns a list with the tensor-wide scale of a quantization. The list is empty if the quantization has no such
    scale, if the scale is an argument of the program, or if only quantizations read it."""
    if not ir.DenseI32ArrayAttr(quantize.attributes["operandSegmentSizes"])[1]:
        return []
    value = quantize.operands[1]
    is_kept = any(use.owner.operation.name != _QUANTIZE for use in value.uses)
    return [value] if is_kept and not isinstance(value, ir.BlockArgument) else []


def _outside(op: Any) -> set[Any]:
    """Returns the values that an operation or its regions read and that are defined outside the operation."""
    read: set[Any] = set()
    own: set[Any] = set()

    def look(inner: Any) -> ir.WalkResult:
        read.update(inner.operands)
        own.update(inner.results)
        own.update(value for region in inner.regions for block in region for value in block.arguments)
        return ir.WalkResult.ADVANCE

    op.walk(look)
    return read - own


def _making(found: _Codes) -> bytes:
    """Returns the stored program that computes the values that become state (outputs) from the weights (inputs)."""
    arguments = signed_arguments(found.main)
    with ir.InsertionPoint.at_block_terminator(found.block):
        made = {name: _packed(value) for name, value in found.values.items()}
    set_results(found.main, [named(value, name) for name, value in made.items()])
    for op in list(found.block.operations)[:-1]:
        # Removes the checks (E1): the program that `_reading` returns has the user's inputs and keeps the checks.
        if not list(op.operation.results):
            op.operation.erase()
    _erase_unread(found.block)
    set_arguments(found.main, [each for i, each in enumerate(arguments) if i in found.read], 0)
    return write_module(found.module)


def _reading(found: _Codes, num_state: int) -> tuple[list[int], bytes]:
    """Returns the indices of the state tensors that are kept, and the stored program that reads these and then the
    quantized values as its state. A weight is dropped if the program reads only values that were quantized from it."""
    arguments, results = signed_arguments(found.main), signed_results(found.main)
    added = []
    for name, value in found.values.items():
        argument = found.block.add_argument(_packed_type(value.type) or value.type, ir.Location.unknown())
        with ir.InsertionPoint.at_block_begin(found.block):
            value.replace_all_uses_with(_unpacked(argument, value.type))
        added.append(named(argument, name))
    _erase_unread(found.block)
    # A weight that is no longer read still has one use: the function returns it.
    left = [i for i in range(num_state) if i not in found.read or len([*arguments[i][0].uses]) > 1]
    set_results(found.main, [*(results[i] for i in left), *added, *results[num_state:]])
    state = [*(arguments[i] for i in left), *added]
    set_arguments(found.main, [*state, *arguments[num_state:]], len(state))
    return left, write_module(found.module)


def _packed_type(kind: Any) -> Any:
    """Returns the type of packed codes (Q7); None for element types that are not packed."""
    tensor = ir.RankedTensorType(kind)
    if not isinstance(tensor.element_type, ir.Float4E2M1FNType):
        return None
    *rows, columns = tensor.shape
    return ir.RankedTensorType.get([*rows, -(-columns // 2)], ir.IntegerType.get_signless(8))


def _packed(value: Any) -> Any:
    """Returns the value to store as state: packed codes if the element type is a packed one, else `value` itself."""
    kind = _packed_type(value.type)
    return value if kind is None else ir.Operation.create("repro.pack_codes", [kind], [value]).result


def _unpacked(state: Any, kind: Any) -> Any:
    """Returns the value of type `kind` that `_packed` stored as `state`."""
    return state if state.type == kind else ir.Operation.create("repro.unpack_codes", [kind], [state]).result


def _erase_unread(block: Any) -> None:
    """Erases all operations on which neither the results of the function nor a check (E1) depends. The checks are the
    operations without results."""
    for op in reversed(list(block.operations)[:-1]):
        results = list(op.operation.results)
        if results and not any([*value.uses] for value in results):
            op.operation.erase()
