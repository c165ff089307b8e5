# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Canonical programs made at random, in which operations meet as they do after import: fused, shared, reused."""

from __future__ import annotations

import inputs as values
from builder import ANY, COLUMN, ROW, Builder, Value, order
from catalogue import Case
from hypothesis import strategies as st

_UNARY = (
    "arith.negf",
    "math.absf",
    "math.sqrt",
    "math.floor",
    "repro.exp",
    "repro.tanh",
    "repro.rsqrt",
    "repro.log1p",
    "repro.erf",
)
_BINARY = ("arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.maximumf", "arith.minimumf", "repro.pow")
_EXTENTS = (1, 2, 3, 4, 7, 8, 16, 17, 33, 64, 65)


def _dims(rank: int) -> list[str]:
    return [f"d{i}" for i in range(rank)]


class _Maker:
    """Adds operations that `draw` chooses to a program over f32 values whose extents come from a small palette."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.b = Builder()
        self.extents = draw(st.lists(st.sampled_from(_EXTENTS), min_size=2, max_size=3, unique=True))
        self.arguments: list[Value] = []
        self.values: list[Value] = []
        for rank in draw(st.lists(st.integers(0, 3), min_size=2, max_size=4)):
            shape = tuple(draw(st.sampled_from(self.extents)) for _ in range(rank))
            self.arguments.append(self.b.argument(shape, "f32"))
        self.values += self.arguments

    def any(self, rank: int | None = None) -> Value | None:
        fitting = [v for v in self.values if rank is None or len(v.shape or ()) == rank]
        # Late values first: chains grow longer, and fuse.
        return self.draw(st.sampled_from(fitting[::-1])) if fitting else None

    def constant(self, literal: str, shape: tuple[int, ...]) -> Value:
        return self.b.constant(f"dense<{literal}>", shape, "f32")

    def unary(self) -> Value | None:
        v = self.any()
        assert v is not None
        return self.b.elementwise(f"%r0 = {self.draw(st.sampled_from(_UNARY))} %x0 : f32", v, element="f32")

    def binary(self) -> Value | None:
        """Two operands, the second with equal, fewer or broadcast dimensions."""
        v = self.any()
        assert v is not None and v.shape is not None
        dims = _dims(len(v.shape))
        partners: list[tuple[Value, str]] = []
        for w in self.values:
            assert w.shape is not None
            if len(w.shape) > len(dims):
                continue
            tail = v.shape[len(v.shape) - len(w.shape) :]
            if all(a in (b, 1) for a, b in zip(w.shape, tail, strict=True)):
                names = dims[len(dims) - len(w.shape) :]
                results = ["0" if a == 1 != b else n for a, b, n in zip(w.shape, tail, names, strict=True)]
                partners.append((w, ", ".join(results)))
        partner = self.draw(st.sampled_from(partners))
        op = self.draw(st.sampled_from(_BINARY))
        return self.b.generic(v.shape, [(v, ", ".join(dims)), partner], f"%r0 = {op} %x0, %x1 : f32", "f32")[0]

    def transpose(self) -> Value | None:
        v = self.any()
        assert v is not None and v.shape is not None
        turned = self.draw(st.permutations(range(len(v.shape))))
        shape = tuple(v.shape[d] for d in turned)
        where = [f"d{turned.index(d)}" for d in range(len(v.shape))]
        return self.b.generic(shape, [(v, ", ".join(where))], "%r0 = arith.addf %x0, %x0 : f32", "f32")[0]

    def reduce(self) -> Value | None:
        v = self.any()
        assert v is not None and v.shape is not None
        if not v.shape:
            return None
        rank = len(v.shape)
        reduced = self.draw(st.lists(st.sampled_from(range(rank)), min_size=1, unique=True))
        kept = [d for d in range(rank) if d not in reduced]
        shape = tuple(v.shape[d] for d in kept)
        iterators = "".join("r" if d in reduced else "p" for d in range(rank))
        run = 0
        while run < rank and rank - 1 - run in reduced:
            run += 1
        op, start, body = self.draw(
            st.sampled_from(
                [
                    ("sum", "0.0", "%r0 = arith.addf %x0, %a0 : f32"),
                    ("squares", "0.5", "%q = arith.mulf %x0, %x0 : f32\n    %r0 = arith.addf %q, %a0 : f32"),
                    ("product", "1.0", "%r0 = arith.mulf %x0, %a0 : f32"),
                    ("max", "0xFF800000", "%r0 = arith.maximumf %x0, %a0 : f32"),
                    ("min", "0x7F800000", "%r0 = arith.minimumf %x0, %a0 : f32"),
                ]
            )
        )
        other = order(self.draw(st.sampled_from([2, 16, 100])), self.draw(st.sampled_from([1, 4, 16])), 0, "refold")
        usual = ROW.format(run=run) if run else COLUMN
        ordering = ANY if op in ("max", "min") else self.draw(st.sampled_from([usual, usual, usual, other]))
        maps = ", ".join(_dims(rank)), ", ".join(f"d{d}" for d in kept)
        init = self.constant(start, shape)
        return self.b.fold(ordering, iterators, [(v, maps[0])], [(init, maps[1])], body)[0]

    def matmul(self) -> Value | None:
        a = self.any(2)
        fitting = [v for v in self.values if a and a.shape and v.shape and len(v.shape) == 2 and a.shape[1] in v.shape]
        if a is None or a.shape is None or not fitting:
            return None
        c = self.draw(st.sampled_from(fitting))
        assert c.shape is not None
        m, turned = a.shape[0], c.shape[0] != a.shape[1]
        n = c.shape[0] if turned else c.shape[1]
        biases = [v for v in self.values if v.shape == (m, n)]
        init = self.draw(st.sampled_from(biases)) if biases else self.constant("0.0", (m, n))
        return self.b.fold(
            COLUMN,
            "ppr",
            [(a, "d0, d2"), (c, "d1, d2" if turned else "d2, d1")],
            [(init, "d0, d1")],
            "%r0 = math.fma %x0, %x1, %a0 : f32",
        )[0]

    def move(self) -> Value | None:
        v = self.any()
        assert v is not None and v.shape is not None
        if not v.shape:
            return None
        first, *rest = v.shape
        zeros, ones = ", ".join(["0"] * len(v.shape)), ", ".join(["1"] * len(v.shape))
        which = self.draw(st.sampled_from(["slice", "pad", "concat", "collapse", "expand"]))
        if which == "slice":
            start = self.draw(st.integers(0, first - 1))
            shape = (first - start, *rest)
            sizes, offsets = ", ".join(map(str, shape)), ", ".join([str(start), *["0"] * len(rest)])
            kind = Value("", shape, "f32").type
            return self.b.op(
                f"tensor.extract_slice {v.name}[{offsets}] [{sizes}] [{ones}] : {v.type} to {kind}", shape, "f32"
            )
        if which == "pad":
            below = self.draw(st.integers(0, 3))
            shape = (first + below, *rest)
            indices = ", ".join(f"%i{d}: index" for d in range(len(shape)))
            fill = self.b.constant("0xFF800000", None, "f32")
            low = ", ".join([str(below), *["0"] * len(rest)])
            return self.b.op(
                f"tensor.pad {v.name} low[{low}] high[{zeros}] {{\n  ^bb0({indices}):\n"
                f"    tensor.yield {fill.name} : f32\n  }} : {v.type} to {Value('', shape, 'f32').type}",
                shape,
                "f32",
            )
        if which == "concat":
            partners = [w for w in self.values if w.shape and w.shape[1:] == tuple(rest)]
            w = self.draw(st.sampled_from(partners))
            assert w.shape is not None
            shape = (first + w.shape[0], *rest)
            kind = Value("", shape, "f32").type
            return self.b.op(f"tensor.concat dim(0) {v.name}, {w.name} : ({v.type}, {w.type}) -> {kind}", shape, "f32")
        if which == "collapse" and len(v.shape) > 1:
            shape = (first * rest[0], *rest[1:])
            groups = ", ".join(["[0, 1]", *(f"[{d}]" for d in range(2, len(v.shape)))])
            kind = Value("", shape, "f32").type
            return self.b.op(f"tensor.collapse_shape {v.name} [{groups}] : {v.type} into {kind}", shape, "f32")
        if which == "expand" and len(v.shape) < 3:
            shape = (first, 1, *rest)
            groups = ", ".join(["[0, 1]", *(f"[{d + 1}]" for d in range(1, len(v.shape)))])
            sizes, kind = ", ".join(map(str, shape)), Value("", shape, "f32").type
            text = f"tensor.expand_shape {v.name} [{groups}] output_shape [{sizes}] : {v.type} into {kind}"
            return self.b.op(text, shape, "f32")
        return None

    def gather(self) -> Value | None:
        """Rows of a table, by the index of another value's elements, clamped."""
        v = self.any()
        assert v is not None and v.shape is not None
        if not v.shape:
            return None
        inner = ", ".join(f"%j{d}" for d in range(1, len(v.shape)))
        body = (
            "%i = linalg.index 0 : index\n    %three = arith.constant 3 : index\n"
            f"    %n = arith.constant {v.shape[0]} : index\n    %p = arith.muli %i, %three : index\n"
            "    %j0 = arith.remui %p, %n : index\n"
            + "".join(f"    %j{d} = linalg.index {d} : index\n" for d in range(1, len(v.shape)))
            + f"    %r0 = tensor.extract {v.name}[%j0{', ' + inner if inner else ''}] : {v.type}"
        )
        shape = (self.draw(st.sampled_from(self.extents)), *v.shape[1:])
        return self.b.generic(shape, [], body, "f32")[0]

    def narrow(self) -> Value | None:
        """There and back through a storage type, which rounds."""
        v = self.any()
        assert v is not None
        t = self.draw(st.sampled_from(["bf16", "f16", "f8E5M2"]))
        low = self.b.elementwise(f"%r0 = arith.truncf %x0 : f32 to {t}", v, element=t)
        return self.b.elementwise(
            f"%d = arith.addf %x0, %x0 : {t}\n    %r0 = arith.extf %d : {t} to f32", low, element="f32"
        )

    def structured(self) -> Value | None:
        v = self.any()
        assert v is not None and v.shape is not None
        if not v.shape:
            return None
        dim = self.draw(st.integers(0, len(v.shape) - 1))
        which = self.draw(st.sampled_from(["scan", "sort", "arg", "scatter"]))
        out = self.b.empty(v.shape, "f32")
        kinds = f"ins({v.name} : {v.type}) outs({out.name} : {out.type}) -> {out.type}"
        if which == "scan":
            return self.b.op(f"repro.scan add dimension = {dim} {kinds}", v.shape, "f32")
        if which == "sort":
            return self.b.op(f"repro.sort descending dimension = {dim} {kinds}", v.shape, "f32")
        if which == "arg":
            shape = tuple(e for d, e in enumerate(v.shape) if d != dim)
            best, at = self.b.empty(shape, "f32"), self.b.empty(shape, "i64")
            _, index = self.b.ops(
                f"repro.arg_reduce max dimension = {dim} ins({v.name} : {v.type}) "
                f"outs({best.name}, {at.name} : {best.type}, {at.type}) -> {best.type}, {at.type}",
                (shape, "f32"),
                (shape, "i64"),
            )
            return self.b.elementwise("%r0 = arith.sitofp %x0 : i64 to f32", index, element="f32")
        n = self.draw(st.sampled_from(self.extents))
        body = (
            "%i = linalg.index 0 : index\n    %m = arith.constant 3 : index\n"
            "    %j = arith.remui %i, %m : index\n    %r0 = arith.index_cast %j : index to i64"
        )
        rows = self.b.generic((n, 1), [], body, "i64")[0]
        target = self.constant("1.0", (3, *v.shape[1:]))
        update = self.b.generic(
            (n, *v.shape[1:]), [], f"%r0 = arith.constant {self.draw(st.sampled_from(['0.1', '-2.0e-3']))} : f32", "f32"
        )[0]
        into = f"outs({target.name} : {target.type}) -> {target.type}"
        text = f"repro.scatter add ins({update.name}, {rows.name} : {update.type}, {rows.type}) {into}"
        return self.b.op(text, target.shape, "f32")

    def convolution(self) -> Value | None:
        """A value of rank 3, read as batch, channels, width, with a value of rank 3 or less as filters."""
        v, w = self.any(3), self.any(3)
        if v is None or w is None or v.shape is None or w.shape is None or v.shape[1] != w.shape[1]:
            return None
        stride = self.draw(st.sampled_from([1, 2]))
        if v.shape[2] < w.shape[2]:
            return None
        shape = (v.shape[0], w.shape[0], (v.shape[2] - w.shape[2]) // stride + 1)
        return self.b.fold(
            COLUMN,
            "ppprr",
            [(v, f"d0, d3, d2 * {stride} + d4"), (w, "d1, d3, d4")],
            [(self.constant("0.25", shape), "d0, d1, d2")],
            "%r0 = math.fma %x0, %x1, %a0 : f32",
        )[0]

    def two_results(self) -> Value | None:
        """Two results of one generic, of which one may stay unused."""
        v = self.any()
        assert v is not None and v.shape is not None
        body = "%r0 = math.absf %x0 : f32\n    %r1 = arith.mulf %r0, %x0 : f32"
        first, second = self.b.generic(v.shape, [(v, ", ".join(_dims(len(v.shape))))], body, "f32", "f32")
        self.values.append(first)
        return second

    def double(self) -> Value | None:
        """There and back through f64, where a product of two f32 is exact."""
        v = self.any()
        assert v is not None
        wide = self.b.elementwise(
            "%d = arith.extf %x0 : f32 to f64\n    %r0 = arith.mulf %d, %d : f64", v, element="f64"
        )
        return self.b.elementwise(
            "%s = math.sqrt %x0 : f64\n    %r0 = arith.truncf %s : f64 to f32", wide, element="f32"
        )


@st.composite
def programs(draw: st.DrawFn) -> Case:
    """Programs of up to a dozen operations that return whatever nothing else uses, and some values besides."""
    maker = _Maker(draw)
    steps = [maker.unary, maker.binary, maker.binary, maker.reduce, maker.matmul, maker.transpose, maker.move]
    steps += [maker.gather, maker.narrow, maker.structured, maker.convolution, maker.two_results, maker.double]
    for step in draw(st.lists(st.sampled_from(steps), min_size=2, max_size=12)):
        value = step()
        if value is not None:
            maker.values.append(value)
    made = maker.values[len(maker.arguments) :]
    # Each state becomes any value of its shape: computed, another state, or itself.
    states = draw(st.integers(0, len(maker.arguments)))
    renewed = [
        draw(st.sampled_from([w for w in maker.values[::-1] if w.shape == v.shape])) for v in maker.arguments[:states]
    ]
    results = made[-3:] + draw(st.lists(st.sampled_from(maker.values), min_size=not made, max_size=2))
    results = renewed + results
    seed = draw(st.integers(0, 2**16))
    make = draw(st.sampled_from([values.random, values.random, values.mixed]))
    arrays = tuple(make("f32", v.shape or (), seed + i) for i, v in enumerate(maker.arguments))
    return Case("random", maker.b.program(*results, states=states), arrays)
