# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(R2) The distributions of random numbers, computed as the rule states them, without the decompositions of import."""

from __future__ import annotations

import numpy as np

from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.philox import random_bits, random_uniform
from repro_mlir.reference.functions import evaluate

_TWO_PI = np.uint32(0x40C90FDB).view(np.float32)


def bernoulli(shape: tuple[int, ...], seed: int, site: int, step: int, probability: float) -> np.ndarray:
    """Returns, as bool, whether each uniform number is below the probability, which is first rounded to f32."""
    return random_uniform(shape, seed, site, step) < np.float32(probability)


def randint(shape: tuple[int, ...], seed: int, site: int, step: int, bound: int) -> np.ndarray:
    """Returns integers below `bound`, 1 to 2^32, as uint64."""
    # The product of a 32-bit word and the bound is at most 2^64 - 2^32, so uint64 is exact.
    return (random_bits(shape, seed, site, step) * np.uint64(bound)) >> np.uint64(32)


@float_environment()
def normal(shape: tuple[int, ...], seed: int, site: int, step: int) -> np.ndarray:
    """Returns normally distributed float32 numbers, by Box and Muller: element i reads the uniform elements 2i and
    2i + 1 of the site."""
    pairs = random_uniform((int(np.prod(shape, dtype=np.int64)), 2), seed, site, step)
    u1, u2 = pairs[:, 0], pairs[:, 1]
    radius = np.sqrt(np.float32(-2) * evaluate("log", np.float32(1) - u1))
    return (radius * evaluate("cos", _TWO_PI * u2)).reshape(shape)
