# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests that operations are counted from the instructions, and that the processor's peak is right."""

from __future__ import annotations

from dataclasses import replace

import pytest
from repro_mlir.roofline import predict, read_code
from repro_mlir.roofline.cpu.assembly import Block
from repro_mlir.roofline.cpu.operations import OPERATIONS, operations_of
from support.predicted import MACHINE, doubled, product, program_of

MODELS = {"x86-64-v3": "znver4", "x86-64-v4": "znver4", "aarch64-dotprod": "neoverse-v2"}


@pytest.mark.parametrize("level", MODELS)
@pytest.mark.parametrize("size", [32, 64])
@pytest.mark.diagonal
def test_the_product_of_matrices(level: str, size: int) -> None:
    machine = replace(MACHINE, level=level, scheduling_model=MODELS[level])
    (launch,) = predict(read_code(program_of(product(size)), machine), machine).launches
    # Each product of elements is one multiply-add (two operations), and each result also adds the initial value.
    assert launch.operations == {"floating_point": 2 * size**3 + size**2, "integer": 0, "special": 0}


def test_an_element_wise_program() -> None:
    (launch,) = predict(read_code(program_of(doubled(1 << 12)), MACHINE), MACHINE).launches
    assert launch.operations["floating_point"] == 1 << 12


@pytest.mark.parametrize(
    ("instruction", "kind", "count"),
    [
        ("vfmadd231ps\t(%rax,%rcx,4){1to16}, %zmm0, %zmm1", "floating_point", 32),
        ("vfnmadd213sd\t%xmm0, %xmm1, %xmm2", "floating_point", 2),
        ("vfmaddsub132pd\t%ymm0, %ymm1, %ymm2", "floating_point", 8),
        ("vmulpd\t%ymm0, %ymm1, %ymm2", "floating_point", 4),
        ("mulps\t%xmm15, %xmm1", "floating_point", 4),
        ("addss\t%xmm15, %xmm1", "floating_point", 1),
        ("vmaxps\t%zmm0, %zmm1, %zmm2 {%k1}", "floating_point", 16),
        ("vaddph\t%zmm0, %zmm1, %zmm2", "floating_point", 32),
        ("vdpbf16ps\t%zmm0, %zmm1, %zmm2", "floating_point", 64),
        ("vdivps\t%ymm0, %ymm1, %ymm2", "special", 8),
        ("vsqrtsd\t%xmm0, %xmm1, %xmm2", "special", 1),
        ("vrsqrt14ps\t%zmm0, %zmm1", "special", 16),
        ("vpdpbusd\t%zmm0, %zmm1, %zmm2", "integer", 128),
        ("{vex} vpdpbusd\t%ymm0, %ymm1, %ymm2", "integer", 64),
        ("vpdpwssd\t%zmm0, %zmm1, %zmm2", "integer", 64),
        ("vpmaddubsw\t%ymm0, %ymm1, %ymm2", "integer", 48),
        ("vpmaddwd\t%ymm0, %ymm1, %ymm2", "integer", 24),
        ("vpmuludq\t%ymm0, %ymm1, %ymm2", "integer", 4),
        ("paddb\t%xmm0, %xmm1", "integer", 16),
        ("vpsubq\t%zmm0, %zmm1, %zmm2", "integer", 8),
        ("vmovups\t%zmm0, (%rax)", None, 0),
        ("vcvtps2pd\t%xmm0, %ymm1", None, 0),
        ("vpermt2pd\t%zmm0, %zmm1, %zmm2", None, 0),
        ("addq\t$64, %rax", None, 0),
        ("fmla\tv0.4s, v1.4s, v2.s[0]", "floating_point", 8),
        ("fmadd\td0, d1, d2, d3", "floating_point", 2),
        ("fadd\ts0, s1, s2", "floating_point", 1),
        ("faddp\ts0, v1.2s", "floating_point", 1),
        ("fmaxnm\tv0.2d, v1.2d, v2.2d", "floating_point", 2),
        ("fdiv\tv0.4s, v1.4s, v2.4s", "special", 4),
        ("fsqrt\td0, d1", "special", 1),
        ("sdot\tv0.4s, v1.16b, v2.4b[0]", "integer", 32),
        ("umull2\tv0.2d, v1.4s, v2.4s", "integer", 2),
        ("add\tv0.8h, v1.8h, v2.8h", "integer", 8),
        ("add\tx0, x0, #8", None, 0),
        ("ldr\tq0, [x1]", None, 0),
        ("fcvtl\tv0.2d, v1.2s", None, 0),
    ],
)
def test_instructions(instruction: str, kind: str | None, count: int) -> None:
    expected = dict.fromkeys(OPERATIONS, 0)
    if kind is not None:
        expected[kind] = 3 * count
    assert operations_of([Block(3, 0, [instruction])]) == expected


@pytest.mark.parametrize(
    ("level", "model", "bits", "flops"),
    [
        # The peaks of machines with two 256-bit units; with two 512-bit units, even if LLVM's model has only half of
        # their bits; with four 128-bit units; and with units without fused multiply-adds.
        ("x86-64-v3", "znver4", 512, 32),
        ("x86-64-v4", "znver4", 512, 32),
        ("x86-64-v4", "znver4", 256, 64),
        ("x86-64-v4", "sapphirerapids", 512, 64),
        ("aarch64", "neoverse-v2", 512, 32),
        ("x86-64-v2", "znver4", 512, 16),
    ],
)
def test_the_peak(level: str, model: str, bits: int, flops: int) -> None:
    machine = replace(MACHINE, level=level, scheduling_model=model, modelled_vector_bits=bits)
    step = predict(read_code(program_of(doubled(16)), machine), machine, 4)
    assert step.ceilings.arithmetic == {"floating_point": pytest.approx(flops * 4 * machine.clock_hz)}
    assert step.ceilings.bandwidth == {"l2": 4e11, "l3": 2e11, "memory": 4e10}
