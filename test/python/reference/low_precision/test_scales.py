# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q2) Compares scales and quantized tensors with the rules in fractions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import fraction_rules as rules
import numpy as np
import pytest
from edge_values import SPECIAL, around, as_f32, bits, random_f32
from repro_mlir.reference.low_precision.binary_formats import (
    ELEMENT_FORMATS,
    F4E2M1FN,
    F8E4M3FN,
    F8E5M2,
    MXINT8,
    Format,
    decode,
)
from repro_mlir.reference.low_precision.block_quantization import (
    TILES,
    BlockFormat,
    Tile,
    block_amax,
    dequantize,
    quantize,
)
from repro_mlir.reference.low_precision.block_rounding import Rounding, round_elements, stochastic
from repro_mlir.reference.low_precision.block_scales import (
    SCALE_RULES,
    Encoding,
    FourError,
    InfiniteAmax,
    PowerOfTwo,
    PowerRule,
    Single,
    TwoLevel,
    TwoLevelQuotient,
    power_bytes,
    two_level,
)
from repro_mlir.reference.low_precision.f32_operations import divide, multiply

ELEMENTS = ["f8E4M3FN", "f8E5M2", "f6E3M2FN", "f6E2M3FN", "f4E2M1FN", "mxint8"]
MX = BlockFormat(F4E2M1FN, TILES["mx"], PowerOfTwo(PowerRule.RCEIL))


def amaxes(element: Format) -> np.ndarray:
    """Returns values of amax: powers of two, multiples of them by 1.5, by the largest element and by the least factor
    that the rule `even` rounds up to 2; the values within 3 ulps of these; special and random values."""
    exponents = np.concatenate([np.arange(-149, -110), np.arange(-4, 5), np.arange(110, 128)])
    powers = np.ldexp(np.float32(1), exponents).astype(np.float32)
    top = decode(np.array(element.largest), element)
    carry = np.float32(2 - 2.0 ** -(element.fraction_bits + 1))
    with np.errstate(over="ignore"):
        all_of_them = np.concatenate([powers, powers * top, powers * carry, powers * np.float32(1.5)])
    positive = around(all_of_them[np.isfinite(all_of_them) & (all_of_them > 0)], 3)
    return np.concatenate([positive, np.abs(SPECIAL), np.abs(random_f32(np.random.default_rng(0), 500, 100))])


@pytest.mark.parametrize("infinity", [each.value for each in InfiniteAmax])
@pytest.mark.parametrize("rule", [each.value for each in PowerRule])
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.diagonal
def test_powers_of_two_Q2(element: str, rule: str, infinity: str) -> None:
    amax = amaxes(ELEMENT_FORMATS[element])
    got = power_bytes(amax, ELEMENT_FORMATS[element], PowerOfTwo(PowerRule(rule), InfiniteAmax(infinity)))
    values = [rules.from_bits(int(b)) for b in amax.view(np.uint32)]
    want = [rules.power_byte(value, element, rule, infinity) for value in values]
    np.testing.assert_array_equal(got, np.array(want))


@pytest.mark.parametrize("element", ELEMENTS[:5])
def test_rceil_by_product_and_quotient_Q2(element: str) -> None:
    """Takes amaxes within 2^16 ulps of six amaxes at which the scale changes. Rounding the quotient of amax and the
    format's largest value up to a power of two gives the scale of `rceil_product`, which multiplies by the reciprocal
    instead. `rceil` gives this scale too, except for one amax."""
    of = ELEMENT_FORMATS[element]
    top = decode(np.array(of.largest), of)
    for exponent in (-127, -126, -100, 0, 5, 100):
        middle = multiply(top, as_f32(np.array(0x400000 if exponent == -127 else (exponent + 127) << 23)))
        amax = around(middle, 1 << 16)
        product, exact = (
            power_bytes(amax, of, PowerOfTwo(each)) for each in (PowerRule.RCEIL_PRODUCT, PowerRule.RCEIL)
        )
        differ = np.flatnonzero(product != exact)
        if exponent == -127:
            assert bits(amax[differ]).tolist() == [bits(middle).item() + 1] and product[differ].tolist() == [0]
        else:
            assert differ.size == 0
        # The scale's code by division: the exponent field of the quotient, plus one if its fraction is not 0.
        ratio = bits(divide(amax, top)).astype(np.int64)
        fraction = np.where(ratio >> 23 == 0, (ratio & 0x7FFFFF) > 0x400000, ratio & 0x7FFFFF != 0)
        np.testing.assert_array_equal(product, (ratio >> 23) + fraction)


def blocks(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Returns values with many exponents, zeros of both signs and subnormals, and infinities and NaNs in a few
    blocks."""
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-8, 8, shape) * 2.0 ** rng.integers(-120, 120, (shape[0], 1))
    x = x.astype(np.float32)
    x[rng.random(shape) < 0.05] = 0.0
    x[rng.random(shape) < 0.02] *= -0.0
    x[0], x[1], x[2, 3], x[3, 4], x[4, 5:7] = 0.0, -0.0, np.inf, np.nan, (np.nan, -np.inf)
    x[5] = 2.0**-149 * rng.integers(-9, 9, shape[1])
    x[6, 0] = np.finfo(np.float32).max
    return x


def by_rule(x: np.ndarray) -> list[list[rules.Value]]:
    return [[rules.from_bits(int(b)) for b in row] for row in x.view(np.uint32)]


@pytest.mark.parametrize("rule", [each.value for each in PowerRule])
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.diagonal
def test_quantizes_by_powers_of_two_Q2(element: str, rule: str) -> None:
    """Compares codes, scales and dequantized values, for full blocks of 32 and a partial one."""
    x = blocks(np.random.default_rng(8), (40, 40))
    of = ELEMENT_FORMATS[element]
    form = BlockFormat(of, TILES["mx"], SCALE_RULES[rule])
    q = quantize(x, form)
    assert q.codes.shape == x.shape and q.scales.shape == (40, 2) and q.scales.dtype == np.uint8
    values = dequantize(q, form)
    for i, row in enumerate(by_rule(x)):
        for block, start in enumerate((0, 32)):
            part = row[start : start + 32]
            byte = rules.power_byte(rules.amax_of(part), element, rule)
            assert q.scales[i, block] == byte
            for j, v in enumerate(part, start):
                moved = rules.NAN if byte == 255 else v * rules.two(127 - byte) if isinstance(v, Fraction) else v
                code = rules.to_code(moved, element)
                assert q.codes[i, j] == code, (i, j, v)
                stands = rules.value_of(code, element)
                if byte == 255:
                    stands = rules.NAN
                elif isinstance(stands, Fraction):
                    stands = rules.f32(stands * rules.two(byte - 127))
                assert bits(values)[i, j] == rules.bits_of(stands), (i, j)


def test_least_exponent_Q2() -> None:
    """If the scale's code is 0 (2^-127), elements are divided by 2^least instead; `least` is a parameter of the
    rule."""
    x = np.array([[2.0**-127, 2.0**-128]], np.float32)
    plain = quantize(x, BlockFormat(F4E2M1FN, TILES["mx"], PowerOfTwo(PowerRule.FLOOR)))
    other = quantize(x, BlockFormat(F4E2M1FN, TILES["mx"], PowerOfTwo(PowerRule.FLOOR, least=-126)))
    none = quantize(x, BlockFormat(F4E2M1FN, TILES["mx"], PowerOfTwo(PowerRule.FLOOR, least=0)))
    assert plain.scales == other.scales == none.scales == 0
    assert [q.codes.tolist() for q in (plain, other, none)] == [[[2, 1]], [[1, 0]], [[0, 0]]]


@pytest.mark.parametrize("largest", [448, 256])
@pytest.mark.parametrize("by_row", [False, True])
def test_nvfp4_Q2(largest: int, by_row: bool) -> None:
    x = blocks(np.random.default_rng(9), (24, 40))
    finite = np.where(np.isfinite(x), x, 1).astype(np.float32)
    form = BlockFormat(F4E2M1FN, TILES["nvfp4"], TwoLevel(largest))
    tensors = np.abs(finite).max(axis=1) if by_row else np.float32(1e30)
    for data in (x, finite):
        q = quantize(data, form, tensors)
        values = dequantize(q, form)
        for i, row in enumerate(by_rule(data)):
            a = rules.from_bits(int(bits(tensors[i] if by_row else tensors)))
            for block in range(3):
                part = row[16 * block : 16 * block + 16]
                scale, factor = rules.nvfp4(rules.amax_of(part), a, largest)
                assert bits(decode(q.scales[i, block], F8E4M3FN)) == rules.bits_of(scale)
                width = rules.times(rules.times(scale, a), rules.over(Fraction(1), Fraction(6 * largest)))
                for j, v in enumerate(part, 16 * block):
                    code = rules.to_code(rules.times(v, factor), "f4E2M1FN")
                    assert q.codes[i, j] == code, (i, j)
                    assert bits(values)[i, j] == rules.bits_of(rules.times(rules.value_of(code, "f4E2M1FN"), width))


@pytest.mark.parametrize("amax", [0.0, 1e-45, 1e-38, 7e-36, 1.0, 3.4028235e38, np.inf, np.nan])
def test_amax_of_the_tensor_Q2(amax: float) -> None:
    """Covers a tensor amax of zero, one for which the scale S of (Q2) overflows, infinity and NaN."""
    x = np.linspace(-2, 2, 64, dtype=np.float32).reshape(2, 32)
    q = quantize(x, BlockFormat(F4E2M1FN, TILES["nvfp4"], TwoLevel()), np.float32(amax))
    a = rules.from_bits(int(bits(np.float32(amax))))
    for i, row in enumerate(by_rule(x)):
        for block in range(2):
            scale, factor = rules.nvfp4(rules.amax_of(row[16 * block : 16 * block + 16]), a)
            assert bits(decode(q.scales[i, block], F8E4M3FN)) == rules.bits_of(scale)
            for j in range(16 * block, 16 * block + 16):
                assert q.codes[i, j] == rules.to_code(rules.times(row[j], factor), "f4E2M1FN")


@pytest.mark.parametrize("tensor", [None, 2.0**-9, 1e-30, 1.0, 1e30])
def test_nvfp4_by_quotients_Q2(tensor: float | None) -> None:
    x = blocks(np.random.default_rng(10), (24, 32))
    rule = SCALE_RULES["nvfp4_single" if tensor is None else "nvfp4_quotient"]
    given = None if tensor is None else np.float32(tensor)
    form = BlockFormat(F4E2M1FN, TILES["nvfp4"], rule)
    q = quantize(x, form, given)
    values = dequantize(q, form)
    t = None if given is None else rules.from_bits(int(bits(given)))
    for i, row in enumerate(by_rule(x)):
        for block in range(2):
            part = row[16 * block : 16 * block + 16]
            scale, factor = rules.nvfp4_quotient(rules.amax_of(part), t)
            assert bits(decode(q.scales[i, block], F8E4M3FN)) == rules.bits_of(scale)
            for j, v in enumerate(part, 16 * block):
                code = rules.to_code(rules.times(v, factor), "f4E2M1FN")
                assert q.codes[i, j] == code
                width = scale if t is None else rules.times(t, scale)
                assert bits(values)[i, j] == rules.bits_of(rules.times(rules.value_of(code, "f4E2M1FN"), width))


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("tile", [(1, 16), (4, 16)])
def test_four_over_six_Q2(squared: bool, scaled: bool, tile: Tile) -> None:
    x = np.random.default_rng(11).standard_normal((8, 64)).astype(np.float32)
    rule = TwoLevel(256, FourError(squared, scaled))
    q = quantize(x, BlockFormat(F4E2M1FN, tile, rule))
    amax = rules.amax_of([v for row in by_rule(x) for v in row])
    s = rules.over(Fraction(6 * 256), amax)
    took = set()
    for top in range(0, 8, tile[0]):
        for left in (0, 16, 32, 48):
            part = [row[left : left + 16] for row in by_rule(x)[top : top + tile[0]]]
            quotient = rules.times(rules.over(rules.amax_of([v for row in part for v in row]), Fraction(6)), s)
            results = []
            for scale in (rules.e4m3(quotient), rules.e4m3(rules.times(quotient, Fraction(3, 2)))):
                factor = rules.over(Fraction(1), rules.times(scale, rules.over(Fraction(1), s)))
                codes = [[rules.to_code(rules.times(v, factor), "f4E2M1FN") for v in row] for row in part]
                sums = []
                for values, chosen in zip(part, codes, strict=True):
                    total = Fraction(0)
                    for v, code in zip(values, chosen, strict=True):
                        product = rules.times(rules.value_of(code, "f4E2M1FN"), scale)
                        if scaled:
                            d = rules.plus(product, -Fraction(rules.times(v, s)))
                        else:
                            wide = rules.times(product, amax)
                            sign = -1 if wide < 0 else 1
                            d = rules.plus(sign * rules.over(abs(Fraction(wide)), Fraction(6 * 256)), -v)
                        total = rules.plus(total, rules.times(d, d) if squared else abs(Fraction(d)))
                    sums.append(total)
                while len(sums) > 1:
                    half = len(sums) // 2
                    sums = [rules.plus(sums[i], sums[i + half]) for i in range(half)]
                results.append((sums[0], scale, codes))
            (six, *_), (four, *_) = results
            took.add(four < six)
            _, scale, codes = results[four < six]
            assert q.codes[top : top + tile[0], left : left + 16].tolist() == codes
            assert decode(q.scales[top // tile[0], left // 16], F8E4M3FN) == float(scale)
    assert took == {False, True}


@pytest.mark.parametrize("tensor", [1.0, 3.3, 1e-20, 7.7e15])
@pytest.mark.parametrize("rule", [TwoLevel(), TwoLevel(256), TwoLevel(four=FourError(False, False))], ids=str)
def test_order_of_operations_Q2(tensor: float, rule: TwoLevel) -> None:
    """Tests every amax within 3 ulps of a tie of the scale, where another order of the products gives another scale."""
    codes = np.arange(0x7E)
    ties = (decode(codes, F8E4M3FN).astype(np.float64) + decode(codes + 1, F8E4M3FN)) / 2
    amax = around((ties * 6 * tensor / (6 * rule.largest)).astype(np.float32), 3)
    a = rules.from_bits(int(bits(np.float32(tensor))))
    for to in (6, 4) if rule.four else (6,):
        got, factor = two_level(amax * np.float32(to / 6), np.float32(tensor), rule, to)
        for i, b in enumerate(bits(amax * np.float32(to / 6))):
            block = rules.from_bits(int(b))
            if rule.four is None:
                scale, want = rules.nvfp4(block, a, rule.largest)
            else:
                s = rules.over(Fraction(6 * rule.largest), a)
                quotient = rules.times(rules.over(block, Fraction(6)), s)
                scale = rules.e4m3(quotient if to == 6 else rules.times(quotient, Fraction(3, 2)))
                want = rules.at_most(
                    rules.over(Fraction(1), rules.times(scale, rules.over(Fraction(1), s))), rules.FLT_MAX
                )
            assert bits(decode(got[i], F8E4M3FN)) == rules.bits_of(scale)
            assert bits(factor[i]) == rules.bits_of(want)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_six_wins_ties_Q2(squared: bool, scaled: bool) -> None:
    """The element 6 has no error with either candidate for the scale: it is 6 * 1 and also 4 * 1.5. The candidate that
    gives the code of 6 must be chosen."""
    x = np.zeros((1, 16), np.float32)
    x[0, 3] = 6
    q = quantize(x, BlockFormat(F4E2M1FN, TILES["nvfp4"], TwoLevel(four=FourError(squared, scaled))), np.float32(2688))
    assert q.codes[0, 3] == 7 and decode(q.scales[0, 0], F8E4M3FN) == 1


SINGLES = [name for name, rule in SCALE_RULES.items() if isinstance(rule, Single)]


@pytest.mark.parametrize("name", SINGLES)
@pytest.mark.parametrize("element", [F8E4M3FN, F8E5M2, MXINT8], ids=lambda each: each.name)
@pytest.mark.parametrize("tile", ["row", "tensor", "row128", "square128"])
@pytest.mark.diagonal
def test_scales_of_f32_Q2(name: str, element: Format, tile: str) -> None:
    """Compares with the same formulas in NumPy's f32 arithmetic, which follows IEEE 754."""
    rng = np.random.default_rng(12)
    x = (rng.standard_normal((130, 140)) * 2.0 ** rng.integers(-60, 60, (130, 1))).astype(np.float32)
    x[3], x[4], x[5, 7], x[6, 8] = 0.0, 1e-13, np.inf, np.nan
    if tile == "tensor":
        x = x[10:]
    rule = SCALE_RULES[name]
    assert isinstance(rule, Single)
    form = BlockFormat(element, TILES[tile], rule)
    q = quantize(x, form)
    rows, columns = (size or x.shape[i] for i, size in enumerate(TILES[tile]))
    top = decode(np.array(element.largest), element)
    for i in range(q.scales.shape[0]):
        for j in range(q.scales.shape[1]):
            where = (slice(rows * i, rows * (i + 1)), slice(columns * j, columns * (j + 1)))
            part = x[where]
            with np.errstate(all="ignore"):
                amax = np.abs(part).max()
                if rule.inverse:
                    s = np.float32(np.float64(top) / np.maximum(np.float64(amax), 1e-12))
                    if rule.power and np.isfinite(s) and s > 0:
                        s = np.float32(2.0 ** (np.frexp(s)[1] - 1))
                    scaled, value = part * s, lambda codes, s=s: codes / s
                else:
                    bound = np.maximum(amax, np.float32(1e-4))
                    s = bound / top
                    if rule.power and np.isfinite(s):
                        mantissa, exponent = np.frexp(s)
                        s = np.float32(2.0 ** (exponent - (mantissa == 0.5)))
                    scaled = {
                        Encoding.PRODUCT: lambda part=part, bound=bound: part * (top / bound),
                        Encoding.RECIPROCAL: lambda part=part, s=s: part * (np.float32(1) / s),
                        Encoding.QUOTIENT: lambda part=part, s=s: part / s,
                    }[rule.encoding]()
                    value = lambda codes, s=s: codes * s  # noqa: E731
                assert bits(q.scales[i, j]) == bits(s)
                np.testing.assert_array_equal(q.codes[where], round_elements(scaled, element))
                np.testing.assert_array_equal(
                    bits(dequantize(q, form)[where]), bits(value(decode(q.codes[where], element)))
                )


# --- Tiles ---


def test_ragged_tiles_Q2() -> None:
    """Covers tensors with outer dimensions, with extents that are not multiples of a tile, and with extents of zero."""
    x = np.random.default_rng(13).standard_normal((2, 33, 70)).astype(np.float32)
    amax = block_amax(x, (32, 32))
    assert amax.shape == (2, 2, 3)
    for a in range(2):
        for i in range(2):
            for j in range(3):
                part = x[a, 32 * i : 32 * i + 32, 32 * j : 32 * j + 32]
                assert amax[a, i, j] == np.abs(part).max()
    assert block_amax(x[:, :, :0], (1, 32)).shape == (2, 33, 0)
    assert quantize(x[:, :0], MX).codes.shape == (2, 0, 70)
    assert block_amax(x, (None, None)).shape == (2, 1, 1)


def test_transposed_tiles_have_equal_codes_Q2() -> None:
    """A square tile gives a matrix and its transpose the same codes."""
    x = np.random.default_rng(14).standard_normal((48, 64)).astype(np.float32)
    for form in (
        BlockFormat(F4E2M1FN, TILES["nvfp4_square"], TwoLevel()),
        BlockFormat(F8E4M3FN, TILES["mx_square"], PowerOfTwo(PowerRule.RCEIL)),
    ):
        q, t = quantize(x, form), quantize(x.T, form)
        np.testing.assert_array_equal(q.codes, t.codes.T)
        np.testing.assert_array_equal(q.scales, t.scales.T)


def test_rceil_never_saturates_Q2() -> None:
    x = blocks(np.random.default_rng(15), (100, 32))[7:]
    for element in ELEMENT_FORMATS.values():
        form = BlockFormat(element, TILES["mx"], SCALE_RULES["rceil"])
        q = quantize(x, form)
        largest = np.abs(x).max(axis=-1, keepdims=True) / np.float64(2.0) ** (q.scales.astype(np.float64) - 127)
        assert (largest <= float(decode(np.array(element.largest), element))).all()


def test_stochastic_elements_Q3() -> None:
    """Each element uses its own random bits, which do not depend on the blocks."""
    x = np.random.default_rng(16).standard_normal((4, 40)).astype(np.float32)
    random = np.random.default_rng(17).integers(0, 256, x.shape)
    form = BlockFormat(F4E2M1FN, TILES["mx"], SCALE_RULES["rceil"], stochastic(8))
    q = quantize(x, form, random=random)
    for i, row in enumerate(by_rule(x)):
        for j, v in enumerate(row):
            moved = Fraction(v) * rules.two(127 - int(q.scales[i, j // 32]))
            assert q.codes[i, j] == rules.to_code(moved, "f4E2M1FN", "sr", bits=8, random=int(random[i, j]))


def test_refuses() -> None:
    x = np.ones((1, 32), np.float32)
    with pytest.raises(ValueError, match="scale of the tensor"):
        quantize(x, BlockFormat(F4E2M1FN, TILES["nvfp4"], TwoLevelQuotient()))
    with pytest.raises(ValueError, match="scale of the tensor"):
        quantize(x, MX, np.float32(1))
    with pytest.raises(ValueError, match="random bits"):
        quantize(x, BlockFormat(F4E2M1FN, TILES["mx"], SCALE_RULES["floor"], stochastic(4)))
    with pytest.raises(ValueError, match="expected a product"):
        Single(0.0, Encoding.QUOTIENT, inverse=True)
    assert quantize(x, BlockFormat(F4E2M1FN, TILES["mx"], SCALE_RULES["floor"], Rounding())).scales == 125


def test_Q1_the_sign_of_a_scale_is_stored_and_not_read() -> None:
    x = np.full((1, 16), 6, np.float32)
    form = BlockFormat(F4E2M1FN, (1, 16), TwoLevelQuotient())
    below, above = (quantize(x, form, tensor=np.float32(sign / 2)) for sign in (-1, 1))
    # (Q2) A quotient below 2^-6 becomes 2^-6, so quantization never returns a scale with a sign. Dequantization ignores
    # the sign.
    signed = above.scales.item() | 0x80
    assert below.scales.item() < 0x80 < signed
    changed = replace(above, scales=np.array([[signed]], np.uint8))
    np.testing.assert_array_equal(dequantize(changed, form), dequantize(above, form))


def test_Q2_bytes_of_nan_and_infinity_and_tensors_without_elements() -> None:
    amax = np.array([np.nan, np.inf, 0, 1], np.float32)
    for nan in (0, 3, 255):
        found = power_bytes(amax, F4E2M1FN, PowerOfTwo(PowerRule.FLOOR, nan=nan))
        assert found.tolist()[:3] == [nan, 255, 0]
    for shape in ((0, 4), (3, 0), (0, 0)):
        for tile in ((1, 16), (None, None), (None, 16), (2, None)):
            made = quantize(np.zeros(shape, np.float32), BlockFormat(F4E2M1FN, tile, PowerOfTwo(PowerRule.FLOOR)))
            assert made.codes.shape == shape and made.scales.size == 0
