# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q4) Contractions in blocks by products of bytes give the bits of the reference interpreter."""

from __future__ import annotations

import random

import numpy as np
import pytest
from repro_mlir.compilation import gpu as device_code
from support import assembling, block_programs, device_kit
from support import inputs as values
from support.catalogue import Case

NVFP4, MXFP6, MXINT8 = ("f4E2M1FN", "f4E2M1FN"), ("f6E2M3FN", "f6E2M3FN"), ("i8", "i8")
DIGITS = ("f6E3M2FN", "f6E3M2FN")
INSTRUCTION = "mma.sync.aligned.m16n8k{}.row.col.s32.s8.s8.s32"

CASES = {
    "ragged-tiles": ((), (70, 40, 192), NVFP4, 32, [1, 32]),
    "odd-number-of-blocks": ((2,), (8, 66, 96), ("f6E2M3FN", "f4E2M1FN"), 32, [3, 1]),
    "halves-of-steps": ((), (9, 65, 128), NVFP4, 16, [1, 16]),
    "halves-of-one-step": ((2, 2), (65, 9, 96), NVFP4, 16, [1, 1]),
    "filled-block": ((), (17, 12, 70), MXFP6, 64, [1, 1]),
    "block-of-three-slices": ((), (33, 8, 288), MXFP6, 96, [1, 100]),
    "block-of-two-slices": ((3,), (10, 20, 256), MXINT8, 128, [1, 1]),
    "large-sums": ((), (9, 8, 512), MXINT8, 256, [1, 1]),
    "digits": ((), (9, 70, 128), ("f6E3M2FN", "f4E2M1FN"), 32, [1, 1]),
    "digits-of-columns": ((), (66, 8, 192), ("f4E2M1FN", "f6E3M2FN"), 96, [1, 1]),
    "halves-of-digits": ((), (10, 12, 96), DIGITS, 16, [1, 1]),
}


@pytest.mark.parametrize("name", CASES)
def test_shapes_Q4(name: str) -> None:
    for seed in range(2):
        case = block_programs.product(random.Random(f"{name}-{seed}"), name, *CASES[name])
        code = device_code.compile(case.program, "sm_80")
        assert INSTRUCTION.format(16 if "halves" in name else 32) in code.ptx
        device_kit.check(case.program, case.inputs, "sm_80", order="descending" if seed else "ascending")


@pytest.mark.parametrize("name", ["odd-number-of-blocks", "halves-of-steps", "block-of-two-slices", "digits"])
def test_no_race(name: str) -> None:
    case = block_programs.product(random.Random(name), name, *CASES[name])
    device_kit.check(case.program, case.inputs, "sm_80", checked=True)


@pytest.mark.parametrize(
    ("elements", "block"), [(NVFP4, 16), (MXFP6, 32), (MXINT8, 32), (MXINT8, 256), (DIGITS, 16), (DIGITS, 512)]
)
def test_extreme_codes_Q4(elements: tuple[str, str], block: int) -> None:
    """The largest sums of a block: from 2^22 on they do not fit into a float's bits, beyond 2^24 they are rounded."""
    sizes = (9, 12, 512)
    case = block_programs.product(
        random.Random(block), "extreme", (), sizes, elements, block, [1, 1], block_programs.extreme_codes
    )
    device_kit.check(case.program, case.inputs, "sm_80")


@pytest.mark.parametrize("step", ["fused", "split"])
@pytest.mark.parametrize("block", [16, 32])
def test_special_scales_Q4(step: str, block: int) -> None:
    """Any f32: zeros, subnormals, infinities, NaNs, products beyond them and below; zeros of either sign as results."""
    case = _with_scales(step, block)
    device_kit.check(case.program, case.inputs, "sm_80")


def _with_scales(step: str, block: int) -> Case:
    choose = random.Random(block)
    while True:
        case = block_programs.product(choose, "special", (), (40, 24, 64), NVFP4, block, [1, 1])
        if step in case.program and case.inputs[1].dtype == case.inputs[3].dtype == np.float32:
            break
    x, _, y, _, init = case.inputs
    scales = []
    for rows, seed in ((40, 1), (24, 2)):
        # Most are small, so that not every result is an infinity or a NaN.
        array = values.random("f32", (rows, 64 // block), seed, 100)
        array[::5] = values.mixed("f32", array[::5].shape, seed)
        scales.append(array)
    return Case(case.name, case.program, (x, scales[0], y, scales[1], np.where(init == 0, np.float32(-0.0), init)))


@pytest.mark.parametrize("arch", device_code.architectures())
def test_assembler(arch: str) -> None:
    cases = [block_programs.product(random.Random(name), name, *CASES[name]) for name in CASES]
    modules = [device_code.compile(case.program, arch).ptx for case in cases]
    assert any("mma.sync" in text for text in modules) == (arch != "sm_75")
    assembling.check(modules, arch, list(CASES))
