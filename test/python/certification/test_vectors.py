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
    ("f16", 8): "e284b3c47802ab1cc601d0f3c9282ff254f1409b4dae45fae09a036f199cb984",
    ("f16", 16): "c26fe622b2582a697125957afacd4a627cb6246c81535967983ad651810385f1",
    ("bf16", 8): "52f0be7e959fdd6e27960fa48879d27d6a656c3c42a5d7a00c9d73c14c199fcd",
    ("bf16", 16): "8a0b6557d381b8f31c3a60cb52fb74621494285b7a4b626d830eeb537c3ee69c",
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


def of_kind(vectors: Vectors, kind: str) -> Vectors:
    chosen = [i for i, each in enumerate(vectors.kinds) if each == kind]
    return Vectors(vectors.x[chosen], vectors.y[chosen], vectors.c[chosen], [kind] * len(chosen))


@pytest.mark.parametrize(("element", "depth"), DIGESTS)
def test_they_tell_what_becomes_of_c_M1(element: str, depth: int) -> None:
    """Where the products are 0: subnormals are kept, and zeros of one sign give +0."""
    of = ELEMENTS[element]
    vectors = of_kind(some(make_vectors(element, depth)), "zeros")
    flushed = np.where(vectors.c & 0x7F800000 == 0, vectors.c & 0x80000000, vectors.c).astype(np.uint32)
    want = expected_results(vectors, element, HOPPER)
    assert (want != expected_results(dataclasses.replace(vectors, c=flushed), element, HOPPER)).sum() > 100
    x, y = vectors.x[:, :, np.newaxis], vectors.y[:, np.newaxis]
    sign = 1 << (of.exponent_bits + of.fraction_bits)
    is_zero = (x & ~np.uint16(sign) == 0) | (y & ~np.uint16(sign) == 0)
    are_negative_zeros = (is_zero & ((x ^ y) & sign != 0)).all(axis=-1) & (vectors.c == 0x80000000)
    assert are_negative_zeros.sum() > 20 and not want[are_negative_zeros].any()


@pytest.mark.parametrize(("element", "depth"), DIGESTS)
def test_edges_are_not_hidden_by_infinities(element: str, depth: int) -> None:
    want = expected_results(of_kind(some(make_vectors(element, depth)), "edges"), element, HOPPER)
    assert np.isfinite(want.view(np.float32)).mean() > 0.5


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
