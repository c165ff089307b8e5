# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Evaluates the body of a structured operation for a whole block of its iteration space at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from repro_mlir.reference.elementwise import evaluator
from repro_mlir.reference.indexing import IndexBlock
from repro_mlir.reference.program import Body, Operation

_INDEX_OPS = ("linalg.index", "repro.index")


class CompiledBody:
    """A callable that evaluates the body of an operation: maps arrays of the body's arguments to arrays of its yielded
    values.

    `leave_out`, if given, is an operation whose result only the terminator uses. `leave_out` is not evaluated: the
    callable returns its operands, except the block argument `without`, instead of its result.
    """

    def __init__(
        self,
        body: Body,
        env: dict[int, np.ndarray],
        leave_out: Operation | None = None,
        without: int | None = None,
    ) -> None:
        self._captured = {number: env[number] for number in body.captured()}
        self._arguments = body.arguments
        self._steps: list[tuple[Callable, tuple[int, ...], tuple[int, ...], int | None]] = []
        self._yields = body.yields
        for op in body.operations:
            if op is leave_out:
                self._yields = tuple(number for number in op.operands if number != without)
            elif op.name in _INDEX_OPS:
                self._steps.append((_no_index, (), op.results, op.attributes["dim"]))
            else:
                self._steps.append((evaluator(op), op.operands, op.results, None))

    def __call__(self, arguments: Sequence[np.ndarray], block: IndexBlock) -> list[np.ndarray]:
        """Evaluates the body on arrays for its arguments; `block` provides the values of linalg.index."""
        values = dict(self._captured)
        values.update(zip(self._arguments, arguments, strict=False))
        for evaluate, operands, results, index in self._steps:
            if index is not None:
                values[results[0]] = np.asarray(block.grid(index), np.int64)
                continue
            result = evaluate(*[values[number] for number in operands])
            if isinstance(result, tuple):
                values.update(zip(results, result, strict=True))
            else:
                values[results[0]] = result
        return [values[number] for number in self._yields]


def _no_index() -> np.ndarray:
    raise AssertionError("expected an index that is computed in the block, not read from it")
