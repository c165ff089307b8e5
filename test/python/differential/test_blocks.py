# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(V1), (Q1) to (Q4) Block-scaled tensors and the element types f6, f4 and f8E8M0FNU have the same bits on every
target."""

import pytest
from repro_mlir.compilation.cpu import runnable_levels
from repro_mlir.execute import qemu
from support import block_programs
from support.catalogue import Case
from support.kit import Configuration, check

ON_EVERY_LEVEL = [Configuration(level, threads) for level in runnable_levels() for threads in (1, 2)]
CASES = [case for group in block_programs.GROUPS.values() for case in group()]
ON_AARCH64 = [
    *CASES[::24],
    *map(block_programs.contraction, range(3)),
    *block_programs.large_contractions()[-1:],
    *block_programs.extreme_contractions(),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.diagonal("case")
def test_V1_Q1_Q2_Q3_blocks(case: Case) -> None:
    check(case.program, case.inputs)


@pytest.mark.parametrize("number", range(40))
@pytest.mark.diagonal(number=range(10))
def test_Q4_contractions(number: int) -> None:
    case = block_programs.contraction(number)
    check(case.program, case.inputs)


@pytest.mark.parametrize("shape", [(1, 5, 96), (7, 3, 33), (20, 33, 128), (1, 64, 70)])
def test_Q7_contractions_of_packed_codes(shape: tuple[int, int, int]) -> None:
    case = block_programs.packed_contraction(*shape)
    check(case.program, case.inputs, ON_EVERY_LEVEL)


@pytest.mark.parametrize("case", block_programs.large_contractions(), ids=lambda case: case.name)
def test_Q4_large_contractions(case: Case) -> None:
    """The contractions are so large that their rows and columns are divided into several work items, and K into several
    segments."""
    check(case.program, case.inputs)


@pytest.mark.parametrize("case", list(block_programs.extreme_contractions()), ids=lambda case: case.name)
@pytest.mark.diagonal("case")
def test_Q4_extreme_contractions(case: Case) -> None:
    """Covers integer sums at their limits: compiled code saturates or wraps exactly where the reference does, with one
    thread and with two."""
    check(case.program, case.inputs, ON_EVERY_LEVEL)


@pytest.mark.skipif(not qemu.is_available(), reason="no aarch64 compiler or emulator")
@pytest.mark.parametrize("level", ["aarch64", "aarch64-dotprod"])
@pytest.mark.parametrize("case", ON_AARCH64, ids=[case.name for case in ON_AARCH64])
@pytest.mark.diagonal("case")
def test_aarch64(case: Case, level: str) -> None:
    check(case.program, case.inputs, [Configuration(level, 3)], runs=1)
