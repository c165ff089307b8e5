# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The operands of conformance vectors tell rules apart, and the results agree with facts from outside of this
project."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from repro_mlir.conformance.catalogue import catalogue
from repro_mlir.conformance.function_operands import HARD_CASES
from repro_mlir.conformance.group import Group
from repro_mlir.conformance.operations import binary_format_of
from repro_mlir.reference.low_precision.accumulators import ACCUMULATORS, DownFdpa, Fdpa, LateFdpa, accumulate
from repro_mlir.reference.low_precision.binary_formats import FORMATS, decode

TOOLS = Path(__file__).resolve().parents[3] / "tools" / "functions"


@functools.cache
def groups() -> dict[str, Group]:
    return {group.name: group for group in catalogue()}


def test_philox_has_the_published_answers_R1() -> None:
    """Random123's kat_vectors, philox4x32 with 10 rounds."""
    words = groups()["philox4x32_10"].outputs["words"].values[:3]
    assert [[f"{int(each):08x}" for each in row] for row in words] == [
        ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"],
        ["408f276d", "41c83b0e", "a20bc7c6", "6d5451fd"],
        ["d16cfe09", "94fdcceb", "5001e420", "24126ea1"],
    ]


def test_random_numbers_are_the_words_of_philox_R2() -> None:
    bits = groups()["random/bits"].outputs["values"].values
    np.testing.assert_array_equal(groups()["random/uniform"].outputs["values"].values, (bits >> 8) * 2.0**-24)
    np.testing.assert_array_equal(groups()["random/randint/10"].outputs["values"].values, bits * np.uint64(10) >> 32)
    normal = groups()["random/normal"].outputs["values"].values.astype(np.float64)
    u = (bits >> 8) * 2.0**-24
    want = np.sqrt(-2 * np.log(1 - u[:, 0::2])) * np.cos(2 * np.pi * u[:, 1::2])
    np.testing.assert_allclose(normal[:, :32], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in FORMATS if f"round/{name}/rne/saturate" in groups()])
def test_roundings_differ_Q3(name: str) -> None:
    """Compares the roundings with each other, and rounding to nearest with exact fractions."""
    found = {each: groups()[f"round/{name}/{each}/saturate"] for each in ("rne", "away", "rz", "sr8", "sr16")}
    for one, other in itertools.combinations(found.values(), 2):
        assert (one.outputs["codes"].values != other.outputs["codes"].values).sum() > 5
    group = found["rne"]
    x, codes = group.inputs["x"].values, group.outputs["codes"].values
    finite = np.isfinite(x)
    values = decode(np.arange(FORMATS[name].largest + 1), FORMATS[name]).astype(np.float64)
    got = np.abs(decode(codes, FORMATS[name])[finite]).astype(np.float64)
    want = np.minimum(np.abs(x[finite]).astype(np.float64), values[-1])
    # All numbers are multiples of 2^-149 below 2^128; the difference of two of them is exact in f64 if they are close.
    for error, value in zip(np.abs(got - want)[::17], want[::17], strict=True):
        place = int(np.searchsorted(values, value))
        near = values[max(place - 1, 0) : place + 1]
        assert Fraction(error) == min(abs(Fraction(each) - Fraction(value)) for each in near)


@pytest.mark.parametrize("element", ["mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4", "mxint8"])
def test_scale_rules_differ_Q2(element: str) -> None:
    found = [groups()[f"quantize/{element}/{rule}"].outputs for rule in ("floor", "ceil", "even", "rceil")]
    for one, other in itertools.combinations(found, 2):
        assert (one["scales"].values != other["scales"].values).sum() > 5


DOTS = [name for name in groups() if name.startswith("dot/")]


@pytest.mark.parametrize("name", DOTS)
def test_accumulators_differ_M1(name: str) -> None:
    """A change of one fraction bit or of the number of terms changes a result, where the formats can show it."""
    group = groups()[name]
    of, result = group.parameters["format"], group.parameters["result"]
    by = ACCUMULATORS[group.parameters["accumulator"]][of, result]
    inner = by.inner if isinstance(by, LateFdpa) else by
    # Sums of f4 and f6 products have so few bits that nothing is cut, and f16 results hide the last bits.
    is_narrow = of in ("f4E2M1FN", "f6E2M3FN", "f6E3M2FN", "f8E4M3FN", "f8E5M2") and getattr(inner, "fraction", 0) != 13
    if not isinstance(inner, Fdpa | DownFdpa) or inner.fraction is None or is_narrow or result == "f16":
        return
    a, b = (group.inputs[each].values for each in "ab")
    if of != "tf32":
        a, b = decode(a, FORMATS[of]), decode(b, FORMATS[of])
    for more in ({"fraction": -1}, {"fraction": 1}, {"terms": -inner.terms // 2}):
        changes = {key: getattr(inner, key) + value for key, value in more.items()}
        other = dataclasses.replace(inner, **changes)
        got = accumulate(a, b, group.inputs["c"].values, other, binary_format_of(of))
        assert (got.view(np.uint32) != group.outputs["d"].values.view(np.uint32)).sum() > 3, more


def test_every_accumulator_has_a_group_M3() -> None:
    assert {tuple(name.split("/")[1:]) for name in DOTS} == {
        (unit, *formats) for unit, found in ACCUMULATORS.items() for formats in found
    }


def test_hard_cases_are_those_of_the_checks_S5() -> None:
    listed = json.loads(HARD_CASES.read_text())
    for name, cases in listed["f32"].items():
        lines = (TOOLS / "expected" / f"{name}.txt").read_text().split()
        assert cases == lines[lines.index("hard") + 1 :]
    published = (TOOLS / "hard_double.txt").read_text()
    for line in (line.split() for line in published.splitlines() if not line.startswith("#")):
        assert {np.float64(float.fromhex(each)).view(np.uint64) for each in line[1:]} <= {
            int(each, 16) for each in listed["f64"][line[0]]
        }
    assert all(len(cases) >= 7 for cases in listed["f64"].values()) and len(listed["f64"]) == 24


@pytest.mark.parametrize("length", [1, 5, 63, 64, 100, 513, 2048])
def test_sums_literally_F1(length: int) -> None:
    """One chunk of 64 lanes, added with f32 scalars as (F1) to (F3) say."""
    group = groups()[f"fold/sum/{length}"]
    for x, init, total in zip(
        *(group.inputs[n].values for n in ("x", "init")), group.outputs["total"].values, strict=True
    ):
        lanes = [np.float32(0)] * 64
        for t, value in enumerate(x):
            lanes[t % 64] = lanes[t % 64] + value
        width = 32
        while width:
            lanes = [lanes[i] + lanes[i + width] for i in range(width)]
            width //= 2
        assert (init + lanes[0]).view(np.uint32) == total.view(np.uint32)
        assert math.isclose(total, math.fsum([*x.tolist(), float(init)]), rel_tol=1e-3, abs_tol=1e-3)
