# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(M4) Contractions with accumulators of matrix units: programs, and operands whose results differ between
accumulators."""

from __future__ import annotations

import dataclasses
import random as random_choices
from collections.abc import Callable, Iterator

import numpy as np
from repro_mlir import Accumulator
from repro_mlir.base.numerics.formats import element_type, round_to_format, to_bits

from support import inputs as values
from support.builder import Builder

ELEMENTS = ("f16", "bf16", "f8E4M3FN", "f8E5M2", "f32")

HOPPER = Accumulator(16, 25, "rz_f32", -133)
AMPERE = Accumulator(8, 24, "rz_f32", -132)
VOLTA = Accumulator(4, 23, "rz_f32", -131)


def ordering(by: Accumulator) -> str:
    """Returns the accumulator as the MLIR attribute that is the order of a repro.fold."""
    fraction = "" if by.fraction is None else f"fraction = {by.fraction}, "
    rest = f", late = {str(by.late).lower()}" if by.late else ""
    rest += f", chunk = {by.chunk}" if by.chunk else ""
    rest += f", start = {by.start}" if by.start != "zero" else ""
    rest += f", group = {by.group}" if by.group != 1 else ""
    return f"#repro.fdpa<terms = {by.terms}, {fraction}round = {by.round}, floor = {by.floor}{rest}>"


LAYOUTS = (
    ("mk", "kn", "mn"),
    ("mk", "nk", "mn"),
    ("km", "kn", "nm"),
    ("bmk", "bkn", "bmn"),
    ("mbk", "nbk", "mbn"),
    ("mkl", "lkn", "nm"),
)
"""The index maps of products: for each product, the letters of x, y and the result. Some products are batched, and some
reduce two dimensions."""


@dataclasses.dataclass(frozen=True)
class Product:
    """A contraction of x and y with the accumulator `by`.

    Attributes:
      maps: the dimensions of x, y and the result, one letter each; k and l are reduced.
      sizes: the extents of the dimensions.
      types: the element types of x, y and the result.
    """

    by: Accumulator
    sizes: dict[str, int]
    types: tuple[str, str, str] = ("bf16", "bf16", "f32")
    maps: tuple[str, str, str] = ("mk", "kn", "mn")

    def shape(self, operand: int) -> tuple[int, ...]:
        """Returns the shape of an operand."""
        return tuple(self.sizes[letter] for letter in self.maps[operand])

    def program(self) -> str:
        """Returns the text of a program that takes x, y and the initial operand, and returns the contraction."""
        b = Builder()
        dims = sorted(self.sizes, key=lambda letter: (letter in "kl", letter))
        x, y, init = (b.argument(self.shape(i), t) for i, t in enumerate(self.types))
        maps = [", ".join(f"d{dims.index(letter)}" for letter in letters) for letters in self.maps]
        body = ""
        factors = []
        for i, t in enumerate(self.types[:2]):
            if t != "f32":
                body += f"%w{i} = arith.extf %x{i} : {t} to f32\n    "
            factors.append(f"%x{i}" if t == "f32" else f"%w{i}")
        body += f"%r0 = math.fma {factors[0]}, {factors[1]}, %a0 : f32"
        iterators = "".join("r" if letter in "kl" else "p" for letter in dims)
        operands = [(x, maps[0]), (y, maps[1])]
        return b.program(*b.fold(ordering(self.by), iterators, operands, [(init, maps[2])], body, ["f32"]))

    def operands(self, make: Operands, seed: int) -> tuple[np.ndarray, ...]:
        """Returns x, y and the initial operand from `make`, in the input format of the program (inputs.py)."""
        rng = np.random.default_rng(seed)
        x, y = make(rng, self.shape(0), self.types[0]), make(rng, self.shape(1), self.types[1])
        init = make(rng, self.shape(2), self.types[2])
        return x, y, init


Operands = Callable[[np.random.Generator, tuple[int, ...], str], np.ndarray]


def as_bits(x: np.ndarray, element: str) -> np.ndarray:
    """Returns f32 values rounded to an element type, in the format of inputs.py."""
    kind = element_type(element)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = round_to_format(np.asarray(x, np.float32), kind)
    return rounded if element == "f32" else to_bits(rounded, kind)


def normal(rng: np.random.Generator, shape: tuple[int, ...], element: str) -> np.ndarray:
    """Returns normally distributed numbers."""
    return as_bits(rng.standard_normal(shape, np.float32), element)


def tf32(rng: np.random.Generator, shape: tuple[int, ...], element: str) -> np.ndarray:
    """Returns f32 values that tf32 can represent."""
    x = rng.standard_normal(shape, np.float32)
    return as_bits((x.view(np.uint32) & 0xFFFFE000).view(np.float32) if x.size else x, element)


def wide(rng: np.random.Generator, shape: tuple[int, ...], element: str) -> np.ndarray:
    """Returns values with exponents from the whole range of the type, and zeros."""
    span = {"f16": 12, "bf16": 70, "f8E4M3FN": 8, "f8E5M2": 13, "f32": 70}[element]
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-span, span, shape))
    return as_bits(np.where(rng.random(shape) < 0.2, 0, x).astype(np.float32), element)


def tiny(rng: np.random.Generator, shape: tuple[int, ...], element: str) -> np.ndarray:
    """Returns values near the smallest ones of the type: subnormals, or values whose products are subnormal in f32."""
    span = {"f16": -24, "bf16": -75, "f8E4M3FN": -8, "f8E5M2": -16, "f32": -75}[element]
    return as_bits(
        (rng.standard_normal(shape) * np.exp2(span + rng.integers(0, 12, shape))).astype(np.float32), element
    )


def sparse(rng: np.random.Generator, shape: tuple[int, ...], element: str) -> np.ndarray:
    """Returns zeros of both signs and a few nonzero numbers."""
    x = rng.standard_normal(shape, np.float32) * (rng.random(shape) < 0.15)
    return as_bits(np.copysign(x, rng.standard_normal(shape)).astype(np.float32), element)


def large(rng: np.random.Generator, shape: tuple[int, ...], element: str) -> np.ndarray:
    """Returns mostly values with the largest significand, so that integer sums in the accumulator approach 2^31."""
    last = {"f16": 2**-10, "bf16": 2**-7, "f8E4M3FN": 2**-3, "f8E5M2": 2**-2, "f32": 2**-10}[element]
    return as_bits(np.where(rng.random(shape) < 0.97, 2 - last, -1.0).astype(np.float32), element)


def cancelling(rng: np.random.Generator, shape: tuple[int, ...], element: str) -> np.ndarray:
    """Returns values from a small set with both signs, whose products often cancel."""
    return as_bits(rng.choice(np.array([1, -1, 1.5, -1.5, 0.5, -0.5], np.float32), shape), element)


def special(rng: np.random.Generator, shape: tuple[int, ...], element: str) -> np.ndarray:
    """Returns normally distributed numbers; a few elements are infinities, NaNs or zeros."""
    x = rng.standard_normal(shape, np.float32)
    some = rng.random(shape) < 0.004
    x[some] = rng.choice(np.array([np.inf, -np.inf, np.nan, 0, -0.0], np.float32), int(some.sum()))
    return as_bits(x, element)


def any_bits(rng: np.random.Generator, shape: tuple[int, ...], element: str) -> np.ndarray:
    """Returns arbitrary bit patterns."""
    return values.mixed(element, shape, int(rng.integers(1 << 30)))


OPERANDS: dict[str, Operands] = {
    "normal": normal,
    "tf32": tf32,
    "wide": wide,
    "tiny": tiny,
    "sparse": sparse,
    "large": large,
    "cancelling": cancelling,
    "special": special,
    "any-bits": any_bits,
}


def random_accumulator(choose: random_choices.Random) -> Accumulator:
    """Returns a random accumulator that (M4) allows."""
    late = choose.random() < 0.25
    terms = choose.choice([1, 2, 3, 4, 7, 8, 16, 32, 33, 64, 128, choose.randint(1, 128)])
    terms += late and terms % 2
    fraction = choose.choice([None, 10, 13, 23, 24, 25, 29, 30, 40, choose.randint(10, 40)])
    rounding = choose.choice(["rz_f32", "rz_f32", "rz_e8m13", "rne_f16", "rne_f32"])
    floor = 0 if fraction is None else choose.choice([-133, -132, -300, -21, 0, 5, 130, 300, choose.randint(-300, 300)])
    start = choose.choice(["zero", "init"])
    chunk = choose.choice([0, 0, 1, 2, 5]) * terms * (1 + late) if start == "zero" else 0
    return Accumulator(terms, fraction, rounding, floor, late, chunk, start)


def random_product(choose: random_choices.Random) -> tuple[Product, str]:
    """Returns a random contraction and the name of a generator of operands in OPERANDS."""
    by = random_accumulator(choose)
    elements = [choose.choice(ELEMENTS)] * 2
    if choose.random() < 0.3:
        elements[1] = choose.choice(ELEMENTS)
    result = "f16" if by.start == "init" and by.round == "rne_f16" else choose.choice(["f32", "f32", "f16", "bf16"])
    maps = choose.choice(LAYOUTS)
    sizes = {letter: choose.choice([1, 2, 3, 5, 17, 33]) for letter in set("".join(maps))}
    sizes["k"] = choose.choice([0, 1, 3, by.terms, 2 * by.terms + 1, 37, 130])
    return Product(by, sizes, (elements[0], elements[1], result), maps), choose.choice(list(OPERANDS))


def products() -> Iterator[tuple[str, Product, tuple[np.ndarray, ...]]]:
    """Yields a name, a contraction and its operands: every accumulator class with all of its element types and all
    generators of operands, and some long contractions with ragged extents."""
    from repro_mlir.program.accumulators import CLASSES, SCALED_CLASSES

    for name, entries in CLASSES.items():
        for element, result in entries:
            if name in SCALED_CLASSES or element not in ELEMENTS:
                continue
            by = Accumulator.named(name, element, result)
            kind = "tf32" if element == "f32" else "normal"
            product = Product(by, {"m": 5, "n": 19, "k": 70}, (element, element, result))
            yield f"{name}-{element}-{result}", product, product.operands(OPERANDS[kind], 1)
    for kind, make in OPERANDS.items():
        for element in ELEMENTS:
            product = Product(HOPPER, {"m": 13, "n": 35, "k": 150}, (element, element, "f32"))
            yield f"{kind}-{element}", product, product.operands(make, 2)
    for m, n, k in ((1, 1, 1), (2, 3, 0), (7, 9, 31), (17, 65, 511), (65, 40, 300), (1, 200, 33), (50, 1, 33)):
        product = Product(HOPPER, {"m": m, "n": n, "k": k})
        yield f"{m}x{n}x{k}", product, product.operands(OPERANDS["normal"], 3)
    for maps in LAYOUTS:
        product = Product(AMPERE, {"b": 3, "m": 20, "n": 37, "k": 21, "l": 3}, maps=maps)
        sizes = {letter: product.sizes[letter] for letter in set("".join(maps))}
        product = dataclasses.replace(product, sizes=sizes)
        yield "-".join(maps), product, product.operands(OPERANDS["normal"], 4)
    for by in (
        dataclasses.replace(HOPPER, chunk=64),
        dataclasses.replace(HOPPER, start="init"),
        dataclasses.replace(HOPPER, late=True, start="init"),
        dataclasses.replace(HOPPER, late=True, chunk=32),
        Accumulator(16, None, "rne_f32", 0),
        Accumulator(3, None, "rz_f32", 0, start="init"),
        Accumulator(16, 13, "rz_e8m13", -132),
        Accumulator(8, 24, "rne_f16", -20, start="init"),
        Accumulator(128, 40, "rne_f32", -300),
        Accumulator(1, 10, "rz_f32", 3),
    ):
        for kind in ("normal", "wide", "special"):
            result = "f16" if by.round == "rne_f16" else "f32"
            product = Product(by, {"m": 9, "n": 34, "k": 165}, ("f16", "f16", result))
            yield f"{ordering(by)[12:-1].replace(' ', '')}-{kind}", product, product.operands(OPERANDS[kind], 5)
