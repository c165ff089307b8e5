# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Random operands of conformance vectors, the same on every machine: their bits are those of Philox (R1)."""

from __future__ import annotations

import zlib

import numpy as np

from repro_mlir.base.numerics.elements import BinaryFormat
from repro_mlir.base.numerics.philox import random_bits

_SEED = 0x766563746F7273


class Words:
    """A source of random operands. The words depend on the name only, so that a new group does not change the operands
    of the others; each call draws at a new step."""

    def __init__(self, name: str) -> None:
        self._site, self._step = zlib.crc32(name.encode()), 0

    def below(self, limit: int, *shape: int) -> np.ndarray:
        """Returns almost uniformly distributed integers (int64) from 0 to limit - 1, where limit is at most 2^32."""
        self._step += 1
        words = random_bits(shape, _SEED, self._site, self._step)
        return (words * np.uint64(limit) >> np.uint64(32)).astype(np.int64)

    def floats(self, low: int, high: int, *shape: int) -> np.ndarray:
        """Returns float32 values with random signs and fractions and exponents from `low` to `high`; -127 stands for
        the subnormals."""
        field = self.below(high - low + 1, *shape) + (low + 127)
        return as_f32(self.below(2, *shape) << 31 | field << 23 | self.below(1 << 23, *shape))

    def codes(self, of: BinaryFormat, low: int, high: int, *shape: int) -> np.ndarray:
        """Returns codes (int64) of finite values of a format, with random signs and fractions and exponents from `low`
        to `high` as far as the format has them; subnormals are included if `low` is below its normal range."""
        least, most = (min(max(each + of.bias, 0), of.largest >> of.fraction_bits) for each in (low, high))
        field = self.below(most - least + 1, *shape) + least
        magnitude = np.minimum(field << of.fraction_bits | self.below(1 << of.fraction_bits, *shape), of.largest)
        return self.below(2, *shape) * of.sign | magnitude


def as_f32(bits: np.ndarray) -> np.ndarray:
    """Returns the float32 values with the given bits, integers below 2^32."""
    return np.asarray(bits, order="C").astype(np.uint32).view(np.float32)


def moved(x: np.ndarray, ulps: int) -> np.ndarray:
    """Returns the float32 values that are `ulps` steps further from zero; x and the result are finite and not
    negative."""
    return as_f32(np.clip(x.view(np.uint32).astype(np.int64) + ulps, 0, 0x7F7FFFFF))


def signed(x: np.ndarray) -> np.ndarray:
    """Returns x and then -x, along the first axis."""
    return np.concatenate([x, -x])


NOT_NUMBERS = as_f32(np.array([0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFBFFFFF]))
"""float32: +-infinity, +-NaN, and signaling NaNs of both signs."""
