# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Batch normalization as StableHLO defines it, computed in f32 for narrower types."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from repro_mlir.frontends.stablehlo import emit
from repro_mlir.frontends.stablehlo.calls import Calls
from repro_mlir.frontends.stablehlo.rules import rule


class _Features:
    """The operands of a batch normalization, its feature dimension and the number of elements per feature."""

    def __init__(self, operation: ir.Operation) -> None:
        value = operation.operands[0]
        self.shape = emit.shape_of(value)
        self.feature = ir.IntegerAttr(operation.attributes["feature_index"]).value
        self.others = [dim for dim in range(len(self.shape)) if dim != self.feature]
        self.count = float(emit.size(self.shape) // max(self.shape[self.feature], 1))
        self.epsilon = ir.FloatAttr(operation.attributes["epsilon"]).value
        given = emit.element_of(value)
        self.element = given if isinstance(given, ir.F64Type) else ir.F32Type.get()
        self.operands = [emit.convert(each, self.element) for each in operation.operands]
        self._types = [emit.element_of(each) for each in operation.results]

    def over(self, value: ir.Value) -> ir.Value:
        """Broadcasts one number per feature to all elements."""
        return emit.broadcast(value, self.shape, [self.feature])

    def total(self, value: ir.Value) -> ir.Value:
        """Returns the sum of the elements per feature."""
        scalar = emit.tensor([], self.element)
        made = hlo.ReduceOp(
            [emit.tensor([self.shape[self.feature]], self.element)],
            [value],
            [emit.splat([], self.element, 0)],
            ir.DenseI64ArrayAttr.get(self.others),
        )
        block = made.regions[0].blocks.append(scalar, scalar)
        with ir.InsertionPoint(block):
            hlo.return_([hlo.add(*block.arguments)])
        return made.results[0]

    def deviation(self, variance: ir.Value) -> ir.Value:
        """Returns sqrt(variance + epsilon) for each feature."""
        return hlo.sqrt(hlo.add(variance, emit.like(variance, self.epsilon)))

    def normalized(self, mean: ir.Value, variance: ir.Value, scale: ir.Value, offset: ir.Value) -> ir.Value:
        """Returns (x - mean) * scale / deviation + offset."""
        centered = hlo.subtract(self.operands[0], self.over(mean))
        scaled = hlo.divide(hlo.multiply(centered, self.over(scale)), self.over(self.deviation(variance)))
        return hlo.add(scaled, self.over(offset))

    def narrowed(self, *values: ir.Value) -> list[ir.Value]:
        """Converts the results to the operation's result types."""
        return [emit.convert(value, kind) for value, kind in zip(values, self._types, strict=True)]


@rule("stablehlo.batch_norm_training")
def training(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Normalizes by the mean and variance of the elements; returns the result, the mean and the variance."""
    features = _Features(operation)
    value, scale, offset = features.operands
    mean = _divided(features.total(value), features.count)
    centered = hlo.subtract(value, features.over(mean))
    variance = _divided(features.total(hlo.multiply(centered, centered)), features.count)
    return features.narrowed(features.normalized(mean, variance, scale, offset), mean, variance)


@rule("stablehlo.batch_norm_inference")
def inference(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Normalizes by the given mean and variance."""
    features = _Features(operation)
    _, scale, offset, mean, variance = features.operands
    return features.narrowed(features.normalized(mean, variance, scale, offset))


@rule("stablehlo.batch_norm_grad")
def gradient(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Returns the gradients of the operands of batch normalization in training, from the mean and variance of the
    batch."""
    features = _Features(operation)
    value, scale, mean, variance, given = features.operands
    over = features.over
    centered = hlo.subtract(value, over(mean))
    deviation = features.deviation(variance)
    total, along = features.total(given), features.total(hlo.multiply(given, centered))
    squared = hlo.add(variance, emit.like(variance, features.epsilon))
    inner = hlo.subtract(
        hlo.subtract(hlo.multiply(given, emit.like(given, features.count)), over(total)),
        hlo.divide(hlo.multiply(over(along), centered), over(squared)),
    )
    factor = _divided(hlo.divide(scale, deviation), features.count)
    scaled = features.total(hlo.multiply(given, hlo.divide(centered, over(deviation))))
    return features.narrowed(hlo.multiply(over(factor), inner), scaled, total)


def _divided(value: ir.Value, count: float) -> ir.Value:
    return hlo.divide(value, emit.like(value, count))
