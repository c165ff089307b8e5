# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(R2) The distributions as functions of random bits, for NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro_mlir.base.numerics.philox import Place, map_runs, uniform
from repro_mlir.base.threads import check_threads
from repro_mlir.random.boxes import Box
from repro_mlir.reference.functions import evaluate

TWO_PI = np.uint32(0x40C90FDB).view(np.float32)
"""2 pi, rounded to f32."""


@dataclass(frozen=True)
class Distribution:
    """A distribution of (R2).

    Attributes:
      name: `uniform`, `normal`, `bernoulli` or `randint`.
      dtype: the element type of the results.
      of_bits: maps u32 bits [r, per_result * n] to results [r, n].
      per_result: the number of random elements from which a result is computed.
      parameters: the probability of `bernoulli`; the smallest and the number of different results of `randint`.
    """

    name: str
    dtype: type[np.generic]
    of_bits: Callable[[np.ndarray], np.ndarray]
    per_result: int = 1
    parameters: tuple[Any, ...] = ()


def _normal(bits: np.ndarray) -> np.ndarray:
    numbers = uniform(bits)
    u1, u2 = numbers[:, 0::2], numbers[:, 1::2]
    radius = np.sqrt(np.float32(-2) * evaluate("log", np.float32(1) - u1))
    return np.asarray(radius * evaluate("cos", TWO_PI * u2))


UNIFORM = Distribution("uniform", np.float32, uniform)
"""f32 in [0, 1)."""

NORMAL = Distribution("normal", np.float32, _normal, 2)
"""f32 with mean 0 and variance 1, by the transform of Box and Muller; log and cos are correctly rounded (S5)."""


def bernoulli(probability: float) -> Distribution:
    """Returns the distribution of booleans that are true with a probability, which is rounded once to f32."""
    bound = np.float32(probability)
    return Distribution("bernoulli", np.bool_, lambda bits: uniform(bits) < bound, parameters=(probability,))


def randint(low: int, extent: int) -> Distribution:
    """Returns the distribution of i64 from low to low + extent - 1 modulo 2^64, for an extent from 1 to 2^32."""

    def of_bits(bits: np.ndarray) -> np.ndarray:
        # The product is at most (2^32 - 1) * 2^32, which u64 represents.
        drawn = (bits.astype(np.uint64) * np.uint64(extent)) >> np.uint64(32)
        return (drawn + np.uint64(low % 2**64)).view(np.int64)

    return Distribution("randint", np.int64, of_bits, parameters=(low, extent))


def draw(distribution: Distribution, box: Box, place: Place) -> np.ndarray:
    """Returns a part of a tensor of random numbers (R2), of the element type of the distribution."""
    starts, length = box.runs
    return map_runs(
        starts,
        length,
        place,
        distribution.of_bits,
        distribution.dtype,
        per_result=distribution.per_result,
        threads=check_threads(None),
    ).reshape(box.shape)


def permutation(size: int, place: Place) -> np.ndarray:
    """(G1) Returns the numbers 0 to size - 1 in the order of a stable sort by their random bits, as i64 [size]."""
    starts, threads = np.zeros(1, np.uint64), check_threads(None)
    keys = map_runs(starts, size, place, lambda bits: bits, np.uint32, threads=threads)
    return np.argsort(keys[0], kind="stable").astype(np.int64)
