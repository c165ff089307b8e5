# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The operands of a certificate: the same on every machine, and they tell every parameter of a rule."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from repro_mlir.bundle.runner.certificates import LEAST_RESULTS
from repro_mlir.bundle.runner.tensor_cores import Vectors
from repro_mlir.certification.certify import expected_results
from repro_mlir.certification.vectors import ELEMENTS, KINDS, PRODUCTS, SIDE, make_vectors
from repro_mlir.numerics.digest import blake3_of
from repro_mlir.reference.low_precision.accumulators import Fdpa

HOPPER, AMPERE = Fdpa(16, 25, "rz_f32", -133), Fdpa(8, 24, "rz_f32", -132)

DIGESTS = {
    ("f16", 8): "b785e5bbe26406a88c51b3562f60532f493e8563064828cac1b9bb1c8108535d",
    ("f16", 16): "0095c781d086a491872a6bc59cd1a5bc9a7e8d72dca18e92c9c52abf6a05f09f",
    ("bf16", 8): "0c840a8cbd735ced77ec6becb1533dec0d0586dd337d3126fe9821ddc111be45",
    ("bf16", 16): "2cdb34195eab6e1530d40467abe1867922f26a9a4522293622154ac91e67c7c6",
}


@pytest.mark.parametrize(("element", "depth"), DIGESTS)
def test_the_same_on_every_machine(element: str, depth: int) -> None:
    vectors = make_vectors(element, depth)
    assert vectors.x.shape == vectors.y.shape == (PRODUCTS, SIDE, depth)
    assert vectors.c.shape == (PRODUCTS, SIDE, SIDE) and vectors.c.size == LEAST_RESULTS
    given = b"".join(array.tobytes() for array in (vectors.x, vectors.y, vectors.c))
    assert blake3_of(given).hex() == DIGESTS[element, depth]


def some(vectors: Vectors) -> Vectors:
    """One in ten products."""
    chosen = list(range(0, PRODUCTS, 10))
    kinds = [vectors.kinds[i] for i in chosen]
    assert set(kinds) == set(KINDS)
    return Vectors(vectors.x[chosen], vectors.y[chosen], vectors.c[chosen], kinds)


@pytest.mark.parametrize(
    ("by", "element", "change"),
    [
        (by, element, change)
        for by in (HOPPER, AMPERE)
        for element in ELEMENTS
        for change in ({"fraction": -1}, {"fraction": 1}, {"terms": -by.terms // 2}, {"floor": 1}, {"floor": -1})
        # Products of f16 are far above the floor.
        if element == "bf16" or "floor" not in change
    ],
    ids=str,
)
def test_they_tell_rules_apart_M1(by: Fdpa, element: str, change: dict[str, int]) -> None:
    vectors = some(make_vectors(element, 16))
    other = dataclasses.replace(by, **{name: getattr(by, name) + more for name, more in change.items()})
    assert (expected_results(vectors, element, by) != expected_results(vectors, element, other)).sum() > 10


def test_what_occurs() -> None:
    """Zeros and subnormals of both signs, infinities, NaNs and overflow, and results that are none of these."""
    for element, of in ELEMENTS.items():
        vectors = make_vectors(element, 16)
        field = vectors.x >> of.fraction_bits & ((1 << of.exponent_bits) - 1)
        fraction = vectors.x & ((1 << of.fraction_bits) - 1)
        top = (1 << of.exponent_bits) - 1
        for found in (
            vectors.x == 0,
            vectors.x == 1 << (of.exponent_bits + of.fraction_bits),
            (field == 0) & (fraction != 0),
            (field == top) & (fraction == 0),
            (field == top) & (fraction != 0),
        ):
            assert found.sum() > 50
        want = expected_results(some(vectors), element, HOPPER).view(np.float32)
        assert np.isfinite(want).mean() > 0.75 and np.isinf(want).any() and np.isnan(want).any()
        assert ((want == 0) & ~np.signbit(want)).any()
