# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Contractions: matrix products (K1) and convolutions (K2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from repro_mlir.frontends.stablehlo import emit
from repro_mlir.frontends.stablehlo.calls import Builder, Calls
from repro_mlir.frontends.stablehlo.rules import Unsupported, rule


@rule("stablehlo.convolution")
def convolution(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Lowers to repro.convolution. Transposes operands and result, because that operation has a fixed order of
    dimensions."""
    attributes = operation.attributes
    numbers = hlo.ConvDimensionNumbers(attributes["dimension_numbers"])
    value, kernel = operation.operands
    result = ir.RankedTensorType(operation.results[0].type)
    value = emit.transpose(
        value,
        [numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions],
    )
    kernel = emit.transpose(
        kernel,
        [
            numbers.kernel_output_feature_dimension,
            numbers.kernel_input_feature_dimension,
            *numbers.kernel_spatial_dimensions,
        ],
    )
    if any(isinstance(each, ir.IntegerType) for each in (result.element_type, emit.element_of(value))):
        value, kernel = (emit.convert(each, result.element_type) for each in (value, kernel))
    order = [numbers.output_batch_dimension, numbers.output_feature_dimension, *numbers.output_spatial_dimensions]
    shape = [result.shape[dim] for dim in order]
    rank = len(shape) - 2

    def entries(name: str) -> list[int]:
        return list(ir.DenseI64ArrayAttr(attributes[name])) if name in attributes else [1] * rank

    padding = np.zeros((rank, 2), np.int64)
    if "padding" in attributes:
        padding[:] = np.array(ir.DenseElementsAttr(attributes["padding"])).reshape(rank, 2)
    reversal = list(ir.DenseBoolArrayAttr(attributes["window_reversal"])) if "window_reversal" in attributes else []
    groups = {
        name: ir.IntegerAttr(attributes[source]).value
        for name, source in (("feature_groups", "feature_group_count"), ("batch_groups", "batch_group_count"))
    }

    arrays = {
        "strides": entries("window_strides"),
        "padding_low": padding[:, 0].tolist(),
        "padding_high": padding[:, 1].tolist(),
        "input_dilation": entries("lhs_dilation"),
        "kernel_dilation": entries("rhs_dilation"),
    }

    def write(build: Builder, operands: list[ir.Value]) -> list[ir.Value]:
        described: dict[str, ir.Attribute] = {name: ir.DenseI64ArrayAttr.get(entry) for name, entry in arrays.items()}
        described["window_reversal"] = ir.DenseBoolArrayAttr.get(reversal or [False] * rank)
        described |= {name: ir.IntegerAttr.get(emit.i64(), count) for name, count in groups.items()}
        return build.create("repro.convolution", [operands], build.types, described)

    init = emit.splat(shape, result.element_type, 0)
    total = calls.call([value, kernel, init], [init.type], write)[0]
    return [emit.transpose(total, [order.index(dim) for dim in range(len(order))])]


@rule("stablehlo.dot_general")
def dot_general(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value] | None:
    """Converts operands of different element types to the result's type; rejects an algorithm other than (K1)."""
    factors = list(operation.operands)
    elements = [emit.element_of(factor) for factor in factors]
    result = ir.RankedTensorType(operation.results[0].type)
    attributes = dict(operation.attributes.items())
    if "algorithm" in attributes:
        algorithm = hlo.DotAlgorithm(attributes.pop("algorithm"))
        types = [algorithm.lhs_precision_type, algorithm.rhs_precision_type]
        sums = ir.F64Type.get() if ir.F64Type.get() in elements else ir.F32Type.get()
        counts = algorithm.lhs_component_count, algorithm.rhs_component_count, algorithm.num_primitive_operations
        if types != elements or algorithm.accumulation_type != sums or counts != (1, 1, 1):
            raise Unsupported(f"is not supported with the algorithm {algorithm}")
    elif elements[0] == elements[1]:
        return None
    if elements[0] != elements[1]:
        factors = [emit.convert(factor, result.element_type) for factor in factors]
    return [ir.Operation.create(operation.name, results=[result], operands=factors, attributes=attributes).result]
