# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Counter-based random numbers (R1), (R2)."""

from __future__ import annotations

import numbers

import numpy as np

from repro_mlir.base.errors import ReproError

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF
_LOW = np.uint64(_MASK)
_HALF = np.uint64(32)


def philox4x32_10(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Applies ten rounds of Philox4x32 to uint64 words below 2^32 of shape [4, n], with a key of two 32-bit words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            (p1 >> _HALF) ^ c1 ^ np.uint64(k0),
            p1 & _LOW,
            (p0 >> _HALF) ^ c3 ^ np.uint64(k1),
            p0 & _LOW,
        )
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return np.stack([c0, c1, c2, c3])


def signed_seed(seed: object) -> int:
    """Returns the seed as programs represent it: the i64 value with the same 64 bits.

    Args:
      seed: an integer of Python or NumPy from -2^63 to 2^64 - 1.
    Raises:
      ReproError: the seed is not such an integer.
    """
    if isinstance(seed, numbers.Integral) and not isinstance(seed, bool) and -(2**63) <= int(seed) < 2**64:
        return (int(seed) + 2**63) % 2**64 - 2**63
    raise ReproError(f"expected a whole number of 64 bits as seed, got {seed!r}")


def random_bits(shape: tuple[int, ...], seed: int, site: int, step: int) -> np.ndarray:
    """(R1) Returns the 32 random bits of each element, as uint64.

    `seed` is reduced modulo 2^64; `site` and `step` must be below 2^32.
    """
    size = int(np.prod(shape, dtype=np.int64))
    block = np.arange(-(-size // 4), dtype=np.uint64)
    counter = np.stack([block & _LOW, block >> _HALF, np.full_like(block, site), np.full_like(block, step)])
    return philox4x32_10(counter, (seed & _MASK, seed >> 32 & _MASK)).T.reshape(-1)[:size].reshape(shape)


def random_uniform(shape: tuple[int, ...], seed: int, site: int, step: int) -> np.ndarray:
    """(R2) Returns uniform f32 values in [0, 1): (bits >> 8) * 2^-24."""
    bits = random_bits(shape, seed, site, step)
    return (bits >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)
