# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The test operands of a certificate are the same on every machine, and a change of any parameter of a rule changes a
result."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from repro_mlir.base.numerics.digest import blake3_of
from repro_mlir.certification.certify import MatrixInstruction, expected_results, instructions_of
from repro_mlir.certification.vectors import ELEMENTS, KINDS, PRODUCTS, RESULTS, SIDE, make_vectors
from repro_mlir.reference.low_precision.accumulators import Fdpa, LateFdpa
from repro_mlir.runner.certificates import LEAST_RESULTS
from repro_mlir.runner.tensor_cores import Vectors
from support.matrix_instructions import CLASSES, EIGHTS

DIGESTS = {
    ("f16", "f16", "f32", 8): "e284b3c47802ab1cc601d0f3c9282ff254f1409b4dae45fae09a036f199cb984",
    ("f16", "f16", "f32", 16): "c26fe622b2582a697125957afacd4a627cb6246c81535967983ad651810385f1",
    ("bf16", "bf16", "f32", 8): "52f0be7e959fdd6e27960fa48879d27d6a656c3c42a5d7a00c9d73c14c199fcd",
    ("bf16", "bf16", "f32", 16): "8a0b6557d381b8f31c3a60cb52fb74621494285b7a4b626d830eeb537c3ee69c",
    ("tf32", "tf32", "f32", 4): "280686150e98ec3ac63bdccb7b317c5192f3ad681b3b56bffd909cec13242cf0",
    ("tf32", "tf32", "f32", 8): "17c786fa1f42c4ba014818a16d4b0751b618dc1ae72a63c9f3b88028582fee32",
    ("e4m3", "e4m3", "f32", 32): "9951ee4021510167834e75eac8f00af5fbd768d53b234a2f28d89a11355e3d65",
    ("e4m3", "e5m2", "f32", 32): "29a12938c642f95b89e4f5155e38ba1200bb7a7d1dbe2be5a8e405691fcddf74",
    ("e5m2", "e4m3", "f32", 32): "05db8c1391a74589d1b63b53cbb730279846eb71c37defda202dd3a5abcb5d76",
    ("e5m2", "e5m2", "f32", 32): "ba4d3bd189c3fb07326d1e85cacc571a1893f7ed9e8a92bc45427a6390220a95",
    ("f16", "f16", "f16", 8): "9daa03bdd3081fae026ad4124108ec110746740aa87802b9cc192ef6ca21b353",
    ("f16", "f16", "f16", 16): "b120345d108bd1317943250d47eb9850788c012673f1257400d69dffd34f30cc",
    ("e4m3", "e4m3", "f16", 32): "273fc1f2b4d4aa8a8af903962f8f33dff489459ca6819c5656305e4562877161",
    ("e4m3", "e5m2", "f16", 32): "6f0ad1e8ea00494d140616cfb14e245b282f20d9516bde8d4616fff3adc3afaa",
    ("e5m2", "e4m3", "f16", 32): "0408a3809d70e8628e32f9591a43c6ee7c62925d7fbb1bf8212c872ba2a9eadf",
    ("e5m2", "e5m2", "f16", 32): "ee7ba7a260e0ddb78092989a39d9fb2dd4c761c9879331f05427cb48d6e537f9",
}

FORMS = {(form.x, form.y, form.result, form.depth): form for form in instructions_of("sm_89")}
LATE = {(form.x, form.y, form.result, form.depth): form for form in instructions_of("sm_90") if form.depth == 32}


@functools.cache
def vectors_of(form: MatrixInstruction) -> Vectors:
    return make_vectors(form.x, form.y, form.result, form.depth)


def test_compared_instructions_M3() -> None:
    """On ada, all matrix instructions are compared. On other architectures, those on f8 are compared only if their
    operand types are equal, and on sm_120 not at all."""
    assert len(FORMS) == 16 and len(LATE) == 4
    assert all(x == y for x, y, _, _ in LATE)
    for architecture in ("sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"):
        elements = {form.x for form in instructions_of(architecture)}
        has_eight = CLASSES[architecture] in EIGHTS and architecture != "sm_120"
        every = set(ELEMENTS) if has_eight else {"f16", "bf16", "tf32"}
        assert elements == ({"f16"} if architecture == "sm_75" else every)


@pytest.mark.parametrize("key", FORMS, ids=str)
def test_the_same_on_every_machine(key: tuple[str, str, str, int]) -> None:
    vectors = vectors_of(FORMS[key])
    assert vectors.x.shape == vectors.y.shape == (PRODUCTS, SIDE, key[3])
    assert vectors.c.shape == (PRODUCTS, SIDE, SIDE) and vectors.c.size == LEAST_RESULTS
    given = b"".join(array.tobytes() for array in (vectors.x, vectors.y, vectors.c))
    assert blake3_of(given).hex() == DIGESTS[key]


def some(vectors: Vectors) -> Vectors:
    """Selects every tenth product, to save time."""
    chosen = list(range(0, PRODUCTS, 10))
    kinds = [vectors.kinds[i] for i in chosen]
    assert set(kinds) == set(KINDS)
    return Vectors(vectors.x[chosen], vectors.y[chosen], vectors.c[chosen], kinds)


def changed(by: Fdpa | LateFdpa, change: dict[str, int]) -> Fdpa | LateFdpa:
    if isinstance(by, LateFdpa):
        return dataclasses.replace(by, inner=changed(by.inner, change))
    return dataclasses.replace(by, **{name: getattr(by, name) + more for name, more in change.items()})


def tells(form: MatrixInstruction, change: str) -> bool:
    """Returns whether the operands must give another result if the parameter `change` of the rule changes.

    Products of f16 and f8 are far above the rule's floor, so a change of the floor does not change their sums. With 32
    terms, the rounding of sums to f16 hides how the bits of e4m3 products are truncated.
    """
    if change == "floor":
        return form.x in ("bf16", "tf32")
    return change == "terms" or (form.x, form.result, form.by.terms) != ("e4m3", "f16", 32)


CHANGES = ({"fraction": -1}, {"fraction": 1}, {"terms": 0}, {"floor": 1}, {"floor": -1})


@pytest.mark.parametrize(
    ("form", "change"),
    [
        (form, change)
        for form in (*FORMS.values(), *LATE.values())
        for change in CHANGES
        if tells(form, next(iter(change)))
    ],
    ids=lambda each: str(each) if isinstance(each, dict) else f"{each.x}-{each.y}-{each.result}-{each.by.terms}",
)
@pytest.mark.diagonal(change=[CHANGES[0], CHANGES[2]])
def test_they_tell_rules_apart_M1(form: MatrixInstruction, change: dict[str, int]) -> None:
    inner = form.by.inner if isinstance(form.by, LateFdpa) else form.by
    if "terms" in change:
        change = {"terms": inner.terms if form.depth > inner.terms and inner == form.by else -inner.terms // 2}
    vectors = some(vectors_of(form))
    other = dataclasses.replace(form, by=changed(form.by, change))
    assert (expected_results(vectors, form) != expected_results(vectors, other)).sum() > 10


def of_kind(vectors: Vectors, kind: str) -> Vectors:
    chosen = [i for i, each in enumerate(vectors.kinds) if each == kind]
    return Vectors(vectors.x[chosen], vectors.y[chosen], vectors.c[chosen], [kind] * len(chosen))


def magnitude(codes: np.ndarray) -> np.ndarray:
    return codes & codes.dtype.type((1 << (8 * codes.itemsize - 1)) - 1)


@pytest.mark.parametrize("key", FORMS, ids=str)
def test_operands_distinguish_rules_for_c_M1(key: tuple[str, str, str, int]) -> None:
    """All products are 0, so each result is c. A subnormal c must be kept. If all products and c are -0, the result
    must be +0."""
    form, to = FORMS[key], RESULTS[key[2]]
    vectors = of_kind(some(vectors_of(form)), "zeros")
    sign = 1 << (to.exponent_bits + to.fraction_bits)
    is_subnormal = vectors.c & (sign - (1 << to.fraction_bits)) == 0
    flushed = np.where(is_subnormal, vectors.c & sign, vectors.c).astype(vectors.c.dtype)
    want = expected_results(vectors, form)
    assert (want != expected_results(dataclasses.replace(vectors, c=flushed), form)).sum() > 100
    x, y = vectors.x[:, :, np.newaxis], vectors.y[:, np.newaxis]
    is_zero = (magnitude(x) == 0) | (magnitude(y) == 0)
    is_negative = (x ^ y) >> np.uint8(8 * x.itemsize - 1) == 1
    are_negative_zeros = (is_zero & is_negative).all(axis=-1) & (vectors.c == sign)
    assert are_negative_zeros.sum() > 20 and not want[are_negative_zeros].any()


def as_values(codes: np.ndarray, result: str) -> np.ndarray:
    return codes.view(np.float32 if result == "f32" else np.float16)


@pytest.mark.parametrize("key", FORMS, ids=str)
def test_edges_are_not_hidden_by_infinities(key: tuple[str, str, str, int]) -> None:
    form = FORMS[key]
    want = expected_results(of_kind(some(vectors_of(form)), "edges"), form)
    # A sum of 32 products of numbers up to 57344 usually contains a large term, so in f16 most sums overflow.
    assert np.isfinite(as_values(want, form.result)).mean() > (0.5 if form.result == "f32" else 0.01)


@pytest.mark.parametrize("key", FORMS, ids=str)
def test_occurring_values(key: tuple[str, str, str, int]) -> None:
    """Operands and results contain zeros and subnormals of both signs, infinities, NaNs, overflow and other numbers."""
    form = FORMS[key]
    vectors = vectors_of(form)
    for codes, of in ((vectors.x, ELEMENTS[form.x]), (vectors.y, ELEMENTS[form.y])):
        assert not (codes & codes.dtype.type((1 << of.unused) - 1)).any()
        numbers = magnitude(codes) >> codes.dtype.type(of.unused)
        is_subnormal = (numbers != 0) & (numbers >> of.fraction_bits == 0)
        negative = codes >> codes.dtype.type(8 * codes.itemsize - 1) == 1
        for found in (
            (numbers == 0) & ~negative,
            (numbers == 0) & negative,
            is_subnormal & negative,
            is_subnormal & ~negative,
            numbers == of.largest,
            *(numbers == special for special in of.specials),
        ):
            assert found.sum() > 4
    want = as_values(expected_results(some(vectors), form), form.result)
    assert np.isfinite(want).mean() > 0.5 and np.isinf(want).any() and np.isnan(want).any()
    assert ((want == 0) & ~np.signbit(want)).any()
