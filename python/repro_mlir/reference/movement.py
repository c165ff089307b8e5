# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tensor operations that only move elements or pass them through."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from repro_mlir.reference.bodies import CompiledBody
from repro_mlir.reference.indexing import Along, IndexBlock
from repro_mlir.reference.program import Operation

Environment = dict[int, np.ndarray]


def _slices(op: Operation, shape: tuple[int, ...]) -> tuple[slice, ...]:
    numbers = (op.attributes[f"static_{name}"] for name in ("offsets", "sizes", "strides"))
    slices = []
    for dim, (offset, size, stride) in enumerate(zip(*numbers, strict=True)):
        last = offset + max(size - 1, 0) * stride
        if stride < 1 or (last >= shape[dim] if size else offset > shape[dim]):
            raise op.error(
                f"(A3) expected a slice of dimension {dim} within 0 .. {shape[dim] - 1}, "
                f"got offset {offset}, size {size}, stride {stride}"
            )
        slices.append(slice(offset, last + 1 if size else offset, stride))
    return tuple(slices)


def _extract_slice(op: Operation, env: Environment) -> np.ndarray:
    source = env[op.operands[0]]
    return source[_slices(op, source.shape)].reshape(op.result_types[0].shape or ())


def _insert_slice(op: Operation, env: Environment) -> np.ndarray:
    source, result = env[op.operands[0]], env[op.operands[1]].copy()
    slices = _slices(op, result.shape)
    result[slices] = source.reshape(result[slices].shape)
    return result


def _pad(op: Operation, env: Environment) -> np.ndarray:
    source, shape = env[op.operands[0]], op.result_types[0].shape or ()
    low, high = op.attributes["static_low"], op.attributes["static_high"]
    wanted = tuple(below + n + above for below, n, above in zip(low, source.shape, high, strict=True))
    if wanted != shape:
        raise op.error(f"(A3) expected low and high padding to the shape {shape}, got {low} and {high}")
    body = CompiledBody(op.regions[0], env)
    block = IndexBlock(tuple(Along(1 + d, 0, n) for d, n in enumerate(shape)), 1 + len(shape))
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


def _barrier(op: Operation, env: Environment) -> np.ndarray:
    if op.operand_types[0] != op.result_types[0]:
        raise op.error(f"(V5) expected a result of the operand's type {op.operand_types[0]}, got {op.result_types[0]}")
    return env[op.operands[0]]


def _empty(op: Operation, env: Environment) -> np.ndarray:
    # (F6) A canonical program does not read these elements, so their values are irrelevant.
    return np.zeros(op.result_types[0].shape or (), op.result_types[0].element.dtype)


def _from_elements(op: Operation, env: Environment) -> np.ndarray:
    shape, dtype = op.result_types[0].shape or (), op.result_types[0].element.dtype
    return np.array([env[n] for n in op.operands], dtype).reshape(shape)


MOVEMENTS: dict[str, Callable[[Operation, Environment], np.ndarray]] = {
    "repro.barrier": _barrier,
    "tensor.cast": _cast,
    "tensor.collapse_shape": _reshape,
    "tensor.concat": lambda op, env: np.concatenate([env[n] for n in op.operands], axis=op.attributes["dim"]),
    "tensor.empty": _empty,
    "tensor.expand_shape": _reshape,
    "tensor.extract_slice": _extract_slice,
    "tensor.from_elements": _from_elements,
    "tensor.insert_slice": _insert_slice,
    "tensor.pad": _pad,
    "tensor.splat": lambda op, env: np.full(op.result_types[0].shape or (), env[op.operands[0]]),
}
