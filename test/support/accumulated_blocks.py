# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(M5) Contractions of block-scaled tensors with accumulators of matrix units: programs and their operands."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator

import numpy as np
from repro_mlir import Accumulator

from support import accumulated
from support import inputs as values
from support.builder import Builder
from support.catalogue import Case

CODES = ("f8E4M3FN", "f6E3M2FN", "f6E2M3FN", "f4E2M1FN")
SCALES = ("f8E8M0FNU", "f8E4M3FN", "f32")
FACTORS = SCALES[:2]
"""The element types of scales that a product may be multiplied by."""

_LARGEST = {"f8E4M3FN": (448, 9, 8), "f6E3M2FN": (28, 4, 4), "f6E2M3FN": (7.5, 3, 2), "f4E2M1FN": (6, 1, 2)}
"""For each element type of codes: the largest value, the number of fraction bits of the smallest positive value, and
the exponent of the largest value."""

_NAN = 0x7F
Draw = Callable[[np.random.Generator, str, tuple[int, ...]], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Sum:
    """The parameters of a contraction of block-scaled tensors with the accumulator `by`.

    Attributes:
      step: `fused`, `split` or `scaled`.
      codes, scales: element types of the codes and the scales of both operands.
      rows: the number of rows that share a scale, for each operand.
    """

    step: str
    by: Accumulator
    block: int
    codes: tuple[str, str] = ("f4E2M1FN", "f4E2M1FN")
    scales: tuple[str, str] = ("f8E8M0FNU", "f8E8M0FNU")
    rows: tuple[int, int] = (1, 1)


HOPPER = Accumulator(32, 13, "rz_e8m13", -132)
MX = Accumulator(32, 25, "rz_f32", -133)
GROUPS = Accumulator(64, 35, "rz_f32", -133, group=16)

FLOAT8 = ("f8E4M3FN", "f8E4M3FN")
SUMS = {
    "blackwell_mx": Sum("scaled", MX, 32, FLOAT8),
    "blackwell_mx-f6-f4": Sum("scaled", MX, 32, ("f6E3M2FN", "f4E2M1FN")),
    "blackwell_mxf4": Sum("scaled", GROUPS, 32),
    "blackwell_nvfp4": Sum("scaled", GROUPS, 16, scales=("f8E4M3FN", "f8E4M3FN"), rows=(1, 16)),
    "promoted": Sum("fused", HOPPER, 128, FLOAT8, ("f32", "f32"), (1, 128)),
    "promoted-split": Sum("split", HOPPER, 128, FLOAT8, ("f32", "f32"), (1, 128)),
    "late": Sum("fused", dataclasses.replace(MX, terms=16, late=True), 64, FLOAT8, ("f32", "f8E8M0FNU")),
    "exact-chain": Sum("split", Accumulator(7, None, "rne_f32", 0), 32, ("f8E4M3FN", "f6E2M3FN")),
    "f16": Sum("scaled", Accumulator(16, 25, "rne_f16", -21), 16, FLOAT8, ("f8E4M3FN", "f8E8M0FNU")),
    "wide-groups": Sum("scaled", Accumulator(64, 35, "rne_f32", -300, group=16), 16, FLOAT8, FACTORS),
    "straddling": Sum("scaled", MX, 48, ("f6E2M3FN", "f8E4M3FN"), FACTORS),
}
"""The contractions of the hardware classes, and contractions that no hardware has."""


def has_room(by: Accumulator, codes: tuple[str, str]) -> bool:
    """Whether an integer of 62 bits can contain the sum of a block of products in this accumulator."""
    units, exponents = 1, 0
    for name in codes:
        largest, places, exponent = _LARGEST[name]
        units *= int(largest * 2**places)
        exponents += exponent
    assert by.fraction is not None
    sums = (exponents + 2 + by.fraction) + (4 * by.terms).bit_length()
    return by.group == 1 or ((units * by.group).bit_length() + 8 <= 62 and sums <= 62)


def any_codes(rng: np.random.Generator, element: str, shape: tuple[int, ...]) -> np.ndarray:
    """Returns random codes. In f8E4M3FN only a few are NaNs, so that most results are numbers."""
    codes = rng.integers(0, 1 << int(element[1]) if element != "f8E4M3FN" else 256, shape).astype(np.uint8)
    if element != "f8E4M3FN":
        return codes
    is_nan = (codes & _NAN == _NAN) & (rng.random(shape) < 0.98)
    return np.where(is_nan, np.uint8(0x7E), codes)


def near_scales(rng: np.random.Generator, element: str, shape: tuple[int, ...]) -> np.ndarray:
    """Returns scales of similar magnitude, so that the scaled sums of different blocks overlap in their bits when they
    are added."""
    if element == "f32":
        return np.ldexp(rng.standard_normal(shape), rng.integers(-6, 6, shape)).astype(np.float32)
    low, high = (120, 134) if element == "f8E8M0FNU" else (0x28, 0x50)
    return rng.integers(low, high, shape).astype(np.uint8)


def any_scales(rng: np.random.Generator, element: str, shape: tuple[int, ...]) -> np.ndarray:
    """Returns scales from the whole range of the type. In types of 8 bits, they include the extreme values and some
    NaNs."""
    if element == "f32":
        return values.random("f32", shape, int(rng.integers(1 << 30)), 60)
    some = rng.random(shape)
    codes = rng.integers(0, 256, shape).astype(np.uint8)
    if element == "f8E8M0FNU":
        edges = np.choose(rng.integers(0, 4, shape), np.array([0, 1, 127, 254])).astype(np.uint8)
        codes = np.where(some < 0.3, edges, codes)
        return np.where((codes == 255) & (some < 0.9), np.uint8(190), codes)
    return np.where((codes & _NAN == _NAN) & (some < 0.9), np.uint8(0x80), codes)


def large_scales(rng: np.random.Generator, element: str, shape: tuple[int, ...]) -> np.ndarray:
    """For f8E8M0FNU, returns powers of two that are all small or all large in a row, so that products underflow or
    overflow f32. For other types, returns `any_scales`."""
    if element != "f8E8M0FNU":
        return any_scales(rng, element, shape)
    return np.where(
        rng.random((*shape[:-1], 1)) < 0.5, rng.integers(0, 70, shape), rng.integers(185, 255, shape)
    ).astype(np.uint8)


DRAWS: dict[str, Draw] = {"near": near_scales, "any": any_scales, "large": large_scales}


def product(
    name: str, chosen: Sum, extents: tuple[int, int, int], scales: Draw = near_scales, outer: tuple[int, ...] = ()
) -> Case:
    """Returns a case: the program of a contraction with extents m, n, k, and operands whose scales are drawn by
    `scales`."""
    m, n, k = extents
    rng = np.random.default_rng([m, n, k, *map(ord, name)])
    b = Builder()
    operands, arrays = [], []
    for side, extent in enumerate((m, n)):
        element, kind, rows = chosen.codes[side], chosen.scales[side], chosen.rows[side]
        operands.append(b.argument((*outer, extent, k), element))
        arrays.append(any_codes(rng, element, (*outer, extent, k)))
        operands.append(b.argument((*outer, -(-extent // rows), -(-k // chosen.block)), kind))
        arrays.append(scales(rng, kind, operands[-1].shape or ()))
    init = b.argument((*outer, m, n), "f32")
    arrays.append(values.mixed("f32", (*outer, m, n), int(rng.integers(1 << 16))))
    text = (
        f"repro.block_contraction {chosen.step} block = {chosen.block} rows = {list(chosen.rows)} "
        f"accumulator = {accumulated.ordering(chosen.by)}"
    )
    return Case(name, b.program(*b.call(text, operands, [init])), tuple(arrays))


def random_sum(choose: random.Random) -> Sum:
    """Returns a random contraction that (M5) allows."""
    step = choose.choice(["scaled", "scaled", "fused", "split"])
    block = choose.choice([1, 2, 7, 16, 16, 32, 32, 48, 128, 8192])
    codes = choose.choice(CODES), choose.choice(CODES)
    rows = choose.choice([1, 1, 3, 16, 100]), choose.choice([1, 1, 3, 16, 100])
    while True:
        by = dataclasses.replace(accumulated.random_accumulator(choose), chunk=0, start="zero")
        if step != "scaled":
            return Sum(step, by, block, codes, (choose.choice(SCALES), choose.choice(SCALES)), rows)
        groups = [each for each in range(1, 129) if by.terms % each == 0 and block % each == 0]
        by = dataclasses.replace(by, late=False, group=choose.choice(groups))
        if by.fraction is not None and has_room(by, codes):
            return Sum(step, by, block, codes, (choose.choice(FACTORS), choose.choice(FACTORS)), rows)


def contraction(number: int) -> Case:
    """Returns the contraction with the given number, with random formats and ragged extents."""
    choose = random.Random(number)
    chosen = random_sum(choose)
    outer = choose.choice([(), (), (), (2,), (2, 3), (0,)])
    extents = (
        choose.choice([1, 2, 5, 7, 13]),
        choose.choice([1, 2, 5, 17, 33]),
        choose.choice([0, 1, 15, 31, 64, 70, 130]),
    )
    draw = DRAWS[choose.choice(list(DRAWS))]
    return product(f"accumulated-blocks-{number}", chosen, extents, draw, outer)


def cases() -> Iterator[Case]:
    """Yields all contractions in SUMS with every generator of scales in DRAWS, and 40 random contractions."""
    for name, chosen in SUMS.items():
        for draw, scales in DRAWS.items():
            yield product(f"{name}-{draw}", chosen, (5, 19, 149), scales)
    yield from map(contraction, range(40))
