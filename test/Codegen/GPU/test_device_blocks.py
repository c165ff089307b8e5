# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q4) Contractions of block-scaled tensors, computed with matrix instructions on 8-bit integers, have the bits of the
reference interpreter."""

from __future__ import annotations

import random

import numpy as np
import pytest
from repro_mlir.compilation import gpu as device_code
from support import assembling, block_programs, device_kit, kit
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
    "odd-number-of-halves": ((2,), (9, 66, 48), NVFP4, 16, [1, 16]),
    "larger-odd-number-of-halves": ((), (65, 9, 784), NVFP4, 16, [1, 1]),
    "odd-number-of-halves-of-digits": ((), (10, 12, 80), ("f6E3M2FN", "f6E2M3FN"), 16, [3, 1]),
    "a-filled-block": ((), (10, 12, 16), NVFP4, 16, [1, 1]),
    "a-filled-block-of-all": ((2,), (12, 9, 100), MXINT8, 100, [1, 1]),
    "a-filled-block-of-slices": ((), (8, 65, 784), MXINT8, 8192, [1, 1]),
}


def has_instructions(case: Case) -> bool:
    return "mma.sync" in device_code.compile(case.program, "sm_80").ptx


@pytest.mark.parametrize("name", CASES)
def test_shapes_Q4(name: str) -> None:
    for seed in range(2):
        case = block_programs.product(random.Random(f"{name}-{seed}"), name, *CASES[name])
        code = device_code.compile(case.program, "sm_80")
        assert INSTRUCTION.format(16 if "halves" in name else 32) in code.ptx
        device_kit.check(case.program, case.inputs, "sm_80", order="descending" if seed else "ascending")


@pytest.mark.parametrize(
    "name",
    [
        "odd-number-of-blocks",
        "halves-of-steps",
        "block-of-two-slices",
        "digits",
        "digits-of-columns",
        "odd-number-of-halves",
    ],
)
def test_no_race(name: str) -> None:
    case = block_programs.product(random.Random(name), name, *CASES[name])
    assert has_instructions(case)
    device_kit.check(case.program, case.inputs, "sm_80", checked=True)


@pytest.mark.parametrize(
    ("elements", "block"), [(NVFP4, 16), (MXFP6, 32), (MXINT8, 32), (MXINT8, 256), (DIGITS, 16), (DIGITS, 512)]
)
def test_extreme_codes_Q4(elements: tuple[str, str], block: int) -> None:
    """Tests the largest sums of a block. The kernel cannot accumulate sums of 2^22 or more in the bits of an f32, so it
    converts such sums to f32. For sums above 2^24, the conversion rounds."""
    sizes = (9, 12, 512)
    case = block_programs.product(
        random.Random(block), "extreme", (), sizes, elements, block, [1, 1], block_programs.extreme_codes
    )
    assert has_instructions(case)
    device_kit.check(case.program, case.inputs, "sm_80")


@pytest.mark.parametrize("step", ["fused", "split"])
@pytest.mark.parametrize(("block", "k"), [(16, 64), (32, 64), (16, 48)])
def test_special_scales_Q4(step: str, block: int, k: int) -> None:
    """Covers scales that are zero, subnormal, infinite or NaN; products that overflow or underflow; and results of +0
    and -0."""
    case = _with_scales(step, block, k)
    assert has_instructions(case)
    device_kit.check(case.program, case.inputs, "sm_80")


def test_sums_of_negative_zeros_Q4() -> None:
    """In each of three blocks, products underflow to -0. One more block, of zeros, would make the sum +0."""
    case = _with_scales("fused", 16, 48)
    x, y = (np.zeros((rows, 48), np.uint8) for rows in (40, 24))
    x[:, ::16], y[:, ::16] = 0x1, 0x9  # 0.5 and -0.5
    scales = [np.full((rows, 3), 2.0**-74 if rows == 24 else 2.0**-75, np.float32) for rows in (40, 24)]
    inputs = (x, scales[0], y, scales[1], np.full((40, 24), -0.0, np.float32))
    device_kit.check(case.program, inputs, "sm_80")


VIEWS = """
func.func @main(%p: tensor<{x}>, %sp: tensor<{sx}>, %q: tensor<40x{k}xi8>, %sq: tensor<40x{blocks}xf32>)
    -> tensor<16x80xf32> attributes {{repro.num_state = 0 : i64}} {{
  %x = tensor.extract_slice %p{part} : tensor<{x}> to tensor<16x{k}xi8>
  %sx = tensor.extract_slice %sp{scales} : tensor<{sx}> to tensor<16x{blocks}xf32>
  %zero = arith.constant 0.0 : f32
  %init = tensor.splat %zero : tensor<16x40xf32>
  %r = repro.block_contraction fused block = 32 rows = [1, 1] fraction_bits = 0
      ins(%x, %sx, %q, %sq : tensor<16x{k}xi8>, tensor<16x{blocks}xf32>, tensor<40x{k}xi8>, tensor<40x{blocks}xf32>)
      outs(%init : tensor<16x40xf32>) -> tensor<16x40xf32>
  %all = tensor.splat %zero : tensor<16x80xf32>
  %whole = tensor.insert_slice %r into %all[0, 1] [16, 40] [1, 2] : tensor<16x40xf32> into tensor<16x80xf32>
  return %whole : tensor<16x80xf32>
}}
"""


@pytest.mark.parametrize(
    ("x", "part", "sx", "scales", "expected"),
    [
        ("32x128xi8", "[1, 0] [16, 128] [2, 1]", "16x8xf32", "[0, 1] [16, 4] [1, 2]", True),
        ("16x128x1xi8", "[0, 0, 0] [16, 128, 1] [1, 1, 1]", "16x4x2xf32", "[0, 0, 1] [16, 4, 1] [1, 1, 1]", True),
        ("16x144xi8", "[0, 16] [16, 128] [1, 1]", "16x4xf32", "[0, 0] [16, 4] [1, 1]", True),
        ("16x256xi8", "[0, 0] [16, 128] [1, 2]", "16x4xf32", "[0, 0] [16, 4] [1, 1]", False),
        ("16x128x2xi8", "[0, 0, 1] [16, 128, 1] [1, 1, 1]", "16x4xf32", "[0, 0] [16, 4] [1, 1]", False),
        ("16x129xi8", "[0, 1] [16, 128] [1, 1]", "16x4xf32", "[0, 0] [16, 4] [1, 1]", False),
    ],
)
def test_views_Q4(x: str, part: str, sx: str, scales: str, expected: bool) -> None:
    """Operands are parts of other tensors and are read in place. Matrix instructions need contiguous, aligned codes."""
    text = VIEWS.format(x=x, part=part, sx=sx, scales=scales, k=128, blocks=4)
    random_numbers = np.random.default_rng(0)
    shapes = [tuple(map(int, word.split("x")[:-1])) for word in (x, sx)]
    codes = [random_numbers.integers(-128, 128, shape).astype(np.int8) for shape in (shapes[0], (40, 128))]
    factors = [random_numbers.standard_normal(shape, np.float32) for shape in (shapes[1], (40, 4))]
    case = Case("views", text, (codes[0], factors[0], codes[1], factors[1]))
    assert has_instructions(case) == expected
    device_kit.check(case.program, case.inputs, "sm_80")
    kit.check(case.program, case.inputs, runs=1)


def _with_scales(step: str, block: int, k: int) -> Case:
    choose = random.Random(block)
    while True:
        case = block_programs.product(choose, "special", (), (40, 24, k), NVFP4, block, [1, 1])
        if step in case.program and case.inputs[1].dtype == case.inputs[3].dtype == np.float32:
            break
    x, _, y, _, init = case.inputs
    scales = []
    for rows, seed in ((40, 1), (24, 2)):
        # Four of five rows have no extreme scales, so that some results are neither infinities nor NaNs.
        array = values.random("f32", (rows, k // block), seed, 100)
        array[::5] = values.mixed("f32", array[::5].shape, seed)
        scales.append(array)
    return Case(case.name, case.program, (x, scales[0], y, scales[1], np.where(init == 0, np.float32(-0.0), init)))


@pytest.mark.parametrize("arch", device_code.architectures())
@pytest.mark.diagonal(arch=["sm_80", "sm_120"])
def test_assembler(arch: str) -> None:
    cases = [block_programs.product(random.Random(name), name, *CASES[name]) for name in CASES]
    modules = [device_code.compile(case.program, arch).ptx for case in cases]
    assert any("mma.sync" in text for text in modules) == (arch != "sm_75")
    assembling.check(modules, arch, list(CASES))
