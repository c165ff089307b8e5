# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Generates operands of matrix products for which different accumulation rules give different results: random values
and edge cases of the formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from repro_mlir.base.numerics.philox import random_bits
from repro_mlir.runner.tensor_cores import Vectors

SIDE = 64
"""The number of rows and of columns of a matrix product."""

_SEED = 0x6D6D61


@dataclass(frozen=True)
class Format:
    """A binary format: a sign, an exponent field and a fraction field.

    Attributes:
      infinities: whether the largest exponent field encodes infinities and NaNs rather than numbers and one NaN.
      unused: the number of bits below the fraction, which are zero.
    """

    exponent_bits: int
    fraction_bits: int
    infinities: bool = True
    unused: int = 0

    @property
    def bias(self) -> int:
        """The exponent bias."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def largest(self) -> int:
        """The code of the largest finite number, without unused bits."""
        return self.specials[0] - 1

    @property
    def specials(self) -> list[int]:
        """The codes, without unused bits, of infinity (twice, so that it is drawn more often), a signaling NaN and a
        quiet NaN; or only the code of the single NaN."""
        top = ((1 << self.exponent_bits) - 1) << self.fraction_bits
        if not self.infinities:
            return [top + (1 << self.fraction_bits) - 1]
        return [top, top, top + 1, top + (1 << (self.fraction_bits - 1))]

    @property
    def dtype(self) -> np.dtype:
        """The NumPy type in which a code is stored."""
        return np.dtype(f"u{(1 + self.exponent_bits + self.fraction_bits + self.unused) // 8}")


ELEMENTS = {
    "f16": Format(5, 10),
    "bf16": Format(8, 7),
    "tf32": Format(8, 10, unused=13),
    "e4m3": Format(4, 3, infinities=False),
    "e5m2": Format(5, 2),
}
"""The formats of factors, by PTX name."""

RESULTS = {"f32": Format(8, 23), "f16": ELEMENTS["f16"]}


class _Words:
    """(R1) A source of random words. Each call draws at a new site."""

    def __init__(self, shape: tuple[int, ...], step: int) -> None:
        self._shape, self._step, self._site = shape, step, 0

    def below(self, limit: int) -> np.ndarray:
        """Returns almost uniformly distributed random numbers from 0 to limit - 1."""
        self._site += 1
        return random_bits(self._shape, _SEED, self._site, self._step) * np.uint64(limit) >> np.uint64(32)


Make = Callable[[_Words, Format], np.ndarray]
"""A generator of codes as uint64."""


def _exponents(low: int, high: int) -> Make:
    """Returns a generator of random numbers with exponents from `low` to `high`. The exponents are clipped to the range
    of the format; subnormals are included."""

    def make(words: _Words, of: Format) -> np.ndarray:
        least, most = (min(max(e + of.bias, 0), of.largest >> of.fraction_bits) for e in (low, high))
        field = words.below(most - least + 1) + np.uint64(least)
        codes = field << np.uint64(of.fraction_bits) | words.below(1 << of.fraction_bits)
        return _signed(words, np.minimum(codes, np.uint64(of.largest)), of)

    return make


def _signed(words: _Words, codes: np.ndarray, of: Format) -> np.ndarray:
    return words.below(2) << np.uint64(of.exponent_bits + of.fraction_bits) | codes


def _some(chosen: Make, one_in: int, others: Make) -> Make:
    """Returns a generator that takes each value either from `chosen`, with a probability of 1 in `one_in`, or from
    `others`."""

    def make(words: _Words, of: Format) -> np.ndarray:
        first, second = chosen(words, of), others(words, of)
        return np.where(words.below(one_in) == 0, first, second)

    return make


def _some_lines(chosen: Make, one_in: int, others: Make) -> Make:
    """Returns a generator like `_some` that chooses whole rows of the left operand and columns of the right one. The
    elements of a row or column from `chosen` all have one sign."""

    def make(words: _Words, of: Format) -> np.ndarray:
        sign = np.uint64(1 << (of.exponent_bits + of.fraction_bits))
        first, second = chosen(words, of), others(words, of)
        return np.where(words.below(one_in)[..., :1] == 0, first & ~sign | first[..., :1] & sign, second)

    return make


def _among(codes: Callable[[Format], list[int]]) -> Make:
    """Returns a generator that picks codes and signs at random; `codes` returns the codes of a format."""

    def make(words: _Words, of: Format) -> np.ndarray:
        table = np.array(codes(of), np.uint64)
        return _signed(words, table[words.below(len(table)).astype(np.intp)], of)

    return make


def _edges(of: Format) -> list[int]:
    """Returns the codes of 0, the smallest and the largest subnormal, the two smallest normal numbers, 1 and its two
    neighbours, and the largest number."""
    one = of.bias << of.fraction_bits
    normal = 1 << of.fraction_bits
    return [0, 0, 1, normal - 1, normal, normal + 1, one - 1, one, one + 1, of.largest]


def _halves(of: Format) -> list[int]:
    """Returns the codes of 0, 0.5, 1, 1.5 and 2."""
    one, normal = of.bias << of.fraction_bits, 1 << of.fraction_bits
    return [0, one - normal, one, one + normal // 2, one + normal]


def _far(of: Format) -> list[int]:
    """Returns the codes of 2^bias and of the powers of two that are 2^23 to 2^26 times smaller, with 0 for those that
    the format lacks."""
    return [max(2 * of.bias - less, 0) << of.fraction_bits for less in (0, 0, 0, 23, 24, 25, 26)]


_ZERO = _among(lambda of: [0])
_ANY = _some(_ZERO, 2, _exponents(-127, 127))

KINDS: dict[str, tuple[int, Make, Make]] = {
    "normal": (72, _exponents(-3, 3), _some(_ZERO, 16, _exponents(-6, 8))),
    "wide": (56, _exponents(-40, 40), _some(_ZERO, 16, _exponents(-80, 80))),
    "tiny": (24, _exponents(-78, -52), _some(_ZERO, 4, _exponents(-160, -104))),
    # These operands reveal the floor of the rule (M3): c is mostly 0, and products have bits below the smallest
    # positive f32.
    "least": (24, _exponents(-80, -70), _some(_exponents(-160, -120), 16, _ZERO)),
    "large": (16, _exponents(52, 70), _some(_ZERO, 4, _exponents(100, 127))),
    # If all products of a result are 0, the result shows whether a small c stays unchanged, and which sign a sum of
    # zeros has.
    "zeros": (24, _some_lines(_ZERO, 3, _ANY), _some(_among(_edges), 2, _ANY)),
    "cancelling": (16, _among(_halves), _among(_halves)),
    "special": (
        12,
        _some(_among(lambda of: of.specials), 64, _exponents(-20, 20)),
        _some(_among(lambda of: of.specials), 16, _exponents(-40, 40)),
    ),
    "edges": (12, _some(_among(_edges), 4, _exponents(-1, 1)), _some(_among(_edges), 2, _exponents(-2, 2))),
}
"""For each kind of test: the number of matrix products, and the generators of the factors' elements and of the values
c."""

# f16 sums have few bits, so their truncation is visible only if large products cancel.
_KINDS_TO_F16 = KINDS | {"large": (KINDS["large"][0], _some(_ZERO, 2, _among(_far)), _ZERO)}

PRODUCTS = sum(count for count, _, _ in KINDS.values())


def make_vectors(x_element: str, y_element: str, result: str, depth: int) -> Vectors:
    """Generates the operands of PRODUCTS matrix products with SIDE rows, SIDE columns and `depth` elements along K. The
    operands are the same on every machine.

    `result` is the type of the accumulator operand c.
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
