# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares the integer arithmetic of the low-precision rules, which uses NumPy, with Python's integers."""

from __future__ import annotations

import numpy as np
import torch
from edge_values import bits
from repro_mlir.reference.low_precision import f32_operations
from repro_mlir.reference.low_precision.exact_rounding import bit_length, shift_left


def test_V2_subnormals_are_kept_whatever_the_caller_has_set() -> None:
    small = np.array([2.0**-140], np.float32)
    torch.set_flush_denormal(True)
    try:
        found = [f32_operations.multiply(small, np.float32(2)), f32_operations.add(small, small)]
    finally:
        torch.set_flush_denormal(False)
    assert [bits(each).tolist() for each in found] == [[1 << 10]] * 2
    assert bits(f32_operations.divide(np.float32(0), np.float32(0))).tolist() == 0x7FC00000


def test_amax_S2() -> None:
    x = np.array([[0.0, -0.0], [-3.0, 2.0], [np.inf, 1.0], [-np.inf, np.nan], [-(2.0**-149), 0.0]], np.float32)
    want = np.array([0.0, 3.0, np.inf, np.nan, 2.0**-149], np.float32)
    np.testing.assert_array_equal(bits(f32_operations.largest_magnitude(x, -1)), bits(want))
    assert bits(f32_operations.largest_magnitude(np.zeros((1, 0), np.float32), -1)).tolist() == [0]


def test_integers() -> None:
    rng = np.random.default_rng(6)
    x = np.concatenate([rng.integers(0, 2**62, 2000) >> rng.integers(0, 62, 2000), [0, 1, 2**53, 2**53 - 1, 2**62 - 1]])
    assert list(bit_length(x)) == [int(v).bit_length() for v in x]
    for count in (-70, -3, 0):
        assert list(shift_left(x, np.full_like(x, count))) == [int(v) >> -count for v in x]
