# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Loss functions of a model's output, written as MLIR text."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.program.writer import Number, Tensor, Writer


@dataclass(frozen=True)
class Loss:
    """A loss function, as functions that write its MLIR text.

    Attributes:
      target: maps the type of the model's output to the type of the target. Raises ReproError if the loss cannot be
        computed for this output.
      write: writes the computation of the loss, f32 of shape [], from the model's output and the target.
    """

    target: Callable[[TensorType], TensorType]
    write: Callable[[Writer, Tensor, Tensor], Tensor]


def mean_squared_error() -> Loss:
    """Returns the loss that is the mean of (output - target)^2 over all elements; output and target are f32 of the same
    shape."""

    def target(output: TensorType) -> TensorType:
        _check_output(output, 0)
        return TensorType("target", "f32", output.shape)

    def write(writer: Writer, output: Tensor, target: Tensor) -> Tensor:
        squares = writer.map([output, target], lambda x, y: (x - y) * (x - y))
        return _mean(writer, squares)

    return Loss(target, write)


def cross_entropy() -> Loss:
    """Returns the loss that is the mean over rows of -log(softmax(logits)[target]).

    The output is f32 [N, C] or [N, C, *], the target i64 [N] or [N, *] with values from 0 to C - 1; with any other
    value the step has no result (E1). The logarithm is x - max - log(sum(exp(x - max))).
    """

    def target(output: TensorType) -> TensorType:
        _check_output(output, 2)
        return TensorType("target", "i64", (output.shape[0], *output.shape[2:]))

    def write(writer: Writer, output: Tensor, target: Tensor) -> Tensor:
        shape = output.kind.shape
        rows = [dim for dim in range(len(shape)) if dim != 1]
        whole = range(len(shape))
        greatest = writer.reduce(output, [1], -math.inf, "arith.maximumf")
        exponentials = writer.map([output, greatest], lambda x, most: (x - most).apply("repro.exp"), [whole, rows])
        total = writer.reduce(exponentials, [1], 0.0, "arith.addf")

        def negated(chosen: Number, most: Number, total: Number) -> Number:
            return total.apply("repro.log") - (chosen - most)

        return _mean(writer, writer.map([writer.take(output, target), greatest, total], negated))

    return Loss(target, write)


def _check_output(output: TensorType, rank: int) -> None:
    if output.element != "f32" or len(output.shape) < rank or math.prod(output.shape) == 0:
        raise ReproError(f"expected a non-empty f32 output of at least {rank} dimensions for the loss, got {output}")


def _mean(writer: Writer, values: Tensor) -> Tensor:
    total = writer.reduce(values, range(len(values.kind.shape)), 0.0, "arith.addf")
    return writer.map([total], lambda x: x / float(math.prod(values.kind.shape)))
