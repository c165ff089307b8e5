# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q1), (Q3) Compares the values of codes, and rounding to codes, with the package `gfloat`, in a separate environment
(`make gfloat-test`)."""

from __future__ import annotations

import numpy as np
import pytest
from gfloat import RoundMode, decode_ndarray, formats, round_ndarray
from repro_mlir.reference.low_precision.binary_formats import FORMATS, decode, decode_e8m0
from repro_mlir.reference.low_precision.block_rounding import (
    NEAREST_AWAY,
    NEAREST_EVEN,
    TOWARD_ZERO,
    round_elements,
    stochastic,
)

COUNT = 1_000_000

THEIRS = {
    "f8E4M3FN": formats.format_info_ocp_e4m3,
    "f8E5M2": formats.format_info_ocp_e5m2,
    "f6E3M2FN": formats.format_info_ocp_e3m2,
    "f6E2M3FN": formats.format_info_ocp_e2m3,
    "f4E2M1FN": formats.format_info_ocp_e2m1,
    "mxint8_full": formats.format_info_ocp_int8,
    "f16": formats.format_info_binary16,
    "bf16": formats.format_info_bfloat16,
}


def values() -> np.ndarray:
    """Returns a million f32 values: half are finite numbers with random bits, half have exponents near that of 1."""
    rng = np.random.default_rng(1)
    free = rng.integers(0, 2**32, COUNT // 2, dtype=np.uint32).view(np.float32)
    near = (rng.standard_normal(COUNT // 2) * 2.0 ** rng.integers(-20, 20, COUNT // 2)).astype(np.float32)
    return np.concatenate([free[np.isfinite(free)], near])


@pytest.mark.parametrize("name", THEIRS)
def test_codes(name: str) -> None:
    codes = np.arange(1 << FORMATS[name].width)
    np.testing.assert_array_equal(decode(codes, FORMATS[name]), decode_ndarray(THEIRS[name], codes))


def test_codes_of_scales() -> None:
    codes = np.arange(256)
    np.testing.assert_array_equal(decode_e8m0(codes), decode_ndarray(formats.format_info_ocp_e8m0, codes))


@pytest.mark.parametrize("name", THEIRS)
@pytest.mark.parametrize(
    "ours, theirs",
    [
        (NEAREST_EVEN, RoundMode.TiesToEven),
        (NEAREST_AWAY, RoundMode.TiesToAway),
        (TOWARD_ZERO, RoundMode.TowardZero),
    ],
)
def test_roundings(name: str, ours: object, theirs: RoundMode) -> None:
    x = values()
    got = decode(round_elements(x, FORMATS[name], ours), FORMATS[name])
    want = round_ndarray(THEIRS[name], x.astype(np.float64), theirs, sat=True)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", THEIRS)
@pytest.mark.parametrize("bits", [1, 8, 13, 16])
def test_stochastic(name: str, bits: int) -> None:
    """Compares stochastic rounding with the mode StochasticFastest of `gfloat`, which adds the random bits in the same
    way."""
    x = values()
    random = np.random.default_rng(bits).integers(0, 2**bits, len(x))
    got = decode(round_elements(x, FORMATS[name], stochastic(bits), random=random), FORMATS[name])
    want = round_ndarray(THEIRS[name], x.astype(np.float64), RoundMode.StochasticFastest, True, random, bits)
    np.testing.assert_array_equal(got, want)
