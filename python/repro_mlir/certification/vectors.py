# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operands of products of matrices that tell rules of sums apart: random ones, and the edges of formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from repro_mlir.base.numerics.philox import random_bits
from repro_mlir.bundle.runner.tensor_cores import Vectors

SIDE = 64
"""Rows and columns of a product of matrices."""

_SEED = 0x6D6D61


@dataclass(frozen=True)
class Format:
    """A binary format: a sign, an exponent field and a fraction field.

    Attributes:
      infinities: whether the largest exponent field is for infinities and NaNs; else for numbers and one NaN.
      unused: zeros below the fraction.
    """

    exponent_bits: int
    fraction_bits: int
    infinities: bool = True
    unused: int = 0

    @property
    def bias(self) -> int:
        """What is added to an exponent."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def largest(self) -> int:
        """The code of the largest number, without unused bits."""
        return self.specials[0] - 1

    @property
    def specials(self) -> list[int]:
        """Codes, without unused bits, of infinity twice, a signaling and a quiet NaN; else that of the NaN."""
        top = ((1 << self.exponent_bits) - 1) << self.fraction_bits
        if not self.infinities:
            return [top + (1 << self.fraction_bits) - 1]
        return [top, top, top + 1, top + (1 << (self.fraction_bits - 1))]

    @property
    def dtype(self) -> np.dtype:
        """The type of a code."""
        return np.dtype(f"u{(1 + self.exponent_bits + self.fraction_bits + self.unused) // 8}")


ELEMENTS = {
    "f16": Format(5, 10),
    "bf16": Format(8, 7),
    "tf32": Format(8, 10, unused=13),
    "e4m3": Format(4, 3, infinities=False),
    "e5m2": Format(5, 2),
}
"""Of factors, as PTX calls them."""

RESULTS = {"f32": Format(8, 23), "f16": ELEMENTS["f16"]}


class _Words:
    """(R1) Random words, of another site for each call."""

    def __init__(self, shape: tuple[int, ...], step: int) -> None:
        self._shape, self._step, self._site = shape, step, 0

    def below(self, limit: int) -> np.ndarray:
        """Numbers from 0 to limit - 1, as good as uniform."""
        self._site += 1
        return random_bits(self._shape, _SEED, self._site, self._step) * np.uint64(limit) >> np.uint64(32)


Make = Callable[[_Words, Format], np.ndarray]
"""Codes, as uint64."""


def _exponents(low: int, high: int) -> Make:
    """Random numbers with exponents between two, as far as the format has them; below it, subnormals."""

    def make(words: _Words, of: Format) -> np.ndarray:
        least, most = (min(max(e + of.bias, 0), of.largest >> of.fraction_bits) for e in (low, high))
        field = words.below(most - least + 1) + np.uint64(least)
        codes = field << np.uint64(of.fraction_bits) | words.below(1 << of.fraction_bits)
        return _signed(words, np.minimum(codes, np.uint64(of.largest)), of)

    return make


def _signed(words: _Words, codes: np.ndarray, of: Format) -> np.ndarray:
    return words.below(2) << np.uint64(of.exponent_bits + of.fraction_bits) | codes


def _some(chosen: Make, one_in: int, others: Make) -> Make:
    """One in so many by `chosen`."""

    def make(words: _Words, of: Format) -> np.ndarray:
        first, second = chosen(words, of), others(words, of)
        return np.where(words.below(one_in) == 0, first, second)

    return make


def _some_lines(chosen: Make, one_in: int, others: Make) -> Make:
    """One in so many rows or columns, whole along K, by `chosen`, with the sign of its first element."""

    def make(words: _Words, of: Format) -> np.ndarray:
        sign = np.uint64(1 << (of.exponent_bits + of.fraction_bits))
        first, second = chosen(words, of), others(words, of)
        return np.where(words.below(one_in)[..., :1] == 0, first & ~sign | first[..., :1] & sign, second)

    return make


def _among(codes: Callable[[Format], list[int]]) -> Make:
    """Some codes, of both signs."""

    def make(words: _Words, of: Format) -> np.ndarray:
        table = np.array(codes(of), np.uint64)
        return _signed(words, table[words.below(len(table)).astype(np.intp)], of)

    return make


def _edges(of: Format) -> list[int]:
    """0, the ends of the subnormal and the normal numbers, 1 and its neighbours."""
    one = of.bias << of.fraction_bits
    normal = 1 << of.fraction_bits
    return [0, 0, 1, normal - 1, normal, normal + 1, one - 1, one, one + 1, of.largest]


def _halves(of: Format) -> list[int]:
    """0, 0.5, 1, 1.5 and 2."""
    one, normal = of.bias << of.fraction_bits, 1 << of.fraction_bits
    return [0, one - normal, one, one + normal // 2, one + normal]


def _far(of: Format) -> list[int]:
    """The greatest power of two, and those whose products with it are its square over 2^23 to 2^26."""
    return [max(2 * of.bias - less, 0) << of.fraction_bits for less in (0, 0, 0, 23, 24, 25, 26)]


_ZERO = _among(lambda of: [0])
_ANY = _some(_ZERO, 2, _exponents(-127, 127))

KINDS: dict[str, tuple[int, Make, Make]] = {
    "normal": (72, _exponents(-3, 3), _some(_ZERO, 16, _exponents(-6, 8))),
    "wide": (56, _exponents(-40, 40), _some(_ZERO, 16, _exponents(-80, 80))),
    "tiny": (24, _exponents(-78, -52), _some(_ZERO, 4, _exponents(-160, -104))),
    # The floor is told where c is 0 and products have bits below the least f32.
    "least": (24, _exponents(-80, -70), _some(_exponents(-160, -120), 16, _ZERO)),
    "large": (16, _exponents(52, 70), _some(_ZERO, 4, _exponents(100, 127))),
    # Where all products are 0, small c are told as they are, and the sign of a sum of zeros alone.
    "zeros": (24, _some_lines(_ZERO, 3, _ANY), _some(_among(_edges), 2, _ANY)),
    "cancelling": (16, _among(_halves), _among(_halves)),
    "special": (
        12,
        _some(_among(lambda of: of.specials), 64, _exponents(-20, 20)),
        _some(_among(lambda of: of.specials), 16, _exponents(-40, 40)),
    ),
    "edges": (12, _some(_among(_edges), 4, _exponents(-1, 1)), _some(_among(_edges), 2, _exponents(-2, 2))),
}
"""By name: how many products of matrices have such elements, and such values c."""

# Sums in f16 have few bits: they tell what is cut only where large products cancel each other.
_KINDS_TO_F16 = KINDS | {"large": (KINDS["large"][0], _some(_ZERO, 2, _among(_far)), _ZERO)}

PRODUCTS = sum(count for count, _, _ in KINDS.values())


def make_vectors(x_element: str, y_element: str, result: str, depth: int) -> Vectors:
    """PRODUCTS products of SIDE rows and columns of elements of two types, and so many of K: the same on every machine.

    `result` is the type of what they are added to.
    """
    x: list[np.ndarray] = []
    y: list[np.ndarray] = []
    c: list[np.ndarray] = []
    kinds: list[str] = []
    table = _KINDS_TO_F16 if result == "f16" else KINDS
    for number, (name, (count, elements, addends)) in enumerate(table.items()):
        step = number << 8 | depth
        for factor, (codes, element) in enumerate(((x, x_element), (y, y_element))):
            words, of = _Words((2, count, SIDE, depth), step), ELEMENTS[element]
            codes.append((elements(words, of)[factor] << np.uint64(of.unused)).astype(of.dtype))
        words, to = _Words((count, SIDE, SIDE), step | 1 << 16), RESULTS[result]
        c.append(addends(words, to).astype(to.dtype))
        kinds += [name] * count
    return Vectors(np.concatenate(x), np.concatenate(y), np.concatenate(c), kinds)
