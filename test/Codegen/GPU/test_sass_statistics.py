# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks the machine code of large matrix products: the main loop consists almost only of multiply-adds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from repro_mlir.compilation.assembler import find_assembler
from repro_mlir.runner.certificates import unit_of

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools" / "gpu"))
import sass_statistics

LOOP = """
.text.kernel:
.L_x_0:
        /*0010*/ IADD3 R1, R1, 0x1, RZ ;
.L_x_1:
        /*0020*/ FFMA R2, R3, R4, R2 ;
        /*0030*/ FFMA2 R4, R6, R8, R4 ;
        /*0040*/ LDS.128 R8, [R1] ;
        /*0050*/ @!P0 BRA `(.L_x_1) ;
        /*0060*/ @!P1 BRA `(.L_x_0) ;
"""


def test_the_innermost_loop_counts() -> None:
    assert sass_statistics.main_loop(LOOP) == (4, 3)


@pytest.mark.parametrize(
    ("statistics", "good"),
    [((255, 0, 1000, 900), True), ((255, 8, 1000, 900), False), ((255, 0, 1000, 899), False), ((255, 0, 0, 0), False)],
)
def test_statistics_are_good(statistics: tuple[int, int, int, int], good: bool) -> None:
    assert sass_statistics.Statistics(*statistics).is_good == good


@pytest.mark.skipif(find_assembler() is None, reason="needs ptxas: pip install 'repro-mlir[cuda]'")
@pytest.mark.parametrize(
    ("arch", "shape", "layout", "digits"),
    [
        ("sm_75", (4096, 4096, 4096), "nn", 0),
        ("sm_90", (4096, 4096, 4096), "nt", 0),
        ("sm_100", (4096, 4096, 512), "tn", 0),
        ("sm_80", (4096, 4096, 4096), "nt", 2),
        ("sm_90", (4096, 4096, 4096), "nn", 3),
    ],
)
def test_matrix_products(arch: str, shape: tuple[int, int, int], layout: str, digits: int) -> None:
    found = sass_statistics.measure(find_assembler(), sass_statistics.matmul(*shape, layout, digits), arch)
    assert found.is_good, found


@pytest.mark.skipif(find_assembler() is None, reason="needs ptxas: pip install 'repro-mlir[cuda]'")
@pytest.mark.parametrize(("arch", "layout", "count"), [("sm_75", "nn", 128), ("sm_80", "tn", 64), ("sm_90", "nt", 64)])
def test_tensor_cores(arch: str, layout: str, count: int) -> None:
    """The main loop must have one instruction for each m16n8k16 product of its slice of K (m16n8k8 on sm_75)."""
    program = sass_statistics.matmul(4096, 4096, 4096, layout, unit=unit_of(arch))
    found = sass_statistics.measure(find_assembler(), program, arch)
    assert found.is_good and found.multiply_adds == count, found


@pytest.mark.skipif(find_assembler() is None, reason="needs ptxas: pip install 'repro-mlir[cuda]'")
@pytest.mark.parametrize(("arch", "name", "count"), [("sm_80", "mxfp4", 16), ("sm_90", "nvfp4", 32)])
def test_blocks(arch: str, name: str, count: int) -> None:
    """The main loop, whose slice of K has 64 elements, must have one instruction for every 32 elements, or for each
    block of 16 elements."""
    found = sass_statistics.measure(find_assembler(), sass_statistics.blocks(4096, 4096, 4096, name), arch)
    assert found.is_good and found.multiply_adds == count, found
