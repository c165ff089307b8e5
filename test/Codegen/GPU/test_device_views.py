# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Device code that reads and writes views of other tensors has the bits of the reference interpreter. The views have
the size of a tile."""

from __future__ import annotations

import numpy as np
import pytest
from support import accumulated_blocks, block_programs, catalogue, device_kit, views
from support.accumulated import HOPPER, OPERANDS, Product
from support.builder import COLUMN, Builder, order
from support.catalogue import Case

LAYOUTS = (
    ("ik", "kj", "ij"),
    ("ki", "jk", "ji"),
    ("hik", "hjk", "hij"),
    ("ihk", "jhk", "ihj"),
)
SIZES = (
    {"h": 2, "i": 70, "j": 68, "k": 40},
    {"h": 3, "i": 8, "j": 140, "k": 33},
    {"h": 2, "i": 33, "j": 20, "k": 50},
)
KINDS = {
    "chunks": (COLUMN, "sm_75"),
    "short-chunks": (order(16, 1), "sm_100"),
    "two-digits": ("#repro.exact<digits = 2>", "sm_80"),
    "three-digits": ("#repro.exact<digits = 3>", "sm_90"),
}


def contraction(ordering: str, maps: tuple[str, str, str], sizes: dict[str, int]) -> Case:
    """Returns an f32 product; `maps` names the dimensions of x, y and the result with one letter each, such as ("ik",
    "kj", "ij")."""
    b = Builder()
    dims = sorted(set("".join(maps)))
    x, y, init = (
        (b.argument([sizes[i] for i in letters], "f32"), ", ".join(f"d{dims.index(i)}" for i in letters))
        for letters in maps
    )
    iterators = "".join("p" if i in maps[2] else "r" for i in dims)
    result = b.fold(ordering, iterators, [x, y], [init], "%r0 = math.fma %x0, %x1, %a0 : f32")
    random = np.random.default_rng(len(dims))
    return Case(
        "contraction", b.program(*result), tuple(random.standard_normal(v.shape, np.float32) for v, _ in (x, y, init))
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("maps", LAYOUTS, ids="-".join)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.diagonal
def test_contractions_K1_K4(kind: str, maps: tuple[str, str, str], sizes: dict[str, int]) -> None:
    ordering, arch = KINDS[kind]
    made = views.of_views(contraction(ordering, maps, sizes), sizes["i"])
    device_kit.check(made.program, made.inputs, arch)


@pytest.mark.parametrize("seed", range(6))
def test_accumulators_M4(seed: int) -> None:
    """Tests code with matrix instructions."""
    maps = [("mk", "kn", "mn"), ("bmk", "bnk", "bmn"), ("km", "nk", "nm")][seed % 3]
    extents = {"b": 2, "m": 70, "n": 40, "k": 50}
    sizes = {letter: extents[letter] for letter in set("".join(maps))}
    product = Product(HOPPER, sizes, maps=maps)
    made = views.of_views(Case("M4", product.program(), product.operands(OPERANDS["normal"], seed)), seed)
    device_kit.check(made.program, made.inputs, "sm_90+tensor-cores")


@pytest.mark.parametrize("number", range(20))
@pytest.mark.diagonal(number=range(4))
def test_contractions_in_blocks_Q4(number: int) -> None:
    for arch in ("sm_75", "sm_90"):
        made = views.of_views(block_programs.contraction(number), number)
        device_kit.check(made.program, made.inputs, arch)


@pytest.mark.parametrize("number", range(5))
def test_contractions_in_accumulators_M5(number: int) -> None:
    made = views.of_views(accumulated_blocks.contraction(number), number)
    device_kit.check(made.program, made.inputs, "sm_90")


@pytest.mark.parametrize("case", catalogue.cases(), ids=lambda case: case.name)
@pytest.mark.diagonal(case=catalogue.REPRESENTATIVES)
def test_catalogue(case: catalogue.Case) -> None:
    made = views.of_views(case, 1)
    device_kit.check(made.program, made.inputs, "sm_90")
