# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""(S5) Compares compiled elementary functions with the reference interpreter on every CPU level.

Covers every input next to a rounding boundary, special values, and at least 2^22 inputs spread over all of f32
(tools/functions/check.py runs all 2^32).
"""

from __future__ import annotations

import functools
import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray
from objects import BLOCKS, EXPECTED, HERE, UNARY, available_levels, compiler, evaluate, reference

pytestmark = pytest.mark.skipif(not compiler().exists(), reason=f"no compiler at {compiler()}")

VALUES = np.array(
    [
        *(0.0, 1.0, 2.0, 0.5, 3.0, 1.5, 0.25, 4.0, 9.0, 25.0, 128.0, 149.0, 150.0, 75.0, np.inf, np.nan),
        *(2.0**-149, 2.0**-126, 2.0**-75, 3.4028235e38, 16777216.0, 16777215.0, 33554432.0, 8388607.5),
        *(0.99999994, 1.0000001, 1e10, 88.72284),
    ],
    np.float32,
)
SIGNED = np.concatenate([VALUES, -VALUES])


def mismatches(result: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.intp]:
    same = (result.view(np.uint32) == right.view(np.uint32)) | (np.isnan(result) & np.isnan(right))
    return np.flatnonzero(~same)


@functools.cache
def stratified(count: int) -> NDArray[np.float32]:
    """Returns one input from each of `count` equal parts of the 2^32 inputs."""
    step = (1 << 32) // count
    offsets = np.random.default_rng(count).integers(0, step, count)
    return (np.arange(count) * step + offsets).astype(np.uint32).view(np.float32)


@functools.cache
def hard_cases(name: str) -> NDArray[np.float32]:
    lines = (EXPECTED / f"{name}.txt").read_text().split()
    return np.array([int(u, 16) for u in lines[BLOCKS + 1 :]], np.uint32).view(np.float32)


@functools.cache
def expected(name: str, count: int) -> NDArray[np.float32]:
    return reference.evaluate(name, stratified(count))


@pytest.mark.parametrize("level", available_levels())
@pytest.mark.parametrize("name", UNARY)
@pytest.mark.diagonal
def test_unary(name: str, level: str) -> None:
    x = np.concatenate([SIGNED, hard_cases(name)])
    right = reference.evaluate(name, x)
    for lanes in (True, False):
        wrong = mismatches(evaluate(name, level, x, lanes=lanes), right)
        assert not wrong.size, [(float(x[i]).hex(), float(right[i]).hex()) for i in wrong[:5]]
    x = stratified(1 << 22)
    wrong = mismatches(evaluate(name, level, x), expected(name, 1 << 22))
    assert not wrong.size, [float(x[i]).hex() for i in wrong[:5]]


@functools.cache
def pairs(name: str, count: int) -> list[tuple[str, NDArray[np.float32], NDArray[np.generic]]]:
    """Returns operands of a binary function as triples: what they test, the first operands and the second operands."""
    generator = np.random.default_rng(7)

    def bits(limit: int = 1 << 32) -> NDArray[np.float32]:
        return generator.integers(0, limit, count).astype(np.uint32).view(np.float32)

    def normal(scale: float) -> NDArray[np.float32]:
        return (generator.standard_normal(count) * scale).astype(np.float32)

    def powers_of_two() -> NDArray[np.float32]:
        return np.ldexp(1.0, generator.integers(-149, 128, count)).astype(np.float32)

    x, y = (v.ravel() for v in np.meshgrid(SIGNED, SIGNED))
    if name == "powi":
        exponents = np.array([0, 1, -1, 2, 3, -3, 7, 15, 16, 150, -149, -150, 2**31 - 1, -(2**31)], np.int32)
        x, n = (v.ravel() for v in np.meshgrid(SIGNED, exponents))
        small = generator.integers(-20, 20, count).astype(np.int32)
        any_ = generator.integers(-(2**31), 2**31, count).astype(np.int32)
        whole = generator.integers(-300, 300, count).astype(np.float32)
        return [
            ("special", x, n),
            ("any base", bits(), small),
            ("ties", whole, small),
            ("underflow", powers_of_two(), small),
            ("near 1", (1 + normal(1e-6)).astype(np.float32), any_),
        ]
    cases: list[tuple[str, NDArray[np.float32], NDArray[np.generic]]] = [
        ("special", x, y),
        ("any", bits(), bits()),
        ("ordinary", normal(1), normal(3)),
        ("subnormal", bits(1 << 24), bits(1 << 24)),
    ]
    if name == "pow":
        base = np.abs(bits())
        with np.errstate(all="ignore"):
            limit = 150 / np.log2(base.astype(np.float64))
            exponent = (limit * generator.uniform(-1, 1, count)).astype(np.float32)
        roots = generator.integers(0, 5000, count).astype(np.float32)
        cases += [
            ("no overflow", base, exponent),
            ("ties of roots", roots**2, (generator.integers(-60, 60, count) / 4).astype(np.float32)),
            ("ties", generator.integers(-4096, 4096, count).astype(np.float32), normal(6).round()),
            ("ties of underflow", powers_of_two(), (-150 / generator.integers(1, 149, count)).astype(np.float32)),
            ("near 1", (1 + normal(1e-6)).astype(np.float32), normal(1e7)),
        ]
    if name == "hypot":
        p, q = generator.integers(1, 4000, count), generator.integers(1, 4000, count)
        cases += [
            ("ties", (p * p - q * q).astype(np.float32), (2 * p * q).astype(np.float32)),
            ("scales", normal(1), normal(1e-4)),
        ]
    if name == "atan2":
        cases += [
            ("ties of underflow", bits(1 << 12), np.ldexp(1.5, generator.integers(-3, 10, count)).astype(np.float32)),
            ("left", normal(1), -np.abs(normal(1e-3))),
        ]
    return cases


@pytest.mark.parametrize("level", available_levels())
@pytest.mark.parametrize("name", ["atan2", "hypot", "pow", "powi"])
@pytest.mark.diagonal
def test_binary(name: str, level: str) -> None:
    count = 1 << 19
    for what, x, y in pairs(name, count):
        right = reference.evaluate(name, x, y)
        wrong = mismatches(evaluate(name, level, x, y), right)
        assert not wrong.size, (what, [(float(x[i]).hex(), y[i]) for i in wrong[:5]])
        if what == "special":
            wrong = mismatches(evaluate(name, level, x, y, lanes=False), right)
            assert not wrong.size, (what, [(float(x[i]), y[i]) for i in wrong[:5]])


def test_coefficients_are_the_derived_ones() -> None:
    subprocess.run([sys.executable, str(HERE / "derive.py"), "--check"], check=True)
