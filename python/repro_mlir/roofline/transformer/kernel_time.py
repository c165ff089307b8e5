# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Predicts the time of a kernel on an accelerator from its roofline bound and its utilization of the device."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from repro_mlir.roofline.machines import Accelerator
from repro_mlir.roofline.transformer.number_formats import NUMBER_FORMATS
from repro_mlir.roofline.transformer.operations import Operation, Product

# The rows and the columns of a tile, and the number of multiprocessors that share the tile's operands.
_TILES = ((64, 64, 1), (128, 64, 1), (64, 128, 1), (128, 128, 1), (256, 128, 1), (128, 256, 1), (256, 256, 2))
# The minimum number of terms of a partial sum if the dimension k is split.
_LEAST_TERMS = 256


def operation_seconds(operation: Operation, machine: Accelerator) -> float:
    """Returns the time of a kernel.

    The time is that of arithmetic or of memory, whichever is longer (Williams et al., 2009), plus that of launches.
    Within a kernel, the times of matrix and vector units add up. The small products of fused attention run at the same
    time, so they are not rounded up to waves of tiles.
    """
    memory = operation.bytes / (machine.memory_bandwidth * machine.memory_efficiency)
    vector = operation.vector_flops / (machine.f32_flops * machine.vector_efficiency)
    special_rate = machine.special_rate * machine.multiprocessors * machine.clock_hz
    if operation.exponentials:
        vector += operation.exponentials / (special_rate or machine.f32_flops)
    if operation.group == "attention" and len(operation.products) > 1:
        matrix = sum(each.flops / _rate(each, machine) for each in operation.products)
    else:
        matrix = sum(product_seconds(each, machine) for each in operation.products)
    return max(matrix + vector, memory) + operation.launches * machine.launch_seconds


def total_seconds(operations: Iterable[Operation], machine: Accelerator) -> float:
    """Returns the time of kernels that run one after the other."""
    return sum(operation_seconds(each, machine) for each in operations)


@lru_cache(maxsize=4096)
def product_seconds(product: Product, machine: Accelerator) -> float:
    """Returns the arithmetic time of a product with the fastest tile size.

    Tiles run in waves of one tile per multiprocessor, and the last wave can be partial. Each tile reads its operands
    from the L2 cache. If there are few tiles, the dimension k is split among several multiprocessors, whose partial
    sums go through memory. Matrix units compute whole tiles; vector units compute only the rows and columns that the
    product has.
    """
    format = NUMBER_FORMATS[product.format]
    operand, is_whole = format.operand_bytes, format.has_matrix_units(machine)
    found = []
    for rows, columns, group in _TILES:
        tiles = product.batch * -(-product.m // rows) * -(-product.n // columns)
        own_rows, own_columns = min(rows, product.m), min(columns, product.n)
        elements = rows * columns if is_whole else own_rows * own_columns
        workers = max(1, machine.multiprocessors // group)
        rate = _rate(product, machine) / workers
        parts = 1
        while True:
            terms = product.k / parts
            waves = -(-tiles * parts // workers)
            compute = waves * 2 * elements * terms / rate
            cached = tiles * parts * (own_rows + own_columns) * terms * operand / max(machine.l2_bandwidth, 1e-12)
            sums = 0.0 if parts == 1 else 8.0 * parts * product.batch * product.m * product.n
            sums /= machine.memory_bandwidth * machine.memory_efficiency
            found.append(max(compute, cached if machine.l2_bandwidth else 0.0) + sums)
            parts *= 2
            if tiles * parts > 2 * workers or product.k / parts < _LEAST_TERMS:
                break
    return min(found)


def _rate(product: Product, machine: Accelerator) -> float:
    """Returns the operations per second that large products reach on the units that compute the product."""
    return NUMBER_FORMATS[product.format].peak(machine) * machine.matrix_efficiency
