# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Random canonical programs, each generated from a number. The programs combine operations as imported programs do, and
in other ways."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from support import accumulated
from support import inputs as values
from support.builder import ANY, COLUMN, ROW, SEQUENTIAL, Builder, Value, order
from support.catalogue import FLOATS, INTEGERS, Case
from support.random_bodies import Body, is_float, literal, scalar_type

_EXTENTS = (0, 1, 2, 3, 4, 7, 8, 16, 17, 33, 64, 65)
_WEIGHTS = (1, 4, 6, 6, 5, 5, 5, 4, 4, 4, 3, 3)
_LONG = (130, 513, 1030)
_MAX_ELEMENTS = 1 << 13
_MAX_ITERATIONS = 1 << 15


def _names(count: int) -> list[str]:
    return [f"d{i}" for i in range(count)]


class _Space:
    """The iteration space of a generic or fold, to which the index maps of operands add dimensions."""

    def __init__(self, choose: random.Random, most: int) -> None:
        self.choose = choose
        self.most = most
        self.extents: list[int] = []
        self.bounded: set[int] = set()
        """The dimensions whose extent an operand determines, because one of its map results is just this dimension."""

    def new(self, extent: int) -> int | None:
        if len(self.extents) >= self.most or math.prod([*self.extents, extent]) > _MAX_ITERATIONS:
            return None
        self.extents.append(extent)
        return len(self.extents) - 1

    def access(self, shape: Sequence[int], fresh: float) -> str | None:
        """Returns the results of an index map for an operand of this shape, or None if none was found. Each result is a
        new dimension with probability `fresh`."""
        results = []
        for extent in shape:
            result = self._result(extent, fresh)
            if result is None:
                return None
            results.append(result)
        return ", ".join(results)

    def _result(self, extent: int, fresh: float) -> str | None:
        choose = self.choose
        equal = [d for d, e in enumerate(self.extents) if e == extent]
        if choose.random() < fresh or not self.extents:
            dim = self.new(extent)
            if dim is not None:
                self.bounded.add(dim)
                return f"d{dim}"
        if equal and choose.random() < 0.75:
            dim = choose.choice(equal)
            self.bounded.add(dim)
            return f"d{dim}"
        if extent == 0:
            dim = equal[0] if equal else self.new(0)
            if dim is None:
                return None
            self.bounded.add(dim)
            return f"d{dim}"
        return self._computed(extent)

    def _computed(self, extent: int) -> str:
        """Returns a result of an index map that is not just a dimension: a constant or an expression."""
        choose = self.choose
        if not self.extents or choose.random() < 0.25:
            return str(choose.randrange(extent))
        dim = choose.randrange(len(self.extents))
        last = self.extents[dim] - 1
        if last < 0:
            return str(choose.randrange(extent))
        kind = choose.random()
        if kind < 0.15 and last < extent:
            return f"-d{dim} + {extent - 1 - choose.randrange(extent - last)}"
        if kind < 0.25:
            return f"d{dim} mod {choose.randint(1, extent)}"
        if kind < 0.35:
            return f"d{dim} floordiv {max(last // extent + choose.randint(1, 3), 2)}"
        if last >= extent:
            return f"d{dim} mod {extent}" if choose.random() < 0.5 else str(choose.randrange(extent))
        stride = choose.randint(1, max(1, min(3, (extent - 1) // max(last, 1))))
        room = extent - 1 - stride * last
        text = f"d{dim} * {stride}" if stride > 1 else f"d{dim}"
        if kind < 0.85 and room > 0:
            # A window: adds a multiple of another dimension, so that the index stays in bounds.
            step = choose.randint(1, min(3, room))
            size = choose.randint(1, min(5, room // step + 1))
            other = self.new(size) if choose.random() < 0.7 else None
            if other is None:
                fitting = [d for d, e in enumerate(self.extents) if 0 <= step * (e - 1) <= room]
                other = choose.choice(fitting) if fitting else None
            if other is not None:
                room -= step * (self.extents[other] - 1)
                text += f" + d{other} * {step}" if step > 1 else f" + d{other}"
        offset = choose.randint(0 if "+" in text or "*" in text else min(1, room), room)
        return f"{text} + {offset}" if offset else text if text != f"d{dim}" else f"d{dim} mod {extent}"


class _Maker:
    """Adds random operations to a program. Extents come from a few numbers, so that shapes often match."""

    def __init__(self, choose: random.Random, checks: bool) -> None:
        self.choose = choose
        self.checks = checks
        self.b = Builder()
        self.sites = 0
        self.palette = choose.choices(_EXTENTS, _WEIGHTS, k=3)
        if choose.random() < 0.15:
            self.palette.append(choose.choice(_LONG))
        self.arguments: list[Value] = []
        for _ in range(choose.randint(2, 4)):
            shape = self._shape(choose.choice([0, 1, 1, 2, 2, 2, 3, 3, 4]))
            self.arguments.append(self.b.argument(shape, scalar_type(choose)))
        self.values: list[Value] = list(self.arguments)

    def _shape(self, rank: int) -> tuple[int, ...]:
        shape: list[int] = []
        for _ in range(rank):
            extent = self.choose.choice(self.palette)
            shape.append(extent if math.prod([*shape, extent]) <= _MAX_ELEMENTS else self.choose.choice([1, 2, 3]))
        return tuple(shape)

    def any(self, rank: int | None = None, element: str | None = None) -> Value:
        """Returns a value of this rank and element type, if these are given. Prefers recent values; makes a new value
        if there is none."""
        fitting = [v for v in self.values if rank is None or len(v.shape or ()) == rank]
        fitting = [v for v in fitting if element is None or v.element == element]
        if not fitting:
            return self._filled(self._shape(2 if rank is None else rank), element or scalar_type(self.choose))
        return fitting[int(len(fitting) * self.choose.random() ** 0.5)]

    def _filled(self, shape: Sequence[int], element: str) -> Value:
        """Returns a new value that depends on no other: a constant, or a tensor computed from the positions of its
        elements."""
        kind = self.choose.random()
        if kind < 0.4 or element == "i1":
            return self.b.constant(f"dense<{literal(self.choose, element)}>", shape, element)
        body = Body(self.choose, [], "linalg.index", len(shape))
        body.grow(4)
        result = body.pick(element)[0]
        return self.b.generic(shape, [], body.text([result]), element, yields=[result])[0]

    def _typed(self, v: Value, element: str) -> Value:
        if v.element == element:
            return v
        body = Body(self.choose, [("%x0", v.element)], "linalg.index", 0)
        result = body.convert("%x0", v.element, element)
        dims = ", ".join(_names(len(v.shape or ())))
        return self.b.generic(v.shape or (), [(v, dims)], body.text([result]), element, yields=[result])[0]

    # Structured operations with a body --------------------------------------------------------------------------------

    def _read(self, space: _Space, count: int) -> list[tuple[Value, str]]:
        """Returns operands and the results of their index maps. Most dimensions come from the first operand."""
        read = []
        for i in range(count):
            v = self.any()
            results = space.access(v.shape or (), 0.8 if i == 0 else 0.15)
            if results is not None:
                read.append((v, results))
        return read

    def _tables(self) -> list[Value]:
        """Returns at most one tensor, whose elements a body may read by index."""
        fitting = [v for v in self.values if math.prod(v.shape or ())]
        return self.choose.sample(fitting, min(1, len(fitting)))

    def generic(self) -> list[Value]:
        choose = self.choose
        space = _Space(choose, 5)
        inputs = self._read(space, choose.choice([0, 1, 1, 2, 2, 3]))
        if not inputs and choose.random() < 0.7:
            for extent in self._shape(choose.randint(0, 3)):
                space.new(extent)
        if math.prod(space.extents) > _MAX_ELEMENTS:
            return []
        rank = len(space.extents)
        turned = choose.sample(range(rank), rank) if choose.random() < 0.4 else list(range(rank))
        scalars = [(f"%x{i}", v.element) for i, (v, _) in enumerate(inputs)]
        body = Body(choose, scalars, "linalg.index", rank, self._tables(), self.checks)
        body.grow(choose.choice([0, 1, 2, 4, 7]))
        if not body.scalars:
            body.grow(1)
        results = [body.pick() for _ in range(choose.choice([1, 1, 1, 2]))]
        results = [(body.convert(name, t, "i64") if t == "index" else name, t) for name, t in results]
        shape = [space.extents[d] for d in turned]
        return self.b.generic(
            shape,
            inputs,
            body.text([name for name, _ in results]),
            *("i64" if t == "index" else t for _, t in results),
            output=", ".join(f"d{d}" for d in turned),
            dims=space.extents,
            yields=[name for name, _ in results],
        )

    def fold(self) -> list[Value]:
        choose = self.choose
        space = _Space(choose, 6)
        inputs = self._read(space, choose.choice([1, 1, 2, 2, 2, 3]))
        rank = len(space.extents)
        if not rank:
            return []
        # Reduces only the last dimension, only the first one, or a random set of dimensions.
        letters = [choose.choice("pr") for _ in range(rank)]
        kind = choose.random()
        if kind < 0.3:
            letters = ["p"] * (rank - 1) + ["r"]
        elif kind < 0.5:
            letters = ["r"] + ["p"] * (rank - 1)
        elif "r" not in letters:
            letters[choose.randrange(rank)] = "r"
        kept = [d for d in range(rank) if letters[d] == "p"]
        while math.prod(space.extents[d] for d in kept) > _MAX_ELEMENTS:
            letters[kept.pop()] = "r"
        if choose.random() < 0.3:
            choose.shuffle(kept)
        # Dimensions of windows need an operand that has their extents, although the body does not read it.
        loose = [d for d in range(rank) if letters[d] == "r" and d not in space.bounded]
        if loose:
            window = self.b.empty([space.extents[d] for d in loose], "f32")
            inputs.append((window, ", ".join(f"d{d}" for d in loose)))
        scalars = [(f"%x{i}", v.element) for i, (v, _) in enumerate(inputs[: len(inputs) - bool(loose)])]
        body = Body(choose, scalars, "repro.index", rank, self._tables(), self.checks)
        shape = tuple(space.extents[d] for d in kept)
        make = choose.choice([self._contraction, self._contraction, self._sum, self._sum, self._any_order])
        if choose.random() < 0.12:
            make = self._sequential
        ordering, elements, accumulators, yields = make(body, letters)
        outputs = [(self._init(shape, t), ", ".join(f"d{d}" for d in kept)) for t in elements]
        return self.b.fold(ordering, "".join(letters), inputs, outputs, body.text(yields), accumulators, yields)

    def _init(self, shape: tuple[int, ...], element: str) -> Value:
        fitting = [v for v in self.values if v.shape == shape and v.element == element]
        if fitting and self.choose.random() < 0.6:
            return self.choose.choice(fitting)
        return self._filled(shape, element)

    def _order(self, letters: Sequence[str]) -> str:
        choose = self.choose
        reductions = letters.count("r")
        kind = choose.random()
        if kind < 0.3:
            return COLUMN
        if kind < 0.6:
            run = 0
            while run < reductions and letters[len(letters) - 1 - run] == "r":
                run += 1
            return ROW.format(run=run)
        chunk = choose.choice([2, 3, 7, 16, 64, 100, 512])
        lanes = choose.choice([1, 1, 2, 4, 8, 16, 64])
        return order(chunk, lanes, choose.randint(0, reductions), choose.choice(["sequential", "refold"]))

    def _contraction(self, body: Body, letters: Sequence[str]) -> tuple[str, list[str], list[str], list[str]]:
        """(K1), (K4), (M4) Makes the body acc = fma(x, y, acc). Returns the order, types and yielded names of the
        fold."""
        choose = self.choose
        arguments = list(body.scalars)
        t = choose.choice(["f32", "f32", *FLOATS])
        wide = "f64" if t == "f64" else "f32"
        plain = choose.random() < 0.7
        if plain and all(a in FLOATS and (a != "f64" or wide == "f64") for _, a in arguments):
            factors = [choose.choice(arguments), choose.choice(arguments)]
            names = [body.convert(name, a, wide) for name, a in factors]
            chosen = wide == "f32" and choose.random() < 0.4
        else:
            body.grow(choose.randint(0, 3))
            names, chosen = [body.pick(wide)[0], body.pick(wide)[0]], False
        ordering = self._sum_by_choice(t) if chosen else self._order(letters)
        step = body.emit(f"math.fma {names[0]}, {names[1]}, %a0 : {wide}", wide)
        return ordering, [t], [wide], [step]

    def _sum_by_choice(self, result: str) -> str:
        choose = self.choose
        if choose.random() < 0.5:
            return f"#repro.exact<digits = {choose.choice([2, 3])}>"
        by = accumulated.random_accumulator(choose)
        if by.start == "init" and by.round == "rne_f16" and result != "f16":
            by = dataclasses.replace(by, start="zero")
        return accumulated.ordering(by)

    def _sum(self, body: Body, letters: Sequence[str]) -> tuple[str, list[str], list[str], list[str]]:
        choose = self.choose
        t = choose.choice(["f32", "f32", *FLOATS])
        wide = "f64" if t == "f64" else "f32"
        body.grow(choose.choice([0, 0, 1, 3]))
        operands = [body.pick(wide)[0], "%a0"]
        choose.shuffle(operands)
        step = body.emit(f"arith.{choose.choice(['addf', 'addf', 'mulf'])} {', '.join(operands)} : {wide}", wide)
        return self._order(letters), [t], [wide], [step]

    def _any_order(self, body: Body, letters: Sequence[str]) -> tuple[str, list[str], list[str], list[str]]:
        """(F5) Makes a body whose fold may be in any order. Returns the order, types and yielded names of the fold."""
        choose = self.choose
        body.grow(choose.choice([0, 0, 1, 3]))
        if choose.random() < 0.5:
            t = choose.choice(FLOATS)
            op = choose.choice(["maximumf", "minimumf"])
        else:
            t = choose.choice(INTEGERS)
            op = choose.choice("addi addi muli andi ori xori maxsi minsi maxui minui".split())
        value = body.pick(t)[0]
        if op == "addi" and choose.random() < 0.5:
            value = body.emit(f"arith.muli {value}, {body.pick(t)[0]} : {t}", t)
        operands = [value, "%a0"]
        choose.shuffle(operands)
        step = body.emit(f"arith.{op} {', '.join(operands)} : {t}", t)
        return ANY, [t], [t], [step]

    def _sequential(self, body: Body, letters: Sequence[str]) -> tuple[str, list[str], list[str], list[str]]:
        """(F6) Makes any body, for a sequential fold. Returns the order, types and yielded names of the fold."""
        types = [scalar_type(self.choose) for _ in range(2)]
        body.scalars += [(f"%a{i}", t) for i, t in enumerate(types)]
        body.grow(self.choose.randint(2, 5))
        return SEQUENTIAL, types, types, [body.pick(t)[0] for t in types]

    def matmul(self) -> list[Value]:
        """Adds a matrix product with a random element type, layout and batch dimensions."""
        choose = self.choose
        t = choose.choice(["f32", "f32", "f32", *FLOATS, "i32", "i8"])
        a = self._typed(self.any(choose.choice([2, 2, 3])), t)
        assert a.shape is not None
        batch, (m, k) = a.shape[:-2], a.shape[-2:]
        n = choose.choice(self.palette)
        if math.prod(a.shape) * n > _MAX_ITERATIONS:
            return []
        letters = [f"d{i}" for i in range(len(batch) + 3)]
        *shared, row, column, inner = letters
        turned = choose.random() < 0.5
        shape = (*(batch if choose.random() < 0.7 else ()), *((n, k) if turned else (k, n)))
        c = self._typed(self.any_of(shape), t)
        names = [*shared[: len(shape) - 2], *((column, inner) if turned else (inner, column))]
        x = (a, ", ".join([*shared, row, inner]))
        init = self._init((*batch, m, n), t)
        out = (init, ", ".join([*shared, row, column]))
        iterators = "p" * (len(batch) + 2) + "r"
        if not is_float(t):
            body = f"%p = arith.muli %x0, %x1 : {t}\n    %r0 = arith.addi %p, %a0 : {t}"
            return self.b.fold(ANY, iterators, [x, (c, ", ".join(names))], [out], body)
        wide = "f64" if t == "f64" else "f32"
        made = Body(choose, [("%x0", t), ("%x1", t)], "repro.index", len(letters))
        factors = [made.convert(f"%x{i}", t, wide) for i in range(2)]
        step = made.emit(f"math.fma {factors[0]}, {factors[1]}, %a0 : {wide}", wide)
        ordering = COLUMN
        if wide == "f32" and choose.random() < 0.25:
            ordering = self._sum_by_choice(t)
        elif choose.random() < 0.2:
            ordering = self._order("r")
        inputs = [x, (c, ", ".join(names))]
        return self.b.fold(ordering, iterators, inputs, [out], made.text([step]), [wide], [step])

    def any_of(self, shape: tuple[int, ...]) -> Value:
        fitting = [v for v in self.values if v.shape == shape]
        return self.choose.choice(fitting) if fitting else self._filled(shape, scalar_type(self.choose))

    # Movement ---------------------------------------------------------------------------------------------------------

    def slice(self) -> list[Value]:
        v = self.any()
        if 0 in (v.shape or ()):
            return []
        offsets, sizes, strides = self._part(v.shape or ())
        shape = self._without_units(sizes)
        return [self.b.slice(v, offsets, sizes, strides, shape)]

    def insert(self) -> list[Value]:
        v = self.any()
        if 0 in (v.shape or ()):
            return []
        offsets, sizes, strides = self._part(v.shape or ())
        shape = self._without_units(sizes)
        part = self._typed(self.any_of(shape), v.element)
        return [self.b.insert(part, v, offsets, sizes, strides)]

    def _part(self, shape: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
        """Returns the offsets, sizes and strides of a random slice of a tensor with the given shape."""
        choose = self.choose
        offsets, sizes, strides = [], [], []
        for extent in shape:
            stride = choose.choice([1, 1, 1, 2, 3])
            offset = choose.randrange(extent)
            most = -(-(extent - offset) // stride)
            size = choose.choice([most, most, choose.randint(0 if choose.random() < 0.1 else min(1, most), most)])
            if choose.random() < 0.3:
                offset, size, stride = 0, extent, 1
            offsets.append(offset)
            sizes.append(size)
            strides.append(stride)
        return offsets, sizes, strides

    def _without_units(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Returns the sizes of a slice without some of the dimensions of extent 1."""
        if self.choose.random() < 0.6:
            return tuple(sizes)
        return tuple(size for size in sizes if size != 1 or self.choose.random() < 0.5)

    def pad(self) -> list[Value]:
        v = self.any()
        if not v.shape:
            return []
        low = [self.choose.choice([0, 0, 1, 3]) for _ in v.shape]
        high = [self.choose.choice([0, 0, 1, 2]) for _ in v.shape]
        shape = tuple(a + e + c for a, e, c in zip(low, v.shape, high, strict=True))
        if math.prod(shape) > _MAX_ELEMENTS:
            return []
        return [self.b.pad(v, low, high, self._scalar(v.element))]

    def _scalar(self, element: str) -> Value:
        """Returns a scalar value in @main: a constant, or an element that is extracted from a tensor."""
        fitting = [v for v in self.values if v.element == element and math.prod(v.shape or ())]
        if not fitting or self.choose.random() < 0.5:
            return self.b.constant(literal(self.choose, element), None, element)
        v = self.choose.choice(fitting)
        return self.b.extract(
            v, *(self.b.constant(str(self.choose.randrange(e)), None, "index") for e in v.shape or ())
        )

    def concat(self) -> list[Value]:
        v = self.any()
        if not v.shape:
            return []
        dim = self.choose.randrange(len(v.shape))

        def fits(w: Value) -> bool:
            shape = w.shape or ()
            return len(shape) == len(v.shape or ()) and all(
                a == c for d, (a, c) in enumerate(zip(shape, v.shape or (), strict=True)) if d != dim
            )

        partners = [w for w in self.values if fits(w)]
        parts = [v, *(self._typed(self.choose.choice(partners), v.element) for _ in range(self.choose.randint(0, 2)))]
        extents = list(v.shape)
        extents[dim] = sum((part.shape or ())[dim] for part in parts)
        if math.prod(extents) > _MAX_ELEMENTS:
            return []
        return [self.b.concat(dim, *parts)]

    def collapse(self) -> list[Value]:
        v = self.any()
        rank = len(v.shape or ())
        if not rank:
            return []
        groups, shape = [], []
        at = 0
        while at < rank:
            size = self.choose.randint(1, rank - at)
            groups.append(list(range(at, at + size)))
            shape.append(math.prod((v.shape or ())[at : at + size]))
            at += size
        return [self.b.reshape("collapse", v, str(groups), shape)]

    def expand(self) -> list[Value]:
        v = self.any()
        if not v.shape:
            return []
        groups, shape = [], []
        for extent in v.shape:
            parts = [extent]
            for _ in range(self.choose.choice([0, 0, 1, 2])):
                last = parts.pop()
                divisors = [k for k in range(1, last + 1) if last % k == 0] if last else [1]
                first = self.choose.choice(divisors)
                parts += [first, last // first] if self.choose.random() < 0.5 else [last // first, first]
            groups.append(list(range(len(shape), len(shape) + len(parts))))
            shape += parts
        if len(shape) > 6:
            return []
        return [self.b.reshape("expand", v, str(groups), shape)]

    def barrier(self) -> list[Value]:
        v = self.any()
        return [self.b.op(f"repro.barrier {v.name} : {v.type}", v.shape, v.element)]

    def scalars(self) -> list[Value]:
        element = self.any().element
        if self.choose.random() < 0.5:
            shape = self._shape(self.choose.randint(0, 2))
            return [self.b.splat(self._scalar(element), shape)]
        parts = [self._scalar(element) for _ in range(self.choose.randint(1, 4))]
        return [self.b.from_elements([len(parts)], *parts)]

    # Data-dependent operations ----------------------------------------------------------------------------------------

    def _along(self) -> tuple[Value, int] | None:
        v = self.any()
        return (v, self.choose.randrange(len(v.shape))) if v.shape else None

    def scan(self) -> list[Value]:
        found = self._along()
        if found is None:
            return []
        v, dim = found
        combine = self.choose.choice(["add", "mul", "maximum", "minimum"])
        return self.b.call(f"repro.scan {combine} dimension = {dim}", [v], [self.b.empty(v.shape or (), v.element)])

    def sort(self) -> list[Value]:
        found = self._along()
        if found is None:
            return []
        v, dim = found
        carried = [v, *(w for w in self.values if w.shape == v.shape and self.choose.random() < 0.5)][:3]
        direction = self.choose.choice(["ascending", "descending"])
        outputs = [self.b.empty(w.shape or (), w.element) for w in carried]
        return self.b.call(f"repro.sort {direction} dimension = {dim}", carried, outputs)

    def arg(self) -> list[Value]:
        found = self._along()
        if found is None or not (found[0].shape or ())[found[1]]:
            return []
        v, dim = found
        shape = tuple(e for d, e in enumerate(v.shape or ()) if d != dim)
        outputs = [self.b.empty(shape, element) for element in (v.element, "i64")]
        return self.b.call(f"repro.arg_reduce {self.choose.choice(['max', 'min'])} dimension = {dim}", [v], outputs)

    def scatter(self) -> list[Value]:
        choose = self.choose
        v = self.any()
        assert v.shape is not None
        depth = choose.randint(0, min(2, len(v.shape)))
        if 0 in v.shape[:depth]:
            return []
        count = choose.choice([*self.palette, 5])
        shape = (count, *v.shape[depth:])
        if math.prod(shape) > _MAX_ELEMENTS:
            return []
        updates = self._typed(self.any_of(shape), v.element)
        index = choose.choice(["i32", "i64"])
        body = Body(choose, [], "linalg.index", 2)
        body.emit("linalg.index 0 : index", "index")
        body.grow(2)
        at = body.pick("index")[0]
        if depth and not (self.checks and choose.random() < 0.1):
            least = body.constant("index", str(min(v.shape[:depth])))
            at = body.emit(f"arith.remui {at}, {least} : index", "index")
        at = body.emit(f"arith.index_cast {at} : index to {index}", index)
        (rows,) = self.b.generic((count, depth), [], body.text([at]), index, yields=[at])
        combine = choose.choice(["add", "add", "mul", "maximum", "minimum", "replace"])
        return self.b.call(f"repro.scatter {combine}", [updates, rows], [v])

    def random(self) -> list[Value]:
        seed = self._scalar("i64")
        step = self.b.constant(str(self.choose.choice([0, 1, 17, 2**32 - 1])), None, "i64")
        self.sites += 1
        distribution, element = self.choose.choice([("uniform", "f32"), ("bits", "i32")])
        shape = self._shape(self.choose.randint(0, 3))
        out = self.b.empty(shape, element)
        return self.b.call(f"repro.random {distribution} site = {self.sites}", [seed, step], [out])


_STEPS = [_Maker.generic] * 6 + [_Maker.fold] * 5 + [_Maker.matmul] * 2 + [_Maker.slice] * 2
_STEPS += [_Maker.insert, _Maker.pad, _Maker.concat, _Maker.collapse, _Maker.expand, _Maker.barrier, _Maker.scalars]
_STEPS += [_Maker.scan, _Maker.sort, _Maker.arg, _Maker.scatter, _Maker.random]


def program(seed: int, steps: int | None = None, checks: bool = False) -> Case:
    """Returns the program with the number `seed`.

    Args:
      steps: if given, stops the generation after this number of steps, each of which adds operations. This reduces a
        failing program.
      checks: whether a step may fail (E1).
    """
    choose = random.Random(seed)
    maker = _Maker(choose, checks)
    planned = choose.randint(2, MOST_STEPS)
    for _ in range(planned if steps is None else min(steps, planned)):
        maker.values += choose.choice(_STEPS)(maker)
    # A second generator makes the remaining choices, so that they do not depend on `steps`.
    choose = random.Random(~seed)
    made = maker.values[len(maker.arguments) :]
    # The new value of each state is any value of its type: a computed value, another state, or the state itself.
    states = choose.randint(0, len(maker.arguments))
    renewed = [choose.choice([w for w in maker.values if w.type == v.type]) for v in maker.arguments[:states]]
    # Unused values become results, except for a few, of which only checks have an effect (E1).
    seen = [v for v in made if not maker.b.is_used(v) and not (checks and choose.random() < 0.2)]
    results = seen + choose.sample(maker.values, min(len(maker.values), choose.randint(not seen and not states, 2)))
    arrays = []
    for v in maker.arguments:
        make = choose.choice([values.random, values.random, values.mixed])
        arrays.append(make(v.element, v.shape or (), choose.getrandbits(16)))
    return Case(f"random-{seed}", maker.b.program(*renewed, *results, states=states), tuple(map(np.asarray, arrays)))


MOST_STEPS = 6

PROGRAMS = 10_000
"""The number of random programs that have been compared on all targets."""


def programs() -> st.SearchStrategy[Case]:
    """Returns a strategy for random programs in which no check fails."""
    return st.integers(0, PROGRAMS - 1).map(program)
