# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(M4) Contractions with accumulators of matrix units have the bits of the reference interpreter in device code that
uses no tensor cores but emulates the accumulators with integers."""

from __future__ import annotations

import random

import pytest
from repro_mlir.compilation import gpu as device_code
from support import device_kit
from support.accumulated import HOPPER, OPERANDS, Product, products, random_product

CASES = {name: (product, operands) for name, product, operands in products()}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.diagonal("name")
def test_products_M4(name: str) -> None:
    product, operands = CASES[name]
    device_kit.check(product.program(), operands, "sm_80")


@pytest.mark.parametrize("seed", range(30))
def test_made_up_rules_M4(seed: int) -> None:
    product, kind = random_product(random.Random(1000 + seed))
    device_kit.check(product.program(), product.operands(OPERANDS[kind], seed), "sm_100", order="descending")


def test_no_matrix_instruction_rounds_M4() -> None:
    """Code for a target without `+tensor-cores` uses no matrix instructions, because the way in which a tensor core
    adds is known only for certified devices."""
    product = Product(HOPPER, {"m": 64, "n": 64, "k": 64})
    assert "mma" not in device_code.compile(product.program(), "sm_90").ptx
