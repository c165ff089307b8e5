# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(R2) Compiled code of distributions, which the import decomposes, returns the bits that the rule defines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from repro_mlir.base.numerics.philox import random_bits, random_uniform
from repro_mlir.reference import distributions
from support import imported, kit


def literal(distribution: str, shape: tuple[int, ...], seed: int, site: int, step: int) -> np.ndarray:
    """Computes a distribution as (R2) states it, without decomposition. Returns floats as their unsigned bits."""
    name, _, parameter = distribution.partition(" ")
    number = parameter.rpartition("= ")[2]
    if name == "uniform":
        return random_uniform(shape, seed, site, step).view(np.uint32)
    if name == "bits":
        return random_bits(shape, seed, site, step).astype(np.uint32)
    if name == "bernoulli":
        return distributions.bernoulli(shape, seed, site, step, float(number)).astype(np.uint8)
    if name == "randint":
        return distributions.randint(shape, seed, site, step, int(number))
    assert name == "normal"
    return distributions.normal(shape, seed, site, step).view(np.uint32)


def check(
    shape: tuple[int, ...], seed: int, step: int, kinds: Sequence[tuple[str, str]] = imported.DISTRIBUTIONS
) -> list[np.ndarray]:
    program = imported.distributions(shape, kinds)
    want = [literal(distribution, shape, seed, site, step) for site, (distribution, _) in enumerate(kinds)]
    for configuration in kit.configurations():
        got = kit.compiled(program, (np.array(seed), np.array(step)), configuration, runs=1)
        kit.compare(kit.read(program), want, got, str(configuration))
    return want


@pytest.mark.parametrize("shape", [(), (5,), (3, 7), (0,), (2, 3, 257)], ids=str)
@pytest.mark.parametrize(("seed", "step"), [(0, 0), (-1, 2**32 - 1)])
@pytest.mark.diagonal
def test_R2(shape: tuple[int, ...], seed: int, step: int) -> None:
    check(shape, seed, step)


def test_R2_a_number_that_is_the_probability_is_not_below_it() -> None:
    probability = random_uniform((5,), 7, 0, 3)[2]
    (found,) = check((5,), 7, 3, [(f"bernoulli probability = {probability:.30f}", "i1")])
    assert not found[2] and found.any()
