# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Computes the inputs of the benchmarks. The inputs depend only on the arguments' shapes, bounds and order, so the
machine that prepares and the machine that measures compute the same inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from cases import Argument
from repro_mlir.base.numerics.philox import random_bits
from repro_mlir.runner.initial import centred_uniform

_SEED = 20


def arrays(arguments: Sequence[Argument]) -> list[np.ndarray]:
    """Returns an array for each argument: f32 in [-0.5, 0.5), or i64 below its bound. Argument number n is drawn at
    site n (R1)."""
    return [
        centred_uniform(argument.shape, _SEED, site, np.float32(1))
        if argument.bound is None
        else (random_bits(argument.shape, _SEED, site, 0) % np.uint64(argument.bound)).astype(np.int64)
        for site, argument in enumerate(arguments)
    ]
