# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the statistics of single operands: blocks of zeros, NaN, infinities, scales at their limits, formats without
blocks."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from repro_mlir.precision.formats import DELAYED, ELEMENTS, RULES, Format, Scale, blocks
from repro_mlir.precision_report.statistics import (
    OperandStatistics,
    block_statistics,
    number_statistics,
    reference_format,
    relative_error,
    sqnr_db,
)
from repro_mlir.reference.low_precision.block_quantization import dequantize, quantize


def statistics_of(format: Format, x: np.ndarray, tensor: float | None = None) -> OperandStatistics:
    to = reference_format(format)
    given = None if tensor is None else np.float32(tensor)
    quantized = quantize(x, to, given)
    return block_statistics(format, x, quantized.codes, quantized.scales, quantized.tensor, dequantize(quantized, to))


def rows(*values: list[float]) -> np.ndarray:
    """Returns rows of 32 elements: the given values, and then zeros."""
    return np.array([row + [0.0] * (32 - len(row)) for row in values], np.float32)


def blocks_of(found: OperandStatistics) -> tuple[int, ...]:
    assert found.blocks is not None
    return dataclasses.astuple(found.blocks)


def test_scales_of_powers_of_two() -> None:
    """Covers a block of zeros, blocks with the least and a large scale, one with a NaN and one with an infinity."""
    x = rows([], [2.0**-149, 2.0**-140], [3e38, 1.0], [math.nan, 1.0], [math.inf, 1.0], [6.0, 0.2, -0.2])
    found = statistics_of(blocks("f4E2M1FN", "mx", "rceil"), x)
    assert blocks_of(found) == (6, 1, 1, 0, 2)
    # All elements of two blocks, 64 in total, are read as NaN.
    assert (found.nans, found.infinities, found.nans_after) == (1, 1, 64)
    # Elements that underflow: 2^-149 and 2^-140 with the scale 2^-127, 1 next to 3e38, and +-0.2 with the scale 1.
    assert (found.saturated, found.underflowed, found.sqnr_db) == (0, 5, None)
    assert found.zeros == x.size - 11
    assert found.histogram is not None and found.histogram.first == -149 and sum(found.histogram.counts) == 9
    greatest = statistics_of(blocks("f8E5M2", "mx", "floor"), rows([2.0**127, 1.999 * 2.0**127]))
    assert blocks_of(greatest) == (1, 0, 0, 0, 0) and greatest.saturated == 1


def test_more_than_half_a_step_above_the_greatest_value() -> None:
    """7 is half a step above 6, the largest value of f4E2M1FN. Only elements beyond 7 count as saturated."""
    format = blocks("f4E2M1FN", "mx", "floor")
    found = statistics_of(format, rows([7.0, -7.0, 7.000001, -7.5, 6.9]))
    assert found.saturated == 2
    least = statistics_of(blocks("mxint8_full", "mx", "floor"), rows([-1.9999, 1.0]))
    most = statistics_of(blocks("mxint8", "mx", "floor"), rows([-1.9999, 1.0]))
    # mxint8_full represents -2 as the code -128.
    assert (least.saturated, most.saturated) == (0, 1)


def test_scales_of_two_levels() -> None:
    x = np.full((1, 64), 1e-6, np.float32)
    x[0, 0], x[0, 48:] = 6.0, 0.0
    found = statistics_of(blocks("f4E2M1FN", "nvfp4", "nvfp4"), x)
    # The rule gives the block with the largest magnitude the scale 448. Two blocks get the scale 0, so their elements
    # become 0.
    assert blocks_of(found) == (4, 1, 2, 1, 0)
    assert (found.underflowed, found.saturated) == (47, 0)
    assert found.bytes == 32 + 4 + 4
    quotient = statistics_of(blocks("f4E2M1FN", "nvfp4", "nvfp4_quotient"), x, 6 / (6 * 448))
    assert blocks_of(quotient) == (4, 1, 2, 1, 0)


def test_scales_of_f32() -> None:
    x = np.array([[1e-9, 2e-9], [1.0, -2.0]], np.float32)
    format = dataclasses.replace(blocks("f8E4M3FN", "row", "float8"), scale=Scale("float8", least=1e-8))
    found = statistics_of(format, x)
    assert blocks_of(found) == (2, 0, 1, 0, 0) and found.bytes == 4 + 8
    # Divided by the scale, the greatest element is exactly 448, so no element is saturated although the scale is
    # rounded.
    assert found.saturated == 0
    assert statistics_of(format, np.zeros((2, 2), np.float32)).range is None


# test_delayed_scaling.py tests the delayed rule, which needs the whole tensor.
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != DELAYED])
def test_the_range_includes_all_nonzero_elements(rule: str) -> None:
    x = np.random.default_rng(0).standard_normal((8, 64), dtype=np.float32)
    x *= np.exp2(np.arange(8, dtype=np.float32) - 4)[:, np.newaxis]
    for element in ["f4E2M1FN"] if rule.startswith("nvfp4") else ELEMENTS:
        format = blocks(element, "mx", rule)
        tensor = float(np.abs(x).max()) / (6 * 448) if rule == "nvfp4_quotient" else None
        to = reference_format(format)
        found = statistics_of(format, x, tensor)
        values = np.abs(dequantize(quantize(x, to, None if tensor is None else np.float32(tensor)), to))
        exponents = np.frexp(values[values > 0])[1] - 1
        assert found.range is not None
        assert found.range.lowest <= exponents.min() and exponents.max() <= found.range.highest
        assert found.range.lowest <= found.range.least < found.range.greatest <= found.range.highest


def test_formats_without_blocks() -> None:
    before = np.array([1e-9, 65504, 65520, 0, math.inf, math.nan], np.float32)
    with np.errstate(over="ignore"):
        after = before.astype(np.float16).astype(np.float32)
    found = number_statistics(Format("f16"), before, after)
    assert (found.saturated, found.underflowed, found.zeros) == (1, 1, 1)
    assert (found.infinities, found.nans, found.nans_after, found.sqnr_db) == (1, 1, 1, None)
    assert (found.bytes, found.bytes_f32, found.blocks) == (12, 24, None)
    # A tf32 element is stored in the 4 bytes of an f32.
    assert number_statistics(Format("tf32"), before, before).bytes == 24
    assert number_statistics(Format("bf16"), before[:0], before[:0]).histogram is None


def test_ratios() -> None:
    x = np.array([3.0, 4.0], np.float32)
    assert sqnr_db(x, x) == "exact"
    assert sqnr_db(x, x + np.float32(0.5)) == 16.9897
    assert sqnr_db(0 * x, x) is None and sqnr_db(x, np.array([math.nan, 4])) is None
    assert relative_error(x, x) == 0 and relative_error(0 * x, 0 * x) == 0
    assert relative_error(x, np.array([3.0, 4.5])) == 0.1
    assert relative_error(0 * x, x) is None and relative_error(x, np.array([math.inf, 4])) is None
    # If the elements were added in order, each 1 would be lost next to 2^54.
    ones = np.array([2.0**27, *np.ones(1023)])
    assert relative_error(np.ones(1024), 1 + ones) == float(f"{math.sqrt((2.0**54 + 1023) / 1024):.6g}")
