# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operands of products of matrices that tell rules of sums apart: random ones, and the edges of formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..bundle.runner.tensor_cores import Vectors
from ..numerics.philox import random_bits

SIDE = 64
"""Rows and columns of a product of matrices."""

_SEED = 0x6D6D61


@dataclass(frozen=True)
class Format:
    """A binary format: a sign, an exponent field and a fraction field."""

    exponent_bits: int
    fraction_bits: int

    @property
    def bias(self) -> int:
        """What is added to an exponent."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def infinity(self) -> int:
        """The code of +infinity."""
        return ((1 << self.exponent_bits) - 1) << self.fraction_bits

    @property
    def dtype(self) -> np.dtype:
        """The type of a code."""
        return np.dtype(f"u{(1 + self.exponent_bits + self.fraction_bits) // 8}")


ELEMENTS = {"f16": Format(5, 10), "bf16": Format(8, 7)}
F32 = Format(8, 23)


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
        least, most = (min(max(e + of.bias, 0), 2 * of.bias) for e in (low, high))
        field = words.below(most - least + 1) + np.uint64(least)
        return _code(words, field, words.below(1 << of.fraction_bits), of)

    return make


def _code(words: _Words, field: np.ndarray, fraction: np.ndarray, of: Format) -> np.ndarray:
    return _signed(words, field << np.uint64(of.fraction_bits) | fraction, of)


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
    return [0, 0, 1, normal - 1, normal, normal + 1, one - 1, one, one + 1, of.infinity - 1]


def _halves(of: Format) -> list[int]:
    """0, 0.5, 1, 1.5 and 2."""
    one, normal = of.bias << of.fraction_bits, 1 << of.fraction_bits
    return [0, one - normal, one, one + normal // 2, one + normal]


def _specials(of: Format) -> list[int]:
    """Infinity twice, a signaling and a quiet NaN."""
    return [of.infinity, of.infinity, of.infinity + 1, of.infinity + (1 << (of.fraction_bits - 1))]


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
        _some(_among(_specials), 64, _exponents(-20, 20)),
        _some(_among(_specials), 16, _exponents(-40, 40)),
    ),
    "edges": (12, _some(_among(_edges), 4, _exponents(-1, 1)), _some(_among(_edges), 2, _exponents(-2, 2))),
}
"""By name: how many products of matrices have such elements, and such values c."""

PRODUCTS = sum(count for count, _, _ in KINDS.values())


def make_vectors(element: str, depth: int) -> Vectors:
    """PRODUCTS products of SIDE rows and columns of elements of a type, and so many of K: the same on every machine."""
    of = ELEMENTS[element]
    x, y, c, kinds = [], [], [], []
    for number, (name, (count, elements, addends)) in enumerate(KINDS.items()):
        step = number << 8 | depth
        words = _Words((2, count, SIDE, depth), step)
        both = elements(words, of).astype(of.dtype)
        x.append(both[0])
        y.append(both[1])
        c.append(addends(_Words((count, SIDE, SIDE), step | 1 << 16), F32).astype(F32.dtype))
        kinds += [name] * count
    return Vectors(np.concatenate(x), np.concatenate(y), np.concatenate(c), kinds)
