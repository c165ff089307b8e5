# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(M4) Sums as matrix units compute them, on every CPU level: long and ragged extents, all layouts of operands, and
accumulators that no hardware has."""

from __future__ import annotations

import dataclasses
import os
import random

import numpy as np
import pytest
from repro_mlir import Accumulator
from repro_mlir.execute import qemu
from support import kit
from support.accumulated import AMPERE, HOPPER, OPERANDS, VOLTA, Product, as_bits, ordering, products, random_product

EXAMPLES = int(os.environ.get("REPRO_EXAMPLES", "60"))

WHERE = [
    *(kit.Configuration(level, threads) for level in kit.levels() for threads in (1, 2)),
    *([kit.Configuration("aarch64", 2)] if qemu.is_available() else []),
]

E4M3 = Accumulator.named("hopper", "f8E4M3FN")
CASES = {name: (product, operands) for name, product, operands in products()}


@pytest.mark.parametrize(
    ("by", "t", "sizes", "maps"),
    [
        # K is larger than the buffer of pending products, and not a multiple of the buffer's size. Some cases have few
        # rows or columns, others many.
        (HOPPER, "bf16", {"m": 9, "n": 40, "k": 2507}, ("mk", "kn", "mn")),
        (HOPPER, "bf16", {"m": 200, "n": 150, "k": 260}, ("mk", "nk", "mn")),
        (AMPERE, "f16", {"m": 130, "n": 70, "k": 1100}, ("km", "kn", "mn")),
        (VOLTA, "f16", {"m": 3, "n": 300, "k": 1030}, ("km", "nk", "nm")),
        (HOPPER, "bf16", {"m": 40, "n": 30, "k": 19, "l": 60}, ("klm", "lkn", "mn")),
        (dataclasses.replace(HOPPER, start="init"), "bf16", {"m": 37, "n": 45, "k": 2100}, ("mk", "kn", "nm")),
        (dataclasses.replace(E4M3, chunk=128), "f8E4M3FN", {"m": 33, "n": 65, "k": 1300}, ("mk", "nk", "mn")),
        (dataclasses.replace(E4M3, chunk=2048), "f8E4M3FN", {"m": 5, "n": 33, "k": 5000}, ("mk", "nk", "mn")),
        (dataclasses.replace(E4M3, chunk=8192), "f8E4M3FN", {"m": 2, "n": 3, "k": 9000}, ("mk", "nk", "mn")),
        (Accumulator.named("hopper_mma", "f8E5M2"), "f8E5M2", {"m": 20, "n": 33, "k": 1235}, ("mk", "kn", "mn")),
        (Accumulator(127, 24, "rz_f32", -132), "f16", {"m": 9, "n": 20, "k": 700}, ("mk", "kn", "mn")),
    ],
    ids=lambda value: ordering(value)[12:-1] if isinstance(value, Accumulator) else None,
)
@pytest.mark.diagonal("t")
def test_long_and_packed_M4(by: Accumulator, t: str, sizes: dict[str, int], maps: tuple[str, str, str]) -> None:
    product = Product(by, sizes, (t, t, "f32"), maps)
    kit.check(product.program(), product.operands(OPERANDS["normal"], 7), WHERE, runs=1)


@pytest.mark.parametrize("seed", range(EXAMPLES))
@pytest.mark.diagonal(seed=range(8))
def test_made_up_rules_M4(seed: int) -> None:
    choose = random.Random(seed)
    product, kind = random_product(choose)
    where = [choose.choice(WHERE), WHERE[-1]] if seed % 3 == 0 else WHERE[:-1]
    kit.check(product.program(), product.operands(OPERANDS[kind], seed), where, runs=1)


@pytest.mark.skipif(not qemu.is_available(), reason="no aarch64 compiler or emulator")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.diagonal("name")
def test_classes_on_aarch64_M3(name: str) -> None:
    product, operands = CASES[name]
    kit.check(product.program(), operands, WHERE[-1:], runs=1)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    "by", [HOPPER, Accumulator.named("blackwell", "f8E4M3FN"), Accumulator(16, 29, "rz_f32", -140)]
)
@pytest.mark.diagonal
def test_sums_at_the_limit_of_i32_M1(by: Accumulator, sign: int) -> None:
    """Column j is the sum of c and j products of the largest significands, for several values of c; j is at most 64."""
    t = "f8E4M3FN" if by.terms == 32 else "bf16"
    largest = 1.875 if t == "f8E4M3FN" else 1.9921875
    product = Product(dataclasses.replace(by, start="init"), {"m": 3, "n": 65, "k": 64}, (t, t, "f32"))
    x = np.full((3, 64), sign * largest, np.float32)
    y = np.where(np.arange(64)[:, np.newaxis] < np.arange(65), largest, 0).astype(np.float32)
    for init in (0.0, sign * 1.9999999, sign * 63.0, -sign * 1.0, sign * 3.9999998):
        c = np.full((3, 65), init, np.float32)
        operands = tuple(as_bits(value, kind) for value, kind in zip((x, y, c), product.types, strict=True))
        kit.check(product.program(), operands, WHERE, runs=1)


@pytest.mark.parametrize("start", ["zero", "init"])
@pytest.mark.parametrize("by", [HOPPER, AMPERE, Accumulator(4, 12, "rne_f32", -200)])
@pytest.mark.diagonal
def test_values_near_the_least_scale_M1(by: Accumulator, start: str) -> None:
    """Tests c and products near 2^(F - 125): for smaller values, the scale 2^(F - E) is not an f32 value, but results
    must still be correct."""
    product = Product(dataclasses.replace(by, start=start), {"m": 9, "n": 70, "k": 48})
    rng = np.random.default_rng(3)
    near = by.fraction - 125

    def around(shape: tuple[int, ...], half: float, zeros: float) -> np.ndarray:
        x = rng.choice([-1.0, 1.0], shape) * np.exp2(half + rng.integers(-9, 9, shape)) * (1 + rng.random(shape))
        return np.where(rng.random(shape) < zeros, 0, x).astype(np.float32)

    for zeros in (0.1, 0.8, 1.0):
        init = around((9, 70), near, 0.1) * np.where(rng.random((9, 70)) < 0.2, np.float32(2**-20), 1)
        values = around((9, 48), near / 2, zeros), around((48, 70), near / 2, zeros), init.astype(np.float32)
        # Two products that cancel each other, so that only the last bits of c remain.
        values[0][:, 17] = -values[0][:, 1]
        values[1][17] = values[1][1]
        operands = tuple(as_bits(value, kind) for value, kind in zip(values, product.types, strict=True))
        kit.check(product.program(), operands, WHERE, runs=1)
