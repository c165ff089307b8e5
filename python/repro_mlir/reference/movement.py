# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operations on tensors that only move elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .bodies import CompiledBody
from .errors import StepError
from .indexing import Along, Block
from .program import Operation

_DYNAMIC = -(2**63)
"""How MLIR marks an entry of a static_... attribute that an operand gives."""

Environment = dict[int, np.ndarray]


def _mixed(op: Operation, env: Environment, names: list[str], first_segment: int) -> list[list[int]]:
    """The values of attributes such as static_offsets, with the dynamic ones filled in from the operands."""
    segments = op.attributes["operandSegmentSizes"]
    at = sum(segments[:first_segment])
    lists = []
    for name in names:
        values = []
        for value in op.attributes[name]:
            if value == _DYNAMIC:
                value = int(env[op.operands[at]])
                at += 1
            values.append(value)
        lists.append(values)
    return lists


def _slices(op: Operation, env: Environment, shape: tuple[int, ...], first_segment: int) -> tuple[slice, ...]:
    names = ["static_offsets", "static_sizes", "static_strides"]
    slices = []
    for dim, (offset, size, stride) in enumerate(zip(*_mixed(op, env, names, first_segment), strict=True)):
        last = offset + max(size - 1, 0) * stride
        if size < 0 or stride < 1 or offset < 0 or (last >= shape[dim] if size else offset > shape[dim]):
            raise StepError(
                f"{op.location}: '{op.name}': expected a slice of dimension {dim} within 0 .. {shape[dim] - 1}, "
                f"got offset {offset}, size {size}, stride {stride}"
            )
        slices.append(slice(offset, last + 1 if size else offset, stride))
    return tuple(slices)


def _extract_slice(op: Operation, env: Environment) -> np.ndarray:
    source = env[op.operands[0]]
    return source[_slices(op, env, source.shape, 1)].reshape(op.result_types[0].shape or ())


def _insert_slice(op: Operation, env: Environment) -> np.ndarray:
    source, result = env[op.operands[0]], env[op.operands[1]].copy()
    slices = _slices(op, env, result.shape, 2)
    result[slices] = source.reshape(result[slices].shape)
    return result


def _pad(op: Operation, env: Environment) -> np.ndarray:
    source, shape = env[op.operands[0]], op.result_types[0].shape or ()
    low, high = _mixed(op, env, ["static_low", "static_high"], 1)
    wanted = tuple(below + n + above for below, n, above in zip(low, source.shape, high, strict=True))
    if min(low + high, default=0) < 0 or wanted != shape:
        raise op.error(f"expected low and high not to be negative and to give the shape {shape}, got {low} and {high}")
    body = CompiledBody(op.regions[0], env)
    block = Block(tuple(Along(1 + d, 0, n) for d, n in enumerate(shape)), 1 + len(shape))
    grids = [np.asarray(block.grid(d)) for d in range(len(shape))]
    result = np.empty((1, *shape), source.dtype)
    if result.size:
        result[...] = body(grids, block)[0]
    result = result[0]
    result[tuple(slice(below, below + n) for below, n in zip(low, source.shape, strict=True))] = source
    return result


def _reshape(op: Operation, env: Environment) -> np.ndarray:
    return env[op.operands[0]].reshape(op.result_types[0].shape or ())


def _cast(op: Operation, env: Environment) -> np.ndarray:
    if op.operand_types[0] != op.result_types[0]:
        raise op.error(f"expected a cast between equal static types, got {op.operand_types[0]} to {op.result_types[0]}")
    return env[op.operands[0]]


def _empty(op: Operation, env: Environment) -> np.ndarray:
    # (F6) an empty init reads as zero
    return np.zeros(op.result_types[0].shape or (), op.result_types[0].element.dtype)


def _from_elements(op: Operation, env: Environment) -> np.ndarray:
    shape, dtype = op.result_types[0].shape or (), op.result_types[0].element.dtype
    return np.array([env[n] for n in op.operands], dtype).reshape(shape)


def _splat(op: Operation, env: Environment) -> np.ndarray:
    return np.full(op.result_types[0].shape or (), env[op.operands[0]])


def _concat(op: Operation, env: Environment) -> np.ndarray:
    return np.concatenate([env[n] for n in op.operands], axis=op.attributes["dim"])


MOVEMENTS: dict[str, Callable[[Operation, Environment], np.ndarray]] = {
    "tensor.cast": _cast,
    "tensor.collapse_shape": _reshape,
    "tensor.concat": _concat,
    "tensor.empty": _empty,
    "tensor.expand_shape": _reshape,
    "tensor.extract_slice": _extract_slice,
    "tensor.from_elements": _from_elements,
    "tensor.insert_slice": _insert_slice,
    "tensor.pad": _pad,
    "tensor.splat": _splat,
}
