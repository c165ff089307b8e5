# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Random scalar operations for the bodies of generics and folds."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from support.builder import Value
from support.catalogue import FLOATS, FUNCTIONS, INTEGERS, width

CANONICAL_NAN = {
    "f64": 0x7FF8000000000000,
    "f32": 0x7FC00000,
    "bf16": 0x7FC0,
    "f16": 0x7E00,
    "f8E4M3FN": 0x7F,
    "f8E5M2": 0x7E,
}
"""The bits of the canonical NaN (V4)."""

_UNARY = [f"math.{op}" for op in ("absf", "sqrt", "floor", "ceil", "trunc", "roundeven", "round")] + ["arith.negf"]
_BINARY = [f"arith.{op}" for op in ("addf", "subf", "mulf", "divf", "remf", "maximumf", "minimumf")] + ["math.copysign"]
_ORDERED = "oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno".split()
_INTEGER = [f"arith.{op}" for op in "addi subi muli andi ori xori maxsi minsi maxui minui".split()]
_INTEGER += [f"arith.{op}" for op in "divsi divui remsi remui shli shrsi shrui".split()]
_PREDICATES = "eq ne slt sle sgt sge ult ule ugt uge".split()
_BITS = [f"math.{op}" for op in ("absi", "ctlz", "cttz", "ctpop")]


def is_float(element: str) -> bool:
    """Whether an element type is a float type."""
    return element in FLOATS


def literal(choose: random.Random, element: str) -> str:
    """Returns a random constant in MLIR syntax; some constants are special values, but none is a NaN."""
    if element == "i1":
        return choose.choice(["true", "false"])
    if not is_float(element):
        size = 64 if element == "index" else width(element)
        values = [0, 1, -1, 2, 3, 7, size - 1, 2 ** (size - 1) - 1, -(2 ** (size - 1)), choose.randrange(-100, 100)]
        return str(choose.choice(values))
    if choose.random() < 0.7:
        return choose.choice(["0.0", "-0.0", "1.0", "-1.0", "0.5", "2.0", "3.0", "-1.5", "0.1", "10.0"])
    size = width(element)
    bits = choose.getrandbits(size)
    exponent = {"f64": (52, 11), "f32": (23, 8), "bf16": (7, 8), "f16": (10, 5), "f8E4M3FN": (3, 4), "f8E5M2": (2, 5)}
    fraction, count = exponent[element]
    mask = ((1 << count) - 1) << fraction
    if bits & mask == mask:
        # Replaces a NaN by infinity or, in E4M3FN, by the largest number, because a constant must not be a
        # non-canonical NaN.
        bits = mask if element != "f8E4M3FN" else 0x7E
    return f"0x{bits:0{size // 4}X}"


def scalar_type(choose: random.Random) -> str:
    """Returns a random element type; f32 is the most frequent one."""
    return choose.choice(["f32"] * 4 + [*FLOATS, *INTEGERS])


class Body:
    """The body of a generic or fold: lines of operations, and the scalars that operations can use.

    Attributes:
      scalars: (name, type) of the block arguments and of the scalars that the lines define.
    """

    def __init__(
        self,
        choose: random.Random,
        scalars: Sequence[tuple[str, str]],
        index: str,
        dims: int,
        tables: Sequence[Value] = (),
        checks: bool = False,
    ) -> None:
        """
        Args:
          index: the operation that returns an index of the iteration space (linalg.index or repro.index); the space has
            `dims` dimensions.
          tables: tensors whose elements the body may read.
          checks: whether a check may fail (E1).
        """
        self.choose = choose
        self.scalars = list(scalars)
        self._index, self._dims, self._tables, self._checks = index, dims, tables, checks
        self._lines: list[str] = []

    def text(self, yields: Sequence[str]) -> str:
        """Returns the lines on which `yields` depends or, if checks may fail, all lines: each check has an effect
        (E1)."""
        lines, needed = [], set(yields)
        for line in reversed(self._lines):
            names, _, operation = line.rpartition(" = ")
            if self._checks or not names or needed & set(names.split(", ")):
                lines.append(line)
                needed.update(re.findall(r"%\w+", operation))
        return "\n    ".join(reversed(lines))

    def emit(self, text: str, element: str) -> str:
        """Adds an operation and returns the name of its result."""
        name = f"%s{len(self._lines)}"
        self._lines.append(f"{name} = {text}")
        self.scalars.append((name, element))
        return name

    def constant(self, element: str, text: str | None = None) -> str:
        """Adds a constant and returns its name."""
        text = literal(self.choose, element) if text is None else text
        return self.emit(f"arith.constant {text}" + ("" if element == "i1" else f" : {element}"), element)

    def convert(self, name: str, source: str, target: str) -> str:
        """Adds casts that convert a scalar to another type, and returns the name of the result."""
        choose, emit = self.choose, self.emit
        if source == target:
            return name
        if "index" in (source, target):
            if is_float(source) or is_float(target):
                return self.convert(self.convert(name, source, "i64"), "i64", target)
            cast = choose.choice(["index_cast", "index_castui"])
            return emit(f"arith.{cast} {name} : {source} to {target}", target)
        if is_float(source) and is_float(target):
            if width(source) == width(target):
                return self.convert(self.convert(name, source, "f32"), "f32", target)
            cast = "extf" if width(source) < width(target) else "truncf"
        elif is_float(source):
            if width(source) == width(target) and choose.random() < 0.2:
                return self._bits(name, source, target)
            cast = choose.choice(["fptosi", "fptoui"])
        elif is_float(target):
            cast = choose.choice(["sitofp", "uitofp", *(["bitcast"] if width(source) == width(target) else [])])
        else:
            cast = "trunci" if width(source) > width(target) else choose.choice(["extsi", "extui"])
        return emit(f"arith.{cast} {name} : {source} to {target}", target)

    def _bits(self, name: str, source: str, target: str) -> str:
        """(V4) Adds operations that return the bits of a float, in which NaNs are canonical."""
        unordered = self.emit(f"arith.cmpf uno, {name}, {name} : {source}", "i1")
        bits = f"%s{len(self._lines)}"
        # The bitcast can return the bits of a non-canonical NaN. A canonical program reads such bits only through the
        # select below, so other operations must not use the bitcast's result.
        self._lines.append(f"{bits} = arith.bitcast {name} : {source} to {target}")
        canonical = self.constant(target, str(CANONICAL_NAN[source]))
        return self.emit(f"arith.select {unordered}, {canonical}, {bits} : {target}", target)

    def pick(self, element: str | None = None) -> tuple[str, str]:
        """Returns the name and type of a random scalar, preferably a recent one; it is converted to `element` if that
        is given."""
        at = int(len(self.scalars) * self.choose.random() ** 0.5)
        name, source = self.scalars[at]
        return (name, source) if element is None else (self.convert(name, source, element), element)

    def grow(self, count: int) -> None:
        """Adds random operations, about `count` of them."""
        for _ in range(count):
            kind = self.choose.random()
            if not self.scalars or kind < 0.08:
                self._position()
            elif kind < 0.55:
                self._float()
            elif kind < 0.85:
                self._integer()
            elif kind < 0.93:
                self._select()
            else:
                self._extract()

    def _position(self) -> None:
        if self._dims and self.choose.random() < 0.6:
            self.emit(f"{self._index} {self.choose.randrange(self._dims)} : index", "index")
        else:
            self.constant(scalar_type(self.choose))

    def _float(self) -> None:
        choose = self.choose
        name, t = self.pick()
        if not is_float(t) or choose.random() < 0.2:
            t = choose.choice(["f32", "f32", *FLOATS])
            name = self.convert(name, self._type(name), t)
        kind = choose.random()
        if kind < 0.3:
            self.emit(f"{choose.choice(_UNARY)} {name} : {t}", t)
        elif kind < 0.65:
            self.emit(f"{choose.choice(_BINARY)} {name}, {self.pick(t)[0]} : {t}", t)
        elif kind < 0.75:
            self.emit(f"math.fma {name}, {self.pick(t)[0]}, {self.pick(t)[0]} : {t}", t)
        elif kind < 0.88:
            self.emit(f"arith.cmpf {choose.choice(_ORDERED)}, {name}, {self.pick(t)[0]} : {t}", "i1")
        elif t == "f64":
            self.emit(f"arith.mulf {name}, {name} : {t}", t)
        elif kind < 0.96:
            self.emit(f"repro.{choose.choice(FUNCTIONS)} {name} : {t}", t)
        elif kind < 0.98:
            self.emit(f"repro.{choose.choice(['atan2', 'hypot', 'pow'])} {name}, {self.pick(t)[0]} : {t}", t)
        else:
            exponent = choose.choice(["i32", "i64"])
            self.emit(f"repro.powi {name}, {self.pick(exponent)[0]} : {t}, {exponent}", t)

    def _integer(self) -> None:
        choose = self.choose
        name, t = self.pick()
        if is_float(t) or choose.random() < 0.2:
            t = choose.choice([*INTEGERS, "index"])
            name = self.convert(name, self._type(name), t)
        kind = choose.random()
        if kind < 0.6:
            self.emit(f"{choose.choice(_INTEGER)} {name}, {self.pick(t)[0]} : {t}", t)
        elif kind < 0.8:
            self.emit(f"arith.cmpi {choose.choice(_PREDICATES)}, {name}, {self.pick(t)[0]} : {t}", "i1")
        elif t in ("index", "i1"):
            self.emit(f"arith.xori {name}, {self.pick(t)[0]} : {t}", t)
        elif kind < 0.9:
            self.emit(f"{choose.choice(_BITS)} {name} : {t}", t)
        else:
            op = choose.choice(["mulsi_extended", "mului_extended", "addui_extended"])
            high = "i1" if op == "addui_extended" else t
            text = f"arith.{op} {name}, {self.pick(t)[0]} : {t}" + (", i1" if high == "i1" else "")
            low = f"%s{len(self._lines)}"
            self._lines.append(f"{low}, {low}h = {text}")
            self.scalars += [(low, t), (f"{low}h", high)]

    def _select(self) -> None:
        name, t = self.pick()
        # A constant condition makes one value unused. The checks on which that value depends must still run (E1).
        known = self._checks and self.choose.random() < 0.2
        condition = self.constant("i1") if known else self.pick("i1")[0]
        self.emit(f"arith.select {condition}, {name}, {self.pick(t)[0]} : {t}", t)

    def _extract(self) -> None:
        """Adds an operation that reads an element of a table. Indices are taken modulo the extents. A few are not, so
        that they may be out of range and the read may fail.
        """
        if not self._tables:
            return self._select()
        table = self.choose.choice(self._tables)
        names = []
        for extent in table.shape or ():
            at = self.pick("index")[0]
            if not (self._checks and self.choose.random() < 0.02):
                at = self.emit(f"arith.remui {at}, {self.constant('index', str(extent))} : index", "index")
            names.append(at)
        self.emit(f"tensor.extract {table.name}[{', '.join(names)}] : {table.type}", table.element)
        if self._checks and self.choose.random() < 0.03:
            self._lines.append(f'cf.assert {self.pick("i1")[0]}, "expected otherwise"')
        return None

    def _type(self, name: str) -> str:
        return next(t for known, t in self.scalars if known == name)
