# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares contractions that have epilogues, bit by bit, with the reference interpreter. An epilogue consists of
operations on the results before these are stored."""

from __future__ import annotations

import pytest
from kernel_cases import check_program
from kernel_runner import run_passes
from support.builder import COLUMN, Builder, Value


def check(b: Builder, result: Value, special: bool = True, fuses: bool = True) -> None:
    """Checks that the schedule fuses an epilogue if and only if `fuses` is true, and compares the bits of the results
    as `check_program` does."""
    text = b.program(result)
    scheduled = run_passes(text, "schedule{fuse-epilogues=true}")
    assert ("memref.alloca_scope" in scheduled) == fuses
    types = ["x".join(map(str, [*(each.shape or ()), each.element])) for each in (*b.arguments, result)]
    check_program(text, types[:-1], types[-1], special)


SUM = "%r0 = arith.addf %x0, %x1 : f32"
RELU = """%s = arith.addf %x0, %x1 : f32
  %z = arith.constant 0.0 : f32
  %p = arith.cmpf ugt, %s, %z : f32
  %r0 = arith.select %p, %s, %z : f32"""


def matmul(b: Builder, m: int, n: int, k: int, layout: str = "mk kn mn", element: str = "f32", body: str = "") -> Value:
    """Returns the product of two new arguments; `layout` contains the order of the dimensions of each operand and of
    the result."""
    size, names = {"m": m, "n": n, "k": k}, {"m": "d0", "n": "d1", "k": "d2"}
    shapes = [tuple(size[letter] for letter in letters) for letters in layout.split()]
    maps = [", ".join(names[letter] for letter in letters) for letters in layout.split()]
    inputs = [(b.argument(shape, element), results) for shape, results in zip(shapes[:2], maps, strict=False)]
    wide = "f32" if element == "bf16" else element
    init = b.constant("dense<0.0>", shapes[2], wide)
    body = body or f"%r0 = math.fma %x0, %x1, %a0 : {wide}"
    return b.fold(COLUMN, "ppr", inputs, [(init, maps[2])], body)[0]


def turned(layout: str) -> str:
    """Returns the index map of the result of a product in `layout`, where d0 is m and d1 is n."""
    return "d0, d1" if layout.endswith("mn") else "d1, d0"


def convolution(b: Builder, channels: int, h: int, w: int) -> Value:
    """Returns a convolution of two new arguments."""
    image, kernel = b.argument((3, 4, h + 2, w + 2), "f32"), b.argument((channels, 4, 3, 3), "f32")
    init = b.constant("dense<0.0>", (3, channels, h, w), "f32")
    inputs = [(image, "d0, d4, d2 + d5, d3 + d6"), (kernel, "d1, d4, d5, d6")]
    body = "%r0 = math.fma %x0, %x1, %a0 : f32"
    return b.fold(COLUMN, "pppprrr", inputs, [(init, "d0, d1, d2, d3")], body)[0]


@pytest.mark.parametrize("layout", ["mk kn mn", "mk nk mn", "km kn nm", "mk nk nm"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1, 3), (1, 100, 5), (100, 1, 5), (13, 48, 19), (70, 47, 1100), (300, 290, 40)]
)
@pytest.mark.diagonal
def test_bias_and_relu_K1(m: int, n: int, k: int, layout: str) -> None:
    b = Builder()
    result, order = matmul(b, m, n, k, layout), turned(layout)
    inputs = [(result, order), (b.argument((n,), "f32"), "d1")]
    check(b, *b.generic(result.shape, inputs, RELU, "f32", output=order, dims=(m, n)), fuses=(m, n) != (1, 1))


@pytest.mark.parametrize(("m", "n", "k"), [(540, 300, 600), (13, 2100, 600)])
def test_blocks_parts_and_strips_K1(m: int, n: int, k: int) -> None:
    """Uses more rows than one block has, a K that is longer than one K-block, and more columns than one strip has."""
    b = Builder()
    result = matmul(b, m, n, k, "mk nk mn")
    check(b, b.elementwise(SUM, result, b.argument((m, n), "f32"), element="f32"), special=False)


@pytest.mark.parametrize("output", ["d0, d1", "d1, d0"])
@pytest.mark.parametrize("residual", ["d0, d1", "d1, d0"])
@pytest.mark.diagonal
def test_residuals_of_other_layouts_K1(output: str, residual: str) -> None:
    shapes = {"d0, d1": (75, 66), "d1, d0": (66, 75)}
    b = Builder()
    inputs = [(matmul(b, 75, 66, 20), "d0, d1"), (b.argument(shapes[residual], "f32"), residual)]
    check(b, *b.generic(shapes[output], inputs, SUM, "f32", output=output, dims=(75, 66)))


@pytest.mark.parametrize(
    ("others", "fuses"),
    [
        ([((6, 11, 70), "d0, d1, d2"), ((70,), "d2")], True),
        # The row index m of the product becomes (i, j). The first operand depends on i but not on j, the second on j
        # but not on i.
        ([((6, 70), "d0, d2"), ((11,), "d1")], False),
    ],
)
def test_results_in_another_shape_K1(others: list[tuple[tuple[int, ...], str]], fuses: bool) -> None:
    b = Builder()
    result = b.reshape("expand", matmul(b, 66, 70, 20), "[[0, 1], [2]]", (6, 11, 70))
    body = """%s = arith.mulf %x0, %x1 : f32
  %r0 = arith.addf %s, %x2 : f32"""
    inputs = [(result, "d0, d1, d2"), *((b.argument(shape, "f32"), results) for shape, results in others)]
    check(b, *b.generic((6, 11, 70), inputs, body, "f32"), fuses=fuses)


@pytest.mark.parametrize("layout", ["mk kn mn", "mk nk nm"])
def test_rounding_F7(layout: str) -> None:
    """Operands are extended from bf16 to f32, and the f32 sum in registers is rounded to bf16 when it is stored."""
    b = Builder()
    body = """%e = arith.extf %x0 : bf16 to f32
  %f = arith.extf %x1 : bf16 to f32
  %r0 = math.fma %e, %f, %a0 : f32"""
    result, order = matmul(b, 37, 50, 90, layout, "bf16", body), turned(layout)
    rounding = """%h = arith.truncf %x0 : f32 to bf16
  %e = arith.extf %h : bf16 to f32
  %b = arith.extf %x1 : bf16 to f32
  %s = arith.addf %e, %b : f32
  %r0 = arith.truncf %s : f32 to bf16"""
    inputs = [(result, order), (b.argument((50,), "bf16"), "d1")]
    check(b, *b.generic(result.shape, inputs, rounding, "bf16", output=order, dims=(37, 50)))


def test_double_precision_and_mask_F7() -> None:
    b = Builder()
    result = matmul(b, 40, 51, 33, element="f64")
    body = """%z = arith.constant 0.0 : f64
  %e = arith.extf %x2 : f32 to f64
  %s = arith.mulf %x0, %e : f64
  %r0 = arith.select %x1, %s, %z : f64"""
    inputs = [(result, "d0, d1"), (b.argument((40, 51), "i1"), "d0, d1"), (b.argument((40,), "f32"), "d0")]
    check(b, *b.generic((40, 51), inputs, body, "f64"))


@pytest.mark.parametrize("size", [(5, 16), (9, 32), (6, 7), (4, 5)])
@pytest.mark.parametrize("channels", [10, 32])
@pytest.mark.diagonal
def test_convolution_K2(size: tuple[int, int], channels: int) -> None:
    """The epilogue multiplies each channel by a scale and adds a shift."""
    h, w = size
    b = Builder()
    result = convolution(b, channels, h, w)
    body = """%s = arith.mulf %x0, %x1 : f32
  %t = arith.addf %s, %x2 : f32
  %z = arith.constant 0.0 : f32
  %p = arith.cmpf ugt, %t, %z : f32
  %r0 = arith.select %p, %t, %z : f32"""
    inputs = [(result, "d0, d1, d2, d3"), *((b.argument((channels,), "f32"), "d1") for _ in range(2))]
    check(b, *b.generic(result.shape, inputs, body, "f32"))


def test_residual_of_a_convolution_stays_apart_K2() -> None:
    b = Builder()
    result = convolution(b, 10, 6, 7)
    check(b, b.elementwise(SUM, result, b.argument(result.shape, "f32"), element="f32"), fuses=False)


def test_values_are_special_as_in_memory_V4() -> None:
    """A select in the epilogue passes on the bits of a NaN, so the NaN must already be canonical, as it would be in
    memory."""
    b = Builder()
    result = matmul(b, 4, 40, 3)
    body = """%n = arith.negf %x0 : f32
  %r0 = arith.select %x1, %n, %x0 : f32"""
    check(b, b.elementwise(body, result, b.argument((4, 40), "i1"), element="f32"))


def test_bits_do_not_depend_on_values_of_others_K1() -> None:
    """The residual is also an operand of the product: a store must not overwrite elements that are read later."""
    b = Builder()
    result = matmul(b, 64, 64, 64)
    body = """%s = arith.addf %x0, %x1 : f32
  %r0 = arith.subf %s, %x2 : f32"""
    check(b, b.elementwise(body, result, *b.arguments, element="f32"))
