# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs with block-scaled tensors, (Q1) to (Q4), and with conversions of the f6 and f4 types and f8E8M0FNU (V1)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from support import inputs as values
from support.builder import Builder, Value, tensor
from support.catalogue import Case

ELEMENTS = ("f8E4M3FN", "f8E5M2", "f6E3M2FN", "f6E2M3FN", "f4E2M1FN", "i8")
SMALL_FLOATS = ("f6E3M2FN", "f6E2M3FN", "f4E2M1FN", "f8E8M0FNU")

_POWERS = ("floor", "ceil", "even", "rceil", "rceil_product")
_TILES = (
    (1, 32),
    (32, 32),
    (1, 16),
    (16, 16),
    (1, 0),
    (0, 0),
    (1, 128),
    (128, 128),
    (3, 5),
    (2, 1),
    (0, 7),
    (1 << 31, 4),
)
_F32_SCALES = (
    ("product", True, False), ("product", True, True), ("product", False, False),
    ("reciprocal", False, False), ("reciprocal", False, True), ("quotient", False, False), ("quotient", False, True),
)  # fmt: skip


GIVEN = "given_scale"


@dataclass(frozen=True)
class Form:
    """A block format; the attributes are those of #repro.block_format.

    Attributes:
      element: the element type of the codes.
      rows, columns: the extents of a block; 0 for the whole dimension.
      scale, rounding: MLIR text, such as `power_scale<rule = floor>` and `direction = rne`.
      symmetric: whether i8 codes exclude -128.
    """

    element: str
    rows: int
    columns: int
    scale: str
    rounding: str = "direction = rne"
    symmetric: bool = True

    @property
    def text(self) -> str:
        """Returns the format as an MLIR attribute."""
        symmetric = "" if self.symmetric else ", symmetric = false"
        return (
            f"#repro.block_format<element = {self.element}, rows = {self.rows}, columns = {self.columns}, "
            f"scale = #repro.{self.scale}, rounding = #repro.rounding<{self.rounding}>{symmetric}>"
        )

    @property
    def scale_element(self) -> str:
        """The element type of the scales."""
        return {"power": "f8E8M0FNU", "f32_s": "f32", "given": "f32"}.get(self.scale[:5], "f8E4M3FN")

    @property
    def takes_tensor(self) -> bool:
        """Whether repro.quantize has an operand for the largest magnitude (amax) or the scale of the whole tensor."""
        return self.keeps_tensor or self.scale == GIVEN

    @property
    def keeps_tensor(self) -> bool:
        """Whether repro.dequantize also has an operand for the amax of the whole tensor."""
        return self.scale.startswith("two_level") or "levels = 2" in self.scale

    @property
    def is_stochastic(self) -> bool:
        """Whether rounding is stochastic."""
        return "= sr" in self.rounding

    def scale_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the scales for a tensor of shape `shape`, which has one scale per block."""
        sizes = (self.rows or max(shape[-2], 1), self.columns or max(shape[-1], 1))
        return (*shape[:-2], *(-(-extent // size) for extent, size in zip(shape[-2:], sizes, strict=True)))


def quantized(
    b: Builder, form: Form, x: Value, amax: Value | None = None, key: tuple[int, Value, Value] | None = None
) -> list[Value]:
    """Adds repro.quantize and returns codes and scales. Stochastic rounding needs `key`: (site, seed, step)."""
    assert x.shape is not None
    shape, scales = x.shape, form.scale_shape(x.shape)
    text = f"repro.quantize {form.text} {x.name}"
    if amax is not None:
        text += f" tensor({amax.name} : {amax.type})"
    if key is not None:
        text += f" site = {key[0]} ({key[1].name}, {key[2].name} : i64, i64)"
    text += f" : {x.type} -> {tensor(shape, form.element)}, {tensor(scales, form.scale_element)}"
    return b.ops(text, (shape, form.element), (scales, form.scale_element))


def dequantized(b: Builder, form: Form, codes: Value, scales: Value, amax: Value | None = None) -> Value:
    """Adds repro.dequantize; `amax` is required if `form.keeps_tensor`."""
    amax = amax if form.keeps_tensor else None
    assert codes.shape is not None
    given = "" if amax is None else f" tensor({amax.name} : {amax.type})"
    result = tensor(codes.shape, "f32")
    text = f"repro.dequantize {form.text} {codes.name}, {scales.name}{given} : {codes.type}, {scales.type} -> {result}"
    return b.op(text, codes.shape, "f32")


def packed(b: Builder, codes: Value) -> Value:
    """Adds repro.pack_codes."""
    assert codes.shape is not None
    *rows, columns = codes.shape
    shape = (*rows, -(-columns // 2))
    return b.op(f"repro.pack_codes {codes.name} : {codes.type} -> {tensor(shape, 'i8')}", shape, "i8")


def unpacked(b: Builder, data: Value, columns: int) -> Value:
    """Adds repro.unpack_codes, whose result has `columns` codes per row."""
    assert data.shape is not None
    shape = (*data.shape[:-1], columns)
    text = f"repro.unpack_codes {data.name} : {data.type} -> {tensor(shape, 'f4E2M1FN')}"
    return b.op(text, shape, "f4E2M1FN")


def _rounding(choose: random.Random, element: str) -> str:
    direction = choose.choice(["rne", "away", "rz", "sr", "sr"])
    parts = [f"direction = {direction}"]
    if direction == "sr":
        if element != "i8" and choose.random() < 0.4:
            parts += ["bits = 16", "layout = ptx"]
        else:
            parts.append(f"bits = {choose.choice([1, 4, 8, 13, 16, 24, 32])}")
    if choose.random() < 0.3:
        parts.append("saturate = false")
    if choose.random() < 0.4:
        parts.append(f"nan = {choose.choice(['zero', 'negative_zero'])}")
    if choose.random() < 0.3:
        parts.append("signed_zero = false")
    return ", ".join(parts)


def _scale(choose: random.Random, element: str) -> str:
    kind = choose.choice(["power", "power", "f32", *(["two", "quotient"] if element == "f4E2M1FN" else [])])
    if kind == "two":
        return f"two_level_scale<largest = {choose.choice([448, 256])}>"
    if kind == "quotient":
        return f"quotient_scale<levels = {choose.choice([1, 2])}>"
    if kind == "f32":
        encoding, inverse, power = choose.choice(_F32_SCALES)
        least = choose.choice(["1.0E-12", "1.0E-4", "0.5", "1.1754943508222875E-38"])
        flags = ", inverse = true" * inverse + ", power = true" * power
        return f"f32_scale<encoding = {encoding}, least = {least}{flags}>"
    parts = [f"rule = {choose.choice(_POWERS)}"]
    if choose.random() < 0.5:
        parts.append(f"infinity = {choose.choice(['largest', 'power'])}")
    if choose.random() < 0.3:
        parts.append(f"nan = {choose.choice([0, 127, 254])}")
    if choose.random() < 0.3:
        parts.append(f"least = {choose.choice([-126, 0, 1, 127])}")
    return f"power_scale<{', '.join(parts)}>"


def form(choose: random.Random) -> Form:
    """Returns a random block format."""
    element = choose.choice([*ELEMENTS, "f4E2M1FN", "f4E2M1FN"])
    rows, columns = choose.choice(_TILES)
    symmetric = element != "i8" or choose.random() < 0.5
    scale = _scale(choose, element)
    if choose.random() < 0.1:
        rows, columns, scale = 0, 0, GIVEN
    return Form(element, rows, columns, scale, _rounding(choose, element), symmetric)


def _shape(choose: random.Random) -> tuple[int, ...]:
    outer = choose.choice([(), (), (2,), (3, 2), (0,)])
    m, n = (choose.choice([0, 1, 2, 3, 5, 16, 17, 31, 32, 33, 64, 65]) for _ in range(2))
    return (*outer, m, n)


def _array(choose: random.Random, shape: tuple[int, ...]) -> np.ndarray:
    """Returns a random f32 array with a random range of magnitudes. In some rows, all elements are equal, or one
    element is a special value such as an infinity or NaN."""
    seed = choose.getrandbits(16)
    span = choose.choice([0, 2, 8, 40, 120])
    x = values.mixed("f32", shape, seed) if choose.random() < 0.2 else values.random("f32", shape, seed, span)
    rows = x.reshape(-1, shape[-1]) if x.size else x
    for row in rows if x.size else ():
        kind = choose.random()
        if kind < 0.1:
            row[:] = choose.choice([0.0, -0.0, 1e-45, 3.0, -6.0, 448.0, 3e38])
        elif kind < 0.2:
            row[choose.randrange(len(row))] = choose.choice([np.inf, -np.inf, np.nan, 1e-45, -0.0, 3.4e38])
    return x


def program(number: int, is_permuted: bool = False) -> tuple[Case, Form]:
    """Returns a program that quantizes and dequantizes a tensor, and the tensor's format; `number` selects both. The
    results of the program are codes, scales and dequantized values.

    With `is_permuted`, the tensor has the dimensions of the argument in another order.
    """
    choose = random.Random(number)
    made, shape = form(choose), _shape(choose)
    b = Builder()
    arrays = [_array(choose, shape)]
    if is_permuted:
        order = random.Random(number).sample(range(len(shape)), len(shape))
        arrays[0] = np.ascontiguousarray(arrays[0].transpose(order))
        names = ", ".join(f"d{dim}" for dim in order)
        (x,) = b.generic(shape, [(b.argument(arrays[0].shape, "f32"), names)], "", "f32", yields=["%x0"])
    else:
        x = b.argument(shape, "f32")
    amax: Value | None = None
    if made.takes_tensor:
        of_rows = made.scale.startswith("two") and made.rows == 1 and choose.random() < 0.4
        kind: tuple[int, ...] = shape[:-1] if of_rows else ()
        amax = b.argument(kind, "f32")
        one = np.float32(choose.choice([1, 7, 1e-3, 0, 448, -1, -0.0, -1e-30, -1e30, np.inf, -np.inf, np.nan]))
        magnitudes = _array(choose, (*kind, 1)) if of_rows else one
        # Some magnitudes stay negative: the operation does not check their sign, so its results for negative magnitudes
        # must be defined.
        magnitudes = magnitudes if choose.random() < 0.3 else np.abs(magnitudes)
        arrays.append(np.asarray(magnitudes, np.float32).reshape(kind))
    key = None
    if made.is_stochastic:
        seed, step = b.scalar_arguments(2)
        key = choose.choice([0, 3, 2**32 - 1]), seed, step
        arrays += [np.array(choose.choice([0, -1, 2**62 + 5])), np.array(choose.choice([0, 17, 2**32 - 1]))]
    codes, scales = quantized(b, made, x, amax, key)
    result = dequantized(b, made, codes, scales, amax)
    name = f"{'permuted-' * is_permuted}blocks-{number}"
    return Case(name, b.program(codes, scales, result), tuple(arrays)), made


def blocks() -> Iterator[Case]:
    """Yields programs that quantize and dequantize, with every scale rule and every rounding."""
    scales = [f"power_scale<rule = {rule}>" for rule in _POWERS]
    scales += [f"two_level_scale<largest = {largest}>" for largest in (448, 256)]
    scales += [f"quotient_scale<levels = {levels}>" for levels in (1, 2)]
    scales += [
        f"f32_scale<encoding = {encoding}, least = 1.0E-12"
        + ", inverse = true" * inverse
        + ", power = true" * power
        + ">"
        for encoding, inverse, power in _F32_SCALES
    ]
    scales.append(GIVEN)
    for position, scale in enumerate(scales):
        for element in ELEMENTS if scale.startswith(("power", "f32", GIVEN)) else ("f4E2M1FN",):
            made = Form(element, *((0, 0) if scale == GIVEN else _TILES[position % 4]), scale)
            amax = [np.array(5.5, np.float32)] if made.takes_tensor else []
            name = scale.replace("_scale<", "-").rstrip(">").replace(" = ", "-").replace(", ", "-")
            yield _there_and_back(f"{name}-{element}", made, _array(random.Random(position), (33, 65)), *amax)
    yield from (program(number)[0] for number in range(40))
    yield from (program(number, is_permuted=True)[0] for number in range(100, 130))
    for amax in (-1.0, -0.0, 0.0, -1e-45, -3e38, -np.inf, np.inf, np.nan):
        for levels in ("two_level_scale<largest = 448>", "quotient_scale<levels = 2>"):
            arrays = np.array([[1, -2, 0.5, 3]], np.float32), np.array(amax, np.float32)
            yield _there_and_back(f"amax-{amax}-{levels[:3]}", Form("f4E2M1FN", 1, 4, levels), *arrays)
    # (E1), (R1) A step number that does not fit in 32 bits.
    yield _with_step("blocks-step-4294967296", 2**32)
    yield _with_step("empty-blocks-step-4294967296", 2**32, rows=0)
    # (Q2) Tensor scales passed as arguments: some are not positive numbers, and some have subnormal reciprocals.
    for position, number in enumerate((0.0, np.inf, np.nan, -2.5, 3.4028235e38, 1e-45)):
        arrays = (values.mixed("f32", (2, 3, 4), position), np.array(number, np.float32))
        yield _there_and_back(f"given-{position}", Form("f8E4M3FN", 0, 0, GIVEN), *arrays)
    # The smallest amax for which the largest f32 value overflows when scaled, and an infinite amax, which counts as
    # 2^128.
    for name, element, scale in (
        ("infinite-scale", "f8E4M3FN", "f32_scale<encoding = product, least = 1.0E-37, inverse = true>"),
        ("largest-scale", "f8E5M2", "f32_scale<encoding = product, least = 1.69E-34, inverse = true>"),
        ("infinity-as-power", "i8", "power_scale<rule = floor, infinity = power>"),
    ):
        array = np.array([[0, 0, -0.0, 0], [1e-38, 0, 1e-40, 0], [np.inf, 1, 3e38, -np.inf]], np.float32)
        yield _there_and_back(name, Form(element, 1, 4, scale), array)


def _there_and_back(name: str, form: Form, *arrays: np.ndarray) -> Case:
    """Returns a program that quantizes and dequantizes a tensor. `arrays` contains the tensor and, if the format needs
    it, the tensor's amax."""
    b = Builder()
    x, *amax = (b.argument(array.shape, "f32") for array in arrays)
    codes, scales = quantized(b, form, x, *amax)
    return Case(name, b.program(codes, scales, dequantized(b, form, codes, scales, *amax)), arrays)


def _with_step(name: str, step: int, rows: int = 2) -> Case:
    b = Builder()
    x, (seed, n) = b.argument((rows, 4), "f32"), b.scalar_arguments(2)
    made = Form("f4E2M1FN", 1, 4, "power_scale<rule = rceil>", "direction = sr, bits = 8")
    found = quantized(b, made, x, key=(1, seed, n))
    return Case(name, b.program(*found), (values.random("f32", (rows, 4), 1), np.array(7), np.array(step)))


def dequantizing() -> Iterator[Case]:
    """Yields programs that dequantize all codes, with arbitrary scales. Quantization never returns some of these
    scales, such as NaNs and negative ones."""
    for element in ELEMENTS:
        scales = ["power_scale<rule = floor>", "f32_scale<encoding = product, least = 1.0>"]
        scales.append("f32_scale<encoding = product, least = 1.0, inverse = true>")
        if element == "f4E2M1FN":
            scales += ["two_level_scale<largest = 448>", "quotient_scale<levels = 1>", "quotient_scale<levels = 2>"]
        for number, scale in enumerate(scales):
            made = Form(element, 1, 64, scale)
            codes = np.resize(np.arange(256, dtype=np.uint8), (256, 256))
            codes = codes & np.uint8(0xF if element.startswith("f4") else 0x3F if element.startswith("f6") else 0xFF)
            b = Builder()
            first = b.argument(codes.shape, element)
            second = b.argument(made.scale_shape(codes.shape), made.scale_element)
            arrays = [codes.view(np.int8) if element == "i8" else codes]
            arrays.append(values.mixed(made.scale_element, second.shape or (), number))
            amax = b.argument((), "f32") if made.keeps_tensor else None
            arrays += [np.array(3.25, np.float32)] if amax else []
            result = dequantized(b, made, first, second, amax)
            yield Case(f"dequantize-{number}-{element}", b.program(result), tuple(arrays))


_PACKED_SHAPES = (
    (7,), (3, 64), (5, 1), (1, 7), (2, 3, 33), (4, 95), (0, 4), (2, 0), (40, 70), (3, 1, 192), (33, 128),
)  # fmt: skip


def packed_codes() -> Iterator[Case]:
    """(Q7) Yields programs that pack and unpack codes, two per byte, and dequantize unpacked codes, also transposed."""
    forms = [Form("f4E2M1FN", 1, 32, "power_scale<rule = floor>"), Form("f4E2M1FN", 2, 3, "power_scale<rule = floor>")]
    forms += [Form("f4E2M1FN", 1, 16, "quotient_scale<levels = 1>")]
    forms += [Form("f4E2M1FN", 0, 0, "f32_scale<encoding = product, least = 1.0>")]
    for number, shape in enumerate(_PACKED_SHAPES):
        choose = np.random.default_rng(number)
        columns, held = shape[-1], (*shape[:-1], -(-shape[-1] // 2))
        name = "x".join(map(str, shape))
        data = choose.integers(-128, 128, held).astype(np.int8)
        b = Builder()
        codes, given = b.argument(shape, "f4E2M1FN"), b.argument(held, "i8")
        results = packed(b, codes), unpacked(b, given, columns)
        array = choose.integers(0, 16, shape).astype(np.uint8)
        yield Case(f"packed-{name}", b.program(*results), (array, data))
        for position, form in enumerate(forms if len(shape) > 1 else ()):
            b = Builder()
            given, scales = b.argument(held, "i8"), b.argument(form.scale_shape(shape), form.scale_element)
            result = dequantized(b, form, unpacked(b, given, columns), scales)
            turned = b.generic(
                (*shape[:-2], columns, shape[-2]), [(result, _turned(len(shape)))], "%r0 = arith.negf %x0 : f32", "f32"
            )
            arrays = data, values.mixed(form.scale_element, form.scale_shape(shape), number)
            yield Case(f"packed-values-{position}-{name}", b.program(result), arrays)
            yield Case(f"packed-columns-{position}-{name}", b.program(*turned), arrays)


def packed_contraction(m: int, n: int, k: int) -> Case:
    """(Q7), (Q4) Returns a contraction of block-scaled tensors. Its second operand is unpacked from two codes per
    byte."""
    choose = np.random.default_rng(m + n + k)
    b = Builder()
    blocks = -(-k // 32)
    x, y = b.argument((m, k), "f4E2M1FN"), b.argument((n, -(-k // 2)), "i8")
    scales = [b.argument((extent, blocks), "f8E8M0FNU") for extent in (m, n)]
    init = b.argument((m, n), "f32")
    factors = [x, scales[0], unpacked(b, y, k), scales[1]]
    result = b.call("repro.block_contraction fused block = 32 rows = [1, 1]", factors, [init])
    arrays = [choose.integers(0, 16, (m, k)).astype(np.uint8), choose.integers(-128, 128, y.shape).astype(np.int8)]
    arrays += [choose.integers(110, 140, each.shape).astype(np.uint8) for each in scales]
    arrays.append(choose.standard_normal((m, n)).astype(np.float32))
    return Case(f"packed-contraction-{m}-{n}-{k}", b.program(*result), tuple(arrays))


def _turned(rank: int) -> str:
    """Returns the index map of a tensor whose last two dimensions are exchanged."""
    dims = [f"d{i}" for i in range(rank)]
    return ", ".join([*dims[:-2], dims[-1], dims[-2]])


def conversions() -> Iterator[Case]:
    """(V1), (S3) Yields programs that convert to and from the f6 and f4 types and f8E8M0FNU."""
    wide = ("f32", "f64", "bf16", "f16", "f8E4M3FN", "f8E5M2")
    for t in SMALL_FLOATS:
        codes = np.arange(256 if t[1] == "8" else 1 << int(t[1]), dtype=np.uint8)
        bodies = [(f"%r0 = arith.extf %x0 : {t} to {u}", u) for u in ("f32", "f64", "bf16")]
        if t != "f8E8M0FNU":
            more = [u for u in ("f16", "f8E4M3FN", "f8E5M2") if (t, u) != ("f6E2M3FN", "f8E5M2")]
            bodies += [(f"%r0 = arith.extf %x0 : {t} to {u}", u) for u in more]
        bodies += [
            (f"%r0 = arith.{op} %x0 : {t} to {n}", n) for op in ("fptosi", "fptoui") for n in ("i1", "i8", "i32", "i64")
        ]
        yield _of_one(f"from-{t}", t, codes, bodies)
        if t == "f8E8M0FNU":
            small = [(f"%r0 = arith.truncf %x0 : {t} to {u}", u) for u in SMALL_FLOATS[:3]]
            yield _of_one("powers-to-small", t, codes, small)
            continue
        for u in wide:
            x = np.concatenate([values.special(u), values.mixed(u, (517,), 3), values.random(u, (600,), 4, 4)])
            yield _of_one(f"{t}-of-{u}", u, x, [(f"%r0 = arith.truncf %x0 : {u} to {t}", t)])
        for n in ("i1", "i8", "i32", "i64"):
            x = np.concatenate([values.special(n), values.mixed(n, (517,), 13)])
            yield _of_one(
                f"{t}-of-{n}", n, x, [(f"%r0 = arith.{op} %x0 : {n} to {t}", t) for op in ("sitofp", "uitofp")]
            )
    codes = np.arange(16, dtype=np.uint8)
    yield _of_one(
        "f4-to-f6", "f4E2M1FN", codes, [(f"%r0 = arith.extf %x0 : f4E2M1FN to {u}", u) for u in SMALL_FLOATS[:2]]
    )
    body = (
        "%n = arith.extf %x0 : f8E8M0FNU to f32\n%u = arith.cmpf uno, %n, %n : f32\n"
        "%b = arith.bitcast %x0 : f8E8M0FNU to i8\n%k = arith.constant -1 : i8\n%r0 = arith.select %u, %k, %b : i8"
    )
    codes = np.arange(256, dtype=np.uint8)
    yield _of_one("bits-of-f8E8M0FNU", "f8E8M0FNU", codes, [(body, "i8")])
    yield _of_one(
        "f8E8M0FNU-of-bits", "i8", codes.view(np.int8), [("%r0 = arith.bitcast %x0 : i8 to f8E8M0FNU", "f8E8M0FNU")]
    )


def _of_one(name: str, element: str, array: np.ndarray, bodies: Sequence[tuple[str, str]]) -> Case:
    b = Builder()
    argument = b.argument(array.shape, element)
    results = [b.elementwise(body, argument, element=to) for body, to in bodies]
    return Case(name, b.program(*results), (array,))


def movements() -> Iterator[Case]:
    """Yields programs that only move elements of the f6 and f4 types and f8E8M0FNU, and that contain constants of these
    types."""
    for t in SMALL_FLOATS:
        b = Builder()
        x = b.argument((3, 5), t)
        literals = {"f8E8M0FNU": "[1.0, 2.0, 0.5, 5.8774717541114375E-39]"}.get(t, "[1.0, -0.0, 4.0, -6.0]")
        four = b.constant(f"dense<{literals}>", (4,), t)
        same = b.constant("dense<2.0>", (2, 3), t)
        scalar = b.constant("4.0", None, t)
        turned = b.generic((5, 3), [(x, "d1, d0")], "", t, yields=["%x0"])
        part = b.slice(x, [1, 1], [2, 3])
        joined = b.concat(0, part, same)
        filled = b.splat(scalar, (2,))
        bits = np.arange(15, dtype=np.uint8).reshape(3, 5)
        yield Case(f"moved-{t}", b.program(*turned, part, joined, filled, four), (bits,))


GROUPS = {
    "blocks": blocks,
    "dequantizing": dequantizing,
    "packed-codes": packed_codes,
    "small-conversions": conversions,
    "small-moved": movements,
}


# Element types of the factors; sums of their products are exact or use an accumulator (Q4).
_FACTORS = ("f4E2M1FN", "f4E2M1FN", "f6E2M3FN", "f6E3M2FN", "f8E4M3FN", "i8")
_FACTOR_SCALES = ("f8E8M0FNU", "f8E4M3FN", "f32")


def _codes(choose: random.Random, element: str, shape: tuple[int, ...]) -> np.ndarray:
    width = 4 if element.startswith("f4") else 6 if element.startswith("f6") else 8
    codes = np.random.default_rng(choose.getrandbits(32)).integers(0, 1 << width, shape).astype(np.uint8)
    if element == "f8E4M3FN":
        # (V4) Most NaNs are replaced: a NaN in every block would make all results NaN.
        codes = np.where(codes & 0x7F == 0x7F, np.uint8(0x7F if choose.random() < 0.2 else 0x7E), codes)
    return codes.view(np.int8) if element == "i8" else codes


def _scales(choose: random.Random, element: str, shape: tuple[int, ...]) -> np.ndarray:
    numbers = np.random.default_rng(choose.getrandbits(32))
    if element == "f32":
        return np.ldexp(numbers.standard_normal(shape), numbers.integers(-30, 30, shape)).astype(np.float32)
    codes = numbers.integers(0, 256, shape).astype(np.uint8)
    if element == "f8E4M3FN":
        return np.where(codes & 0x7F == 0x7F, np.uint8(0x38), codes)
    return codes if choose.random() < 0.3 else (codes % 60 + 97).astype(np.uint8)


def contraction(number: int) -> Case:
    """Returns a contraction of block-scaled tensors with random formats and ragged extents."""
    choose = random.Random(number)
    outer = choose.choice([(), (), (), (2,), (2, 3), (0,)])
    m, n = (choose.choice([1, 2, 5, 7, 13, 17, 33, 40, 65]) for _ in range(2))
    k = choose.choice([0, 1, 15, 16, 31, 64, 70, 128, 200])
    first = choose.choice(_FACTORS)
    second = "i8" if first == "i8" else choose.choice(_FACTORS[:-1])
    rows = [choose.choice([1, 1, 1, 3, 16, 100]) for _ in range(2)]
    block = choose.choice([1, 2, 7, 16, 16, 32, 32, 32, 128, 8192])
    return product(choose, f"contraction-{number}", outer, (m, n, k), (first, second), block, rows)


def large_contractions() -> list[Case]:
    """Returns contractions, each with more rows or columns, or a longer K, than one work item computes."""
    extents = ((600, 300, 512), (13, 40, 8192 + 96), (7, 5, 33000))
    pairs = (("i8", "i8"), ("f4E2M1FN", "f4E2M1FN"), ("f6E3M2FN", "f4E2M1FN"))
    return [
        product(random.Random(number), f"large-contraction-{number}", (), size, pair, 32, [1, 1])
        for number, (size, pair) in enumerate(zip(extents, pairs, strict=True))
    ]


# The codes of the smallest and the largest value.
_EXTREMES = {"f4E2M1FN": (0x7, 0xF), "f6E2M3FN": (0x1F, 0x3F), "f6E3M2FN": (0x1F, 0x3F), "i8": (0x80, 0x7F)}


def extreme_codes(choose: random.Random, element: str, shape: tuple[int, ...]) -> np.ndarray:
    """Returns rows that repeat one of the two codes in _EXTREMES, and rows that mix both."""
    codes = np.array(_EXTREMES[element], np.uint8)
    random_rows = np.random.default_rng(choose.getrandbits(32)).integers(0, 2, shape)
    kind = np.arange(shape[-2])[:, None] % 3
    chosen = codes[np.where(kind == 2, random_rows, kind)]
    return chosen.view(np.int8) if element == "i8" else chosen


def extreme_contractions() -> Iterator[Case]:
    """Yields contractions with the largest possible sums, with various block sizes, few rows, and ragged extents."""
    pairs = [("i8", "i8"), ("f4E2M1FN", "f6E2M3FN"), ("f6E2M3FN", "f4E2M1FN"), ("f6E3M2FN", "f6E2M3FN")]
    pairs += [(element, element) for element in ("f4E2M1FN", "f6E2M3FN", "f6E3M2FN")]
    extents = [(1, 1, 1), (1, 33, 64), (9, 1, 70), (5, 19, 200), (7, 35, 16448)]
    for number, (m, n, k) in enumerate(extents):
        for first, second in pairs:
            for block in (16, 32, 68, 136, 8192) if k == 200 else (8192,) if k > 8192 else (32,):
                name = f"extreme-{first}-{second}-{m}-{n}-{k}-{block}"
                choose = random.Random(number)
                yield product(choose, name, (), (m, n, k), (first, second), block, [1, 1], extreme_codes)


def product(
    choose: random.Random,
    name: str,
    outer: tuple[int, ...],
    extents: tuple[int, int, int],
    elements: tuple[str, str],
    block: int,
    rows: list[int],
    draw: Callable[[random.Random, str, tuple[int, ...]], np.ndarray] = _codes,
) -> Case:
    """Returns a case: a contraction of block-scaled tensors with outer dimensions and extents m, n, k. `draw` makes the
    codes."""
    m, n, k = extents
    b = Builder()
    operands, arrays = [], []
    for element, extent, count in zip(elements, (m, n), rows, strict=True):
        operands.append(b.argument((*outer, extent, k), element))
        arrays.append(draw(choose, element, (*outer, extent, k)))
        kind = choose.choice(_FACTOR_SCALES)
        operands.append(b.argument((*outer, -(-extent // count), -(-k // block)), kind))
        arrays.append(_scales(choose, kind, operands[-1].shape or ()))
    init = b.argument((*outer, m, n), "f32")
    arrays.append(values.mixed("f32", (*outer, m, n), choose.getrandbits(16)))
    bits = f" fraction_bits = {choose.choice([0, 12, 64])}" if elements[0] == "i8" else ""
    text = f"repro.block_contraction {choose.choice(['fused', 'split'])} block = {block} rows = {rows}{bits}"
    return Case(name, b.program(*b.call(text, operands, [init])), tuple(arrays))
