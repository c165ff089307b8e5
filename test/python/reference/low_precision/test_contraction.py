# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares contractions in blocks (Q4) and Hadamard transforms (Q5) with the rules in fractions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import fraction_rules as rules
import numpy as np
import pytest
from edge_values import bits
from repro_mlir.reference.low_precision.binary_formats import (
    BF16,
    ELEMENT_FORMATS,
    F4E2M1FN,
    F8E4M3FN,
    F8E5M2,
    MXINT8,
    Format,
    decode,
)
from repro_mlir.reference.low_precision.block_contraction import (
    Step,
    block_contraction,
    block_dots,
    e4m3_scales,
    scale_products,
    tensor_factor,
)
from repro_mlir.reference.low_precision.block_quantization import TILES, BlockFormat, dequantize, quantize
from repro_mlir.reference.low_precision.block_rounding import Rounding, round_elements
from repro_mlir.reference.low_precision.block_scales import SCALE_RULES
from repro_mlir.reference.low_precision.hadamard import SIGNS_16, hadamard

PAIRS = [(a, a) for a in ELEMENT_FORMATS] + [("f8E4M3FN", "f8E5M2"), ("f4E2M1FN", "f8E4M3FN")]


def codes(rng: np.random.Generator, shape: tuple[int, ...], of: Format) -> np.ndarray:
    """Returns random codes whose values are finite."""
    all_codes = np.arange(1 << of.width, dtype=np.uint8)
    return rng.choice(all_codes[np.isfinite(decode(all_codes, of))], shape)


@pytest.mark.parametrize("step", ["fused", "split"])
@pytest.mark.parametrize("names", PAIRS, ids="-".join)
@pytest.mark.diagonal
def test_contraction_Q4(names: tuple[str, str], step: str) -> None:
    """Covers two full blocks of K and a partial one."""
    rng = np.random.default_rng(1)
    of = ELEMENT_FORMATS[names[0]], ELEMENT_FORMATS[names[1]]
    x, y = codes(rng, (5, 80), of[0]), codes(rng, (4, 80), of[1])
    # In the first block, scales are powers of two, for which `fused` and `split` agree; the other scales have many
    # bits.
    sx, sy = (rng.uniform(0.5, 2, (n, 3)).astype(np.float32) for n in (5, 4))
    sx[:, 0], sy[:, 0] = 2.0**-9, 2.0**11
    got = block_contraction(x, y, scale_products(sx, sy), of, 32, Step(step))
    plain = [name.removesuffix("_full") for name in names]
    for i, j in itertools.product(range(5), range(4)):
        dots = []
        for start in range(0, 80, 32):
            pairs = zip(x[i, start : start + 32], y[j, start : start + 32], strict=True)
            products = (
                Fraction(rules.value_of(int(p), plain[0])) * Fraction(rules.value_of(int(q), plain[1]))
                for p, q in pairs
            )
            dots.append(sum(products, Fraction(0)))
        scales = [rules.times(*map(Fraction, map(float, pair))) for pair in zip(sx[i], sy[j], strict=True)]
        assert bits(got)[i, j] == rules.bits_of(rules.contraction(dots, scales, step == "split"))


@pytest.mark.parametrize("name", ["f6E3M2FN", "f6E2M3FN", "f4E2M1FN", "mxint8", "mxint8_full"])
def test_dots_of_largest_are_exact_Q4(name: str) -> None:
    """Except for f8, the sum of a block of 32 products of the largest values fits in 24 bits, so f32 represents it
    exactly."""
    of = ELEMENT_FORMATS[name]
    largest = np.array([0x80 if name == "mxint8_full" else of.largest], np.uint8)
    x = np.repeat(largest, 32).reshape(1, 32)
    least = x.copy()
    least[0, 0] = 1 if name != "mxint8_full" else 0x81
    exact = [float(decode(x, of)[0].astype(np.float64) @ decode(v, of)[0].astype(np.float64)) for v in (x, least)]
    got = [float(block_dots(x, v, (of, of), 32)[0, 0, 0]) for v in (x, least)]
    assert got == exact


def test_dots_of_e5m2_are_rounded_once_Q4() -> None:
    """Sums with up to 69 bits: without the product 2^-32 of the last elements, a sum is a tie; the product breaks
    it."""
    top, sixty_four, tiny = 0x7B, 0x54, 0x01
    x = np.array([[top] * 30 + [sixty_four, tiny]], np.uint8)
    for last in (0, tiny):
        y = np.array([[top] * 30 + [sixty_four, last]], np.uint8)
        exact = 30 * Fraction(57344) ** 2 + 4096 + (rules.two(-32) if last else 0)
        dot = float(block_dots(x, y, (F8E5M2, F8E5M2), 32)[0, 0, 0])
        assert dot == rules.f32(exact) == 30 * 57344**2 + (8192 if last else 0)


def test_not_numbers_Q4() -> None:
    inf, nan, one, zero = 0x7C, 0x7E, 0x3C, 0x00
    rows = {(inf, one): math.inf, (inf | 0x80, one): -math.inf, (inf, zero): math.nan, (nan, one): math.nan}
    for (p, q), want in rows.items():
        x, y = np.full((1, 32), one, np.uint8), np.full((1, 32), one, np.uint8)
        x[0, 3], y[0, 3] = p, q
        got = block_dots(x, y, (F8E5M2, F8E5M2), 32)[0, 0, 0]
        assert got == want or (math.isnan(got) and math.isnan(want))
    both = np.full((1, 32), one, np.uint8)
    both[0, :2] = inf, inf | 0x80
    assert np.isnan(block_dots(both, np.full((1, 32), one, np.uint8), (F8E5M2, F8E5M2), 32)).all()
    # Code 255, the first scale, is NaN.
    assert np.isnan(scale_products(np.array([[255]], np.uint8), np.array([[127]], np.uint8))).all()


def test_fused_and_split_differ_Q4() -> None:
    rng = np.random.default_rng(6)
    x, y = codes(rng, (30, 128), MXINT8), codes(rng, (30, 128), MXINT8)
    scales = scale_products(*(rng.uniform(0.5, 2, (30, 4)).astype(np.float32) for _ in range(2)))
    fused, split = (block_contraction(x, y, scales, (MXINT8, MXINT8), 32, step) for step in Step)
    assert 100 < (fused != split).sum() < 900


def test_scales_of_bytes_Q4() -> None:
    x, y = np.array([[127, 0, 200]], np.uint8), np.array([[128, 254, 100]], np.uint8)
    assert scale_products(x, y).tolist() == [[[2.0, 1.0, 2.0**46]]]


def test_scales_beyond_f32_Q4() -> None:
    """The product of two scales is rounded to f32. The result can be infinite; it can also be 0, and then the block
    adds nothing."""
    low, high = np.array([[0]], np.uint8), np.array([[254]], np.uint8)
    assert scale_products(high, high) == np.inf and scale_products(low, low) == 0
    assert scale_products(low, high) == 1


def test_nvfp4_Q9() -> None:
    """(Q9) Computes what TransformerEngine's reference computes: multiplies the sum of each block by the product of its
    scales, adds the results up, and multiplies the total by the factor of the tensors' scales."""
    rng = np.random.default_rng(2)
    form = BlockFormat(F4E2M1FN, TILES["nvfp4"], SCALE_RULES["nvfp4"])
    x, y = (quantize(rng.standard_normal((n, 64)).astype(np.float32), form) for n in (6, 5))
    scales = scale_products(e4m3_scales(x.scales), e4m3_scales(y.scales))
    got = block_contraction(x.codes, y.codes, scales, (F4E2M1FN, F4E2M1FN), 16, Step.SPLIT)
    a, b = decode(x.codes, F4E2M1FN), decode(y.codes, F4E2M1FN)
    want = np.zeros((6, 5), np.float32)
    for block in range(4):
        part = slice(16 * block, 16 * block + 16)
        outer = np.outer(decode(x.scales, F8E4M3FN)[:, block], decode(y.scales, F8E4M3FN)[:, block])
        want += outer * (a[:, part] @ b[:, part].T)
    np.testing.assert_array_equal(got, want)
    assert x.tensor is not None and y.tensor is not None
    factor = tensor_factor(x.tensor, y.tensor)
    assert factor == np.float32(x.tensor * y.tensor) / np.float32(36 * 448 * 448)
    near = dequantize(x, form).astype(np.float64) @ dequantize(y, form).astype(np.float64).T
    np.testing.assert_allclose(got * factor, near, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [16, 32])
@pytest.mark.parametrize("with_signs", [False, True])
def test_hadamard_Q5(size: int, with_signs: bool) -> None:
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((4, 2 * size)) * 2.0 ** rng.integers(-20, 20, (4, 2 * size))).astype(np.float32)
    signs = np.array(SIGNS_16 * (size // 16)) if with_signs else None
    got = hadamard(x, signs, size)
    plain = [1] * size if signs is None else signs.tolist()
    for i in range(4):
        for start in (0, size):
            block = [Fraction(float(v)) for v in x[i, start : start + size]]
            want = [rules.bits_of(v) for v in rules.transform(block, plain)]
            assert bits(got)[i, start : start + size].tolist() == want


def test_hadamard_of_integers_Q5() -> None:
    """If no sum is rounded, the transform multiplies by the signs and by Sylvester's matrix / 4. Without signs,
    applying it twice gives back the operand."""
    x = np.random.default_rng(4).integers(-1000, 1000, (3, 16)).astype(np.float32)
    matrix = np.array([[(-1) ** (i & j).bit_count() for j in range(16)] for i in range(16)])
    np.testing.assert_array_equal(hadamard(x, np.array(SIGNS_16)), (x * SIGNS_16) @ matrix / 4)
    np.testing.assert_array_equal(hadamard(hadamard(x)), x)


def test_hadamard_to_bf16_Q5() -> None:
    x = np.random.default_rng(5).standard_normal((8, 32)).astype(np.float32)
    plain = hadamard(x, size=32)
    rounded = decode(round_elements(plain, BF16, Rounding(saturate=False)), BF16)
    np.testing.assert_array_equal(hadamard(x, size=32, to_bf16=True), rounded)
    assert (bits(rounded) & 0xFFFF == 0).all() and (rounded != plain).any()


def test_refuses_other_sizes_Q5() -> None:
    for size, n in ((8, 16), (16, 24)):
        with pytest.raises(ValueError, match="16 or 32"):
            hadamard(np.zeros(n, np.float32), size=size)


def test_f8_dots_need_more_than_f32_Q4() -> None:
    """Shows why (K1) is the default for f8: the exact sum of a block of f8E4M3FN has up to 42 bits, more than an f32
    can represent."""
    x = np.array([[0x7E] * 31 + [0x01]], np.uint8)
    exact = 31 * 448**2 + 2.0**-18
    got = float(block_dots(x, x, (F8E4M3FN, F8E4M3FN), 32)[0, 0, 0])
    assert got == float(np.float32(exact)) and got != exact
