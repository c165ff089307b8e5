# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(M5) Contractions of block-scaled tensors with accumulators of matrix units have the same bits on every target."""

import dataclasses

import pytest
from repro_mlir.compilation.cpu import runnable_levels
from repro_mlir.execute import qemu
from support import accumulated_blocks
from support.accumulated_blocks import DRAWS, SUMS
from support.catalogue import Case
from support.kit import Configuration, check

ON_EVERY_LEVEL = [Configuration(level, threads) for level in runnable_levels() for threads in (1, 2)]
CASES = list(accumulated_blocks.cases())


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.diagonal("case")
def test_M5_contractions(case: Case) -> None:
    check(case.program, case.inputs)


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.diagonal(name=["blackwell_mx", "promoted-split", "late", "exact-chain"])
def test_M5_every_level_and_two_threads(name: str) -> None:
    case = accumulated_blocks.product(f"levels-{name}", SUMS[name], (33, 17, 70), DRAWS["any"], (2,))
    check(case.program, case.inputs, ON_EVERY_LEVEL)


@pytest.mark.parametrize("name", ["blackwell_mx", "blackwell_nvfp4", "promoted"])
def test_M5_several_items(name: str) -> None:
    """The operands have more rows and columns than are packed at a time, and neither number is a multiple of the tile
    size."""
    case = accumulated_blocks.product(f"items-{name}", SUMS[name], (67, 135, 70))
    check(case.program, case.inputs, ON_EVERY_LEVEL, runs=1)


@pytest.mark.parametrize("name", ["blackwell_nvfp4", "promoted"])
def test_M5_a_scale_of_more_rows_than_there_are(name: str) -> None:
    chosen = dataclasses.replace(SUMS[name], rows=(2**40, 2**31))
    case = accumulated_blocks.product(f"rows-{name}", chosen, (3, 5, 150))
    check(case.program, case.inputs)


@pytest.mark.skipif(not qemu.is_available(), reason="no aarch64 compiler or emulator")
@pytest.mark.parametrize("level", ["aarch64", "aarch64-dotprod"])
@pytest.mark.parametrize("case", CASES[::4], ids=[case.name for case in CASES[::4]])
@pytest.mark.diagonal("case")
def test_M5_aarch64(case: Case, level: str) -> None:
    check(case.program, case.inputs, [Configuration(level, 3)], runs=1)
