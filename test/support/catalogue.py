# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Small canonical programs that cover every operation, order and element type, with ragged extents and special
values."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from support import accumulated, imported
from support import inputs as values
from support.builder import ANY, COLUMN, ROW, SEQUENTIAL, Builder, Value, order, tensor
from support.convolutions import general


@dataclass(frozen=True)
class Case:
    """A program and its inputs."""

    name: str
    program: str
    inputs: tuple[np.ndarray, ...]


FLOATS = ("f32", "f64", "bf16", "f16", "f8E4M3FN", "f8E5M2")
INTEGERS = ("i1", "i8", "i16", "i32", "i64")
FUNCTIONS = (
    "acos acosh asin asinh atan atanh cbrt cos cosh erf erfc exp exp10 exp2 expm1 log log10 log1p log2 rsqrt sin sinh "
    "tan tanh"
).split()


def width(element: str) -> int:
    """Returns the bit width of an element type."""
    return {"bf16": 16, "f8E4M3FN": 8, "f8E5M2": 8}.get(element) or int(element[1:])


# Element-wise operations ----------------------------------------------------------------------------------------------


def _together(name: str, operands: Sequence[tuple[str, np.ndarray]], bodies: Sequence[tuple[str, str]]) -> Case:
    """Returns a program with one generic for each pair of a body and its result's element type. All generics have the
    same one-dimensional operands."""
    b = Builder()
    arguments = [b.argument(array.shape, element) for element, array in operands]
    results = [b.elementwise(body, *arguments, element=element) for body, element in bodies]
    return Case(name, b.program(*results), tuple(array for _, array in operands))


def _longer(element: str, seed: int) -> np.ndarray:
    """Returns special values followed by arbitrary bits; the number of values is not a multiple of any vector width."""
    return np.concatenate([values.special(element), values.mixed(element, (1000 + 37,), seed)])


def _crossed(element: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = values.pairs(element)
    return (
        np.concatenate([first, values.mixed(element, (531,), seed)]),
        np.concatenate([second, values.mixed(element, (531,), seed + 1)]),
    )


def float_operations() -> Iterator[Case]:
    """Yields element-wise float operations."""
    unary = [f"math.{op} %x0" for op in ("sqrt", "absf", "floor", "ceil", "trunc", "roundeven", "round")]
    unary.append("arith.negf %x0")
    binary = [f"arith.{op} %x0, %x1" for op in ("addf", "subf", "mulf", "divf", "remf", "maximumf", "minimumf")]
    binary.append("math.copysign %x0, %x1")
    for t in FLOATS:
        x = _longer(t, 1)
        yield _together(f"unary-{t}", [(t, x)], [(f"%r0 = {op} : {t}", t) for op in unary])
        pair = list(zip((t, t), _crossed(t, 2), strict=True))
        yield _together(f"binary-{t}", pair, [(f"%r0 = {op} : {t}", t) for op in binary])
        predicates = "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split()
        yield _together(f"cmpf-{t}", pair, [(f"%r0 = arith.cmpf {p}, %x0, %x1 : {t}", "i1") for p in predicates])
        chosen = f"%c = arith.cmpf olt, %x0, %x1 : {t}\n%r0 = arith.select %c, %x0, %x1 : {t}"
        yield _together(f"select-{t}", pair, [(chosen, t)])
        third = np.roll(pair[0][1], 7)
        yield _together(f"fma-{t}", [*pair, (t, third)], [(f"%r0 = math.fma %x0, %x1, %x2 : {t}", t)])


def _function(name: str, element: str) -> Case:
    # Large, tiny and ordinary arguments reach different branches of the functions.
    ordinary = [values.random(element, (1000,), seed, span) for seed, span in ((1, 1), (2, 4), (3, 7))]
    x = np.concatenate([_longer(element, 4), *ordinary])
    return _together(f"{name}-{element}", [(element, x)], [(f"%r0 = repro.{name} %x0 : {element}", element)])


def _integer_powers(t: str) -> Iterator[Case]:
    for n in ("i32", "i64"):
        bases = np.concatenate([values.special(t), values.random(t, (200,), 10, 2)])
        exponents = np.array([0, 1, -1, 2, -2, 3, 5, 10, 31, 32, -17, 127, 2**31 - 1, -(2**31)], values.dtype(n))
        i, j = (v.reshape(-1) for v in np.meshgrid(np.arange(len(bases)), np.arange(len(exponents))))
        pair = [(t, bases[i]), (n, exponents[j])]
        yield _together(f"powi-{t}-{n}", pair, [(f"%r0 = repro.powi %x0, %x1 : {t}, {n}", t)])


#: The only function that is compiled for f64, because compiling a function takes seconds. test_stages.py expands the
# other functions without compiling them.
_COMPILED_DOUBLE = "sin"


def double_functions() -> Iterator[Case]:
    """Yields programs of the f64 functions except `_COMPILED_DOUBLE`."""
    for f in FUNCTIONS:
        if f != _COMPILED_DOUBLE:
            yield _function(f, "f64")
    yield from _integer_powers("f64")


def float_functions() -> Iterator[Case]:
    """Yields programs of the functions for all float types; `double_functions` yields most of those for f64."""
    for t in FLOATS:
        for f in [_COMPILED_DOUBLE] if t == "f64" else FUNCTIONS:
            yield _function(f, t)
        if t == "f64":
            continue
        for f in ("atan2", "hypot", "pow"):
            a, c = _crossed(t, 5)
            a = np.concatenate([a, *(values.random(t, (500,), seed, 2) for seed in (6, 7))])
            c = np.concatenate([c, *(values.random(t, (500,), seed, 4) for seed in (8, 9))])
            yield _together(f"{f}-{t}", [(t, a), (t, c)], [(f"%r0 = repro.{f} %x0, %x1 : {t}", t)])
        yield from _integer_powers(t)


def integer_operations() -> Iterator[Case]:
    """Yields element-wise integer operations."""
    wrapping = "addi subi muli andi ori xori maxsi minsi maxui minui".split()
    division = "divsi divui remsi remui".split()
    shifts = "shli shrsi shrui".split()
    predicates = "eq ne slt sle sgt sge ult ule ugt uge".split()
    for t in INTEGERS:
        pair = list(zip((t, t), _crossed(t, 11), strict=True))
        for name, ops in (("wrapping", wrapping), ("division", division), ("shift", shifts)):
            yield _together(f"{name}-{t}", pair, [(f"%r0 = arith.{op} %x0, %x1 : {t}", t) for op in ops])
        yield _together(f"cmpi-{t}", pair, [(f"%r0 = arith.cmpi {p}, %x0, %x1 : {t}", "i1") for p in predicates])
        counts = [(f"%r0 = math.{op} %x0 : {t}", t) for op in ("absi", "ctlz", "cttz", "ctpop")]
        yield _together(f"bits-{t}", pair[:1], counts)
        if t != "i1":
            wide = [(f"%low, %r0 = arith.{op} %x0, %x1 : {t}", t) for op in ("mulsi_extended", "mului_extended")]
            wide.append((f"%low, %r0 = arith.addui_extended %x0, %x1 : {t}, i1", "i1"))
            yield _together(f"extended-{t}", pair, wide)


def conversions() -> Iterator[Case]:
    """Yields conversions between element types."""
    for t in FLOATS:
        x = _longer(t, 12)
        for u in FLOATS:
            if width(u) != width(t):
                cast = "extf" if width(u) > width(t) else "truncf"
                yield _together(f"{cast}-{t}-{u}", [(t, x)], [(f"%r0 = arith.{cast} %x0 : {t} to {u}", u)])
        bodies = [(f"%r0 = arith.{op} %x0 : {t} to {n}", n) for op in ("fptosi", "fptoui") for n in INTEGERS]
        yield _together(f"integer-from-{t}", [(t, x)], bodies)
    for n in INTEGERS:
        x = np.concatenate([values.special(n), values.mixed(n, (517,), 13)])
        for t in FLOATS:
            bodies = [(f"%r0 = arith.{op} %x0 : {n} to {t}", t) for op in ("sitofp", "uitofp")]
            yield _together(f"{t}-from-{n}", [(n, x)], bodies)
        bodies = []
        for m in INTEGERS:
            if width(m) > width(n):
                bodies += [(f"%r0 = arith.{op} %x0 : {n} to {m}", m) for op in ("extsi", "extui")]
            elif width(m) < width(n):
                bodies.append((f"%r0 = arith.trunci %x0 : {n} to {m}", m))
        for cast in ("index_cast", "index_castui"):
            there_and_back = f"%i = arith.{cast} %x0 : {n} to index\n%r0 = arith.index_cast %i : index to i64"
            bodies.append((there_and_back, "i64"))
        yield _together(f"integer-from-{n}", [(n, x)], bodies)
    x = np.concatenate([values.special("i64"), values.mixed("i64", (517,), 16)])
    bodies = []
    for n, cast in itertools.product(("i1", "i8", "i16", "i32"), ("index_cast", "index_castui")):
        cut = f"%i = arith.index_cast %x0 : i64 to index\n%n = arith.index_cast %i : index to {n}\n"
        bodies.append((cut + f"%j = arith.{cast} %n : {n} to index\n%r0 = arith.index_cast %j : index to i64", "i64"))
    yield _together("index-through-integer", [("i64", x)], bodies)
    bodies = [
        (f"%f = arith.{cast} %x0 : i64 to f32\n%r0 = arith.truncf %f : f32 to {t}", t)
        for t, cast in itertools.product(("bf16", "f16", "f8E5M2"), ("sitofp", "uitofp"))
    ]
    ties = np.array([2**40 + 2**32 + 1, 2**62 + 2**54 + 1, 2**31 + 2**20 + 1, 2**11 + 1])
    yield _together("rounded-twice", [("i64", np.concatenate([ties, -ties, x]))], bodies)
    for t, n in (("f64", "i64"), ("f32", "i32"), ("f16", "i16"), ("bf16", "i16"), ("f8E4M3FN", "i8"), ("f8E5M2", "i8")):
        # A canonical program reads the bits of a float only through this select, which makes a NaN canonical (V4).
        literal = {"f64": 0x7FF8000000000000, "f32": 0x7FC00000, "f16": 0x7E00, "bf16": 0x7FC0}
        canonical = literal.get(t, 0x7F if t == "f8E4M3FN" else 0x7E)
        body = (
            f"%n = arith.cmpf uno, %x0, %x0 : {t}\n%b = arith.bitcast %x0 : {t} to {n}\n"
            f"%k = arith.constant {canonical} : {n}\n%r0 = arith.select %n, %k, %b : {n}"
        )
        yield _together(f"bits-of-{t}", [(t, _longer(t, 14))], [(body, n)])
        bits = np.concatenate([values.special(n), values.mixed(n, (517,), 15)])
        yield _together(f"{t}-of-bits", [(n, bits)], [(f"%r0 = arith.bitcast %x0 : {n} to {t}", t)])


# The structure of generics ------------------------------------------------------------------------------------------


def generics() -> Iterator[Case]:
    """Yields generics with various shapes, maps and bodies."""
    for shape in ((), (1,), (3,), (17,), (65,), (1000,), (5, 7), (3, 1, 4), (2, 3, 4, 5), (0,), (4, 0)):
        b = Builder()
        x, y = b.argument(shape, "f32"), b.argument(shape, "f32")
        total = b.elementwise("%r0 = arith.addf %x0, %x1 : f32", x, y, element="f32")
        scaled = b.elementwise("%r0 = arith.mulf %x0, %x1 : f32", total, y, element="f32")
        name = "x".join(map(str, shape)) or "scalar"
        operands = tuple(values.random("f32", shape, seed) for seed in (1, 2))
        yield Case(f"generic-{name}", b.program(total, scaled), operands)

    b = Builder()
    x, row, column = b.argument((5, 33), "f32"), b.argument((33,), "f32"), b.argument((5, 1), "f32")
    one = b.argument((), "f32")
    body = "%s = arith.addf %x0, %x1 : f32\n%p = arith.mulf %s, %x2 : f32\n%r0 = arith.subf %p, %x3 : f32"
    spread = b.generic((5, 33), [(x, "d0, d1"), (row, "d1"), (column, "d0, 0"), (one, "")], body, "f32")[0]
    turned = b.generic((33, 5), [(spread, "d1, d0")], "%r0 = arith.negf %x0 : f32", "f32")[0]
    back = b.generic((5, 33), [(turned, "d0, d1")], "%r0 = math.absf %x0 : f32", "f32", output="d1, d0", dims=(33, 5))[
        0
    ]
    yield Case(
        "generic-broadcast-transpose",
        b.program(spread, turned, back),
        tuple(values.random("f32", s, i) for i, s in enumerate(((5, 33), (33,), (5, 1), ()))),
    )

    b = Builder()
    x = b.argument((6, 9), "f32")
    body = (
        "%i = linalg.index 0 : index\n%j = linalg.index 1 : index\n%c = arith.cmpi ule, %j, %i : index\n"
        "%z = arith.constant 0xFF800000 : f32\n%r0 = arith.select %c, %x0, %z : f32\n"
        "%k = arith.muli %i, %j : index\n%r1 = arith.index_cast %k : index to i64"
    )
    masked, products = b.generic((6, 9), [(x, "d0, d1")], body, "f32", "i64")
    yield Case("generic-two-results-index", b.program(masked, products), (values.random("f32", (6, 9), 3),))

    b = Builder()
    x, shift = b.argument((8,), "f32"), b.argument((), "f32")
    body = "%r0 = arith.addf %x0, %o0 : f32"
    init = b.generic((8,), [(shift, "")], "%r0 = arith.negf %x0 : f32", "f32")[0]
    text = (
        "linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = "
        f'["parallel"]}} ins({x.name} : {x.type}) outs({init.name} : {init.type}) {{\n  ^bb0(%x0: f32, %o0: f32):\n'
        f"    {body}\n    linalg.yield %r0 : f32\n  }} -> {init.type}"
    )
    yield Case(
        "generic-reads-init", b.program(b.op(text, (8,), "f32")), tuple(values.random("f32", s, 4) for s in ((8,), ()))
    )

    for indices, name in ((np.array([3, 0, 9, 9, 1]), "inside"), (np.array([3, 0, 10, 9, 1]), "outside")):
        b = Builder()
        table, rows = b.argument((10, 4), "f32"), b.argument((5,), "i64")
        body = (
            "%i = arith.index_cast %x0 : i64 to index\n%j = linalg.index 1 : index\n"
            f"%r0 = tensor.extract {table.name}[%i, %j] : {table.type}"
        )
        picked = b.generic((5, 4), [(rows, "d0")], body, "f32")[0]
        yield Case(f"gather-{name}", b.program(picked), (values.random("f32", (10, 4), 5), indices))
    b = Builder()
    x = b.argument((5,), "f32")
    body = "%t = arith.constant -1000000 : i32\n%r0 = arith.sitofp %t : i32 to f8E4M3FN"
    beyond = b.generic((5,), [(x, "d0")], body, "f8E4M3FN")[0]
    yield Case("integer-beyond-E4M3FN", b.program(beyond), (np.zeros(5, np.float32),))
    for element in ("bf16", "f16", "f8E4M3FN"):
        b = Builder()
        x, table = b.argument((8, 8, 65, 3), "f32"), b.argument((2, 8, 8, 2), element)
        init = b.argument((8, 4), "f32")
        body = (
            "%n = arith.fptosi %x0 : f32 to i64\n%i = arith.index_castui %n : i64 to index\n"
            "%zero = arith.constant 0 : index\n%two = arith.constant 2 : index\n%eight = arith.constant 8 : index\n"
            "%j = arith.remui %i, %two : index\n%k = arith.remui %i, %eight : index\n"
            f"%e = tensor.extract {table.name}[%j, %k, %two, %zero] : {table.type}\n"
            f"%m = arith.fptosi %e : {element} to i64\n%f = arith.uitofp %m : i64 to f32\n"
            f"%w = arith.extf %e : {element} to f32\n%r0 = math.fma %f, %w, %a0 : f32"
        )
        order = "#repro.order<chunk = 64, lanes = 4, run = 1, totals = refold>"
        total = b.fold(order, "ppr", [(x, "d0, d0, d0 * 2 + d1 + 20, d2")], [(init, "d0, d1")], body)[0]
        types = ("f32", x.shape), (element, table.shape), ("f32", init.shape)
        yield Case(f"gather-{element}", b.program(total), tuple(values.random(*t, 5 + n) for n, t in enumerate(types)))


# Movement -------------------------------------------------------------------------------------------------------------


def movements() -> Iterator[Case]:
    """Yields operations that move elements."""
    for t in ("f32", "f64", "bf16", "i8", "i1", "i64"):
        x = values.mixed(t, (4, 6), 1)

        def one(name: str, write: Callable[[Builder, Value], Sequence[Value]], t: str = t, x: np.ndarray = x) -> Case:
            b = Builder()
            return Case(f"{name}-{t}", b.program(*write(b, b.argument((4, 6), t))), (x,))

        zero = {"i1": "true"}.get(t, "7.0" if t[0] in "fb" else "7")
        yield one(
            "slice",
            lambda b, v: [
                b.slice(v, [1, 0], [2, 3], [2, 2]),
                b.slice(v, [2, 0], [1, 6], shape=(6,)),
                b.slice(v, [0, 2], [4, 0]),
            ],
        )

        def insert(b: Builder, v: Value) -> list[Value]:
            part, row = b.slice(v, [1, 0], [2, 3], [2, 2]), b.slice(v, [3, 0], [1, 6], shape=(6,))
            return [b.insert(part, v, [0, 1], [2, 3], [3, 2]), b.insert(row, v, [0, 0], [1, 6])]

        yield one("insert", insert)
        yield one(
            "reshape",
            lambda b, v, t=t: [
                b.reshape("expand", v, "[[0, 1], [2, 3]]", (2, 2, 3, 2)),
                b.reshape("collapse", v, "[[0, 1]]", (24,)),
                b.op(f"tensor.cast {v.name} : {v.type} to {v.type}", (4, 6), t),
            ],
        )

        def pad(b: Builder, v: Value, t: str = t, zero: str = zero) -> list[Value]:
            fill = b.constant(zero, None, t)
            return [b.pad(v, low, high, fill) for low, high in (([1, 2], [0, 3]), ([0, 0], [0, 0]), ([0, 0], [2, 0]))]

        yield one("pad", pad)
        yield one("concat", lambda b, v: [b.concat(dim, v, v, v) for dim in (0, 1)])

        def barrier(b: Builder, v: Value, t: str = t) -> list[Value]:
            """(V5) Returns the result of a barrier, a slice of the result, and a slice of the barrier's operand, which
            is thus read after the barrier."""
            again = b.op(f"repro.barrier {v.name} : {v.type}", v.shape, t)
            return [again, *(b.slice(x, [1, 2], [3, 4]) for x in (v, again))]

        yield one("barrier", barrier)

        def scalars(b: Builder, v: Value, t: str = t, zero: str = zero) -> list[Value]:
            element = b.extract(v, *(b.constant(str(i), None, "index") for i in (3, 5)))
            other = b.constant(zero, None, t)
            return [
                b.from_elements((2,), element, other),
                b.splat(element, (3, 5)),
                b.constant(f"dense<{zero}>", (2, 3), t),
            ]

        yield one("scalars", scalars)


# Folds ----------------------------------------------------------------------------------------------------------------


def _extended(t: str, wide: str, name: str) -> tuple[str, str]:
    """Returns operations that convert %name exactly to the accumulator's type `wide`, and the name of the converted
    value."""
    return ("", f"%{name}") if t == wide else (f"%{name}w = arith.extf %{name} : {t} to {wide}\n    ", f"%{name}w")


def _contraction(
    name: str,
    ordering: str,
    iterators: str,
    shapes: Sequence[tuple[Sequence[int], str]],
    t: str = "f32",
    prologue: str = "",
) -> Case:
    """Returns a contraction acc = fma(x0, x1, acc). `shapes` are the shapes of x, y and the initial operand with the
    results of their maps; `prologue` may define %p, to be used instead of %x0."""
    b = Builder()
    x, y, init = (b.argument(shape, t) for shape, _ in shapes)
    wide = "f64" if t == "f64" else "f32"
    (xe, xn), (ye, yn) = _extended(t, wide, "x0"), _extended(t, wide, "x1")
    if prologue:
        xe, xn = prologue + "\n    ", "%p"
    body = f"{xe}{ye}%r0 = math.fma {xn}, {yn}, %a0 : {wide}"
    (x_map, y_map, out_map) = (results for _, results in shapes)
    result = b.fold(ordering, iterators, [(x, x_map), (y, y_map)], [(init, out_map)], body, [wide])
    arrays = tuple(values.random(t, shape, seed) for seed, (shape, _) in enumerate(shapes))
    return Case(name, b.program(*result), arrays)


def contractions() -> Iterator[Case]:
    """Yields contractions in every order of sums, with many shapes and layouts."""
    sizes = [(1, 1, 1), (2, 3, 0), (3, 5, 1), (7, 9, 31), (8, 32, 64), (17, 33, 511), (5, 19, 512), (4, 70, 513)]
    sizes += [(33, 17, 1300), (64, 64, 64), (65, 129, 40), (1, 200, 100), (200, 1, 100), (130, 257, 96)]
    for m, n, k in sizes:
        shapes = [((m, k), "d0, d2"), ((k, n), "d2, d1"), ((m, n), "d0, d1")]
        yield _contraction(f"matmul-{m}x{n}x{k}", COLUMN, "ppr", shapes)
    m, n, k = 37, 21, 530
    layouts = {
        "nt": [((m, k), "d0, d2"), ((n, k), "d1, d2"), ((m, n), "d0, d1")],
        "tn": [((k, m), "d2, d0"), ((k, n), "d2, d1"), ((m, n), "d0, d1")],
        "tt": [((k, m), "d2, d0"), ((n, k), "d1, d2"), ((m, n), "d0, d1")],
        "out-turned": [((m, k), "d0, d2"), ((k, n), "d2, d1"), ((n, m), "d1, d0")],
    }
    for name, shapes in layouts.items():
        yield _contraction(f"matmul-{name}", COLUMN, "ppr", shapes)
    for t in ("f64", "bf16", "f16", "f8E4M3FN", "f8E5M2"):
        for k in (0, 5, 600):
            shapes = [((9, k), "d0, d2"), ((k, 18), "d2, d1"), ((9, 18), "d0, d1")]
            yield _contraction(f"matmul-{t}-{k}", COLUMN, "ppr", shapes, t)
    for name, iterators, shapes in (
        ("batch", "pppr", [((3, 6, 40), "d0, d1, d3"), ((3, 40, 18), "d0, d3, d2"), ((3, 6, 18), "d0, d1, d2")]),
        ("heads", "pppr", [((5, 3, 16), "d1, d0, d3"), ((7, 3, 16), "d2, d0, d3"), ((3, 5, 7), "d0, d1, d2")]),
        ("matvec", "pr", [((45, 70), "d0, d1"), ((70,), "d1"), ((45,), "d0")]),
        ("vecmat", "pr", [((70,), "d1"), ((70, 45), "d1, d0"), ((45,), "d0")]),
        ("dot", "r", [((1030,), "d0"), ((1030,), "d0"), ((), "")]),
        ("outer", "pp", [((13,), "d0"), ((29,), "d1"), ((13, 29), "d0, d1")]),
        ("two-reductions", "prpr", [((6, 5, 30), "d0, d1, d3"), ((5, 30, 9), "d1, d3, d2"), ((6, 9), "d0, d2")]),
    ):
        if "r" in iterators:
            yield _contraction(f"contraction-{name}", COLUMN, iterators, shapes)
    prologue = "%zero = arith.constant 0.0 : f32\n    %q = arith.maximumf %x0, %zero : f32\n    %p = repro.exp %q : f32"
    shapes = [((20, 70), "d0, d2"), ((70, 33), "d2, d1"), ((20, 33), "d0, d1")]
    yield _contraction("matmul-prologue", COLUMN, "ppr", shapes, prologue=prologue)
    for chunk, lanes, run, totals in ((7, 1, 0, "sequential"), (512, 8, 0, "sequential"), (16, 4, 1, "refold")):
        yield _contraction(
            f"matmul-chunk{chunk}-lanes{lanes}-{totals}", order(chunk, lanes, run, totals), "ppr", shapes
        )


def _stride_phases() -> Case:
    """(K2) Returns the input gradient of a 3x3 convolution with stride 2 and padding 1: four convolutions with flipped
    kernels, whose results are interleaved."""
    b = Builder()
    (n, c, h, w), o = (2, 19, 9, 7), 21
    gradient, weight = b.argument((n, c, h, w), "f32"), b.argument((c, o, 3, 3), "f32")
    zero = b.constant("0.0", None, "f32")
    padded = b.pad(gradient, [0, 0, 0, 0], [0, 0, 1, 1], zero)

    def phase(row: int, column: int) -> Value:
        """Returns the results for one residue (0 or 1) of rows and of columns modulo 2. For residue 0, only the
        kernel's middle tap contributes; for residue 1, the outer taps do, in descending order."""
        y, x = 1 + row, 1 + column
        taps = b.slice(weight, [0, 0, 1 - row, 1 - column], (c, o, y, x), [1, 1, 2, 2])
        body = (
            "%o = linalg.index 0 : index\n%c = linalg.index 1 : index\n%y = linalg.index 2 : index\n"
            f"%x = linalg.index 3 : index\n%ly = arith.constant {y - 1} : index\n%lx = arith.constant {x - 1} : index\n"
            "%fy = arith.subi %ly, %y : index\n%fx = arith.subi %lx, %x : index\n"
            f"%r0 = tensor.extract {taps.name}[%c, %o, %fy, %fx] : {taps.type}"
        )
        (flipped,) = b.generic((o, c, y, x), [], body, "f32")
        image = b.slice(padded, [0, 0, 0, 0], (n, c, h + row, w + column))
        init = b.constant("dense<0.0>", (n, o, h, w), "f32")
        inputs = [(image, "d0, d4, d2 + d5, d3 + d6"), (flipped, "d1, d4, d5, d6")]
        body = "%r0 = math.fma %x0, %x1, %a0 : f32"
        return b.fold(COLUMN, "pppprrr", inputs, [(init, "d0, d1, d2, d3")], body)[0]

    rows = []
    for row in range(2):
        inner = "[[0], [1], [2], [3, 4]]"
        parts = [b.reshape("expand", phase(row, column), inner, (n, o, h, w, 1)) for column in range(2)]
        rows.append(b.reshape("collapse", b.concat(4, *parts), inner, (n, o, h, 2 * w)))
    both = b.reshape("expand", b.concat(3, *rows), "[[0], [1], [2], [3, 4]]", (n, o, h, 2, 2 * w))
    result = b.reshape("collapse", both, "[[0], [1], [2, 3], [4]]", (n, o, 2 * h, 2 * w))
    arrays = (values.random("f32", gradient.shape, 0), values.random("f32", weight.shape, 1))
    return Case("conv-stride-phases", b.program(result), arrays)


def convolutions() -> Iterator[Case]:
    """Yields convolutions written as folds."""
    yield _stride_phases()
    for name, n, c, h, w, o, k, stride, dilation in (
        ("plain", 2, 3, 8, 9, 4, 3, 1, 1),
        ("stride", 2, 3, 11, 13, 5, 3, 2, 1),
        ("dilated", 1, 2, 12, 12, 3, 3, 1, 2),
        ("deep", 1, 70, 7, 9, 17, 3, 1, 1),
        ("pointwise", 2, 20, 5, 5, 33, 1, 1, 1),
    ):
        oh, ow = ((e - dilation * (k - 1) - 1) // stride + 1 for e in (h, w))
        window = f"d0, d4, d2 * {stride} + d5 * {dilation}, d3 * {stride} + d6 * {dilation}"
        shapes = [((n, c, h, w), window), ((o, c, k, k), "d1, d4, d5, d6"), ((n, o, oh, ow), "d0, d1, d2, d3")]
        yield _contraction(f"conv-{name}", COLUMN, "pppprrr", shapes)
    # A grouped convolution. The dimensions d0, d1, ... are n, g, o, y, x, c, i, j.
    shapes = [
        ((2, 2, 3, 6, 6), "d0, d1, d5, d3 + d6, d4 + d7"),
        ((2, 4, 3, 3, 3), "d1, d2, d5, d6, d7"),
        ((2, 2, 4, 4, 4), "d0, d1, d2, d3, d4"),
    ]
    yield _contraction("conv-grouped", COLUMN, "ppppprrr", shapes)
    # A depthwise convolution: n, c, y, x, i, j.
    shapes = [
        ((2, 5, 7, 7), "d0, d1, d2 + d4, d3 + d5"),
        ((5, 3, 3), "d1, d4, d5"),
        ((2, 5, 5, 5), "d0, d1, d2, d3"),
    ]
    yield _contraction("conv-depthwise", COLUMN, "pppprr", shapes)
    # The gradient of a convolution's weight: o, c, i, j, n, y, x.
    shapes = [
        ((9, 3, 10, 10), "d4, d1, d5 + d2, d6 + d3"),
        ((9, 4, 8, 8), "d4, d0, d5, d6"),
        ((4, 3, 3, 3), "d0, d1, d2, d3"),
    ]
    yield _contraction("conv-weight-gradient", COLUMN, "pppprrr", shapes)
    # A one-dimensional convolution: n, o, x, c, i.
    shapes = [((2, 4, 30), "d0, d3, d2 * 3 + d4"), ((6, 4, 5), "d1, d3, d4"), ((2, 6, 9), "d0, d1, d2")]
    yield _contraction("conv-1d", COLUMN, "ppprr", shapes)


def slices_of_one() -> Iterator[Case]:
    """Yields slices in which several dimensions have extent 1, and some of these are dropped. A dimension of extent 1
    may have any stride, because the stride is not used."""
    for shape, offsets, sizes, strides, kept in (
        ((30, 2, 1, 1, 3), (7, 0, 0, 0, 1), (13, 2, 1, 1, 1), (1, 1, 1, 2, 3), (0, 1, 2, 3)),
        ((4, 1, 1, 3, 1), (1, 0, 0, 0, 0), (1, 1, 1, 2, 1), (3, 2, 5, 2, 7), (1, 3, 4)),
        ((4, 3, 3, 3), (1, 2, 0, 1), (1, 1, 1, 1), (3, 2, 5, 2), (2,)),
        ((4, 1, 3, 3), (1, 0, 2, 0), (1, 1, 0, 2), (3, 2, 5, 2), (0, 2, 3)),
    ):
        b = Builder()
        part_shape = tuple(sizes[d] for d in kept)
        v, u = b.argument(shape, "f32"), b.argument(part_shape, "f32")
        part = b.slice(v, offsets, sizes, strides, part_shape)
        whole = b.insert(u, v, offsets, sizes, strides)
        twice = b.elementwise("%r0 = arith.addf %x0, %x0 : f32", part, element="f32")
        arrays = values.random("f32", shape, 1), values.random("f32", part_shape, 2)
        yield Case("x".join(map(str, sizes)), b.program(part, whole, twice), arrays)


def exact_contractions() -> Iterator[Case]:
    """(K4) Yields exact contractions."""
    for digits in (2, 3):
        ordering = f"#repro.exact<digits = {digits}>"
        for m, n, k in ((1, 1, 1), (2, 3, 0), (7, 9, 31), (17, 33, 511), (65, 40, 1300)):
            shapes = [((m, k), "d0, d2"), ((k, n), "d2, d1"), ((m, n), "d0, d1")]
            yield _contraction(f"exact{digits}-{m}x{n}x{k}", ordering, "ppr", shapes)
        for t in ("bf16", "f16", "f8E4M3FN", "f8E5M2"):
            shapes = [((9, 60), "d0, d2"), ((18, 60), "d1, d2"), ((18, 9), "d1, d0")]
            yield _contraction(f"exact{digits}-{t}", ordering, "ppr", shapes, t)
        for name, iterators, shapes in (
            ("heads", "pppr", [((5, 3, 16), "d1, d0, d3"), ((7, 3, 16), "d2, d0, d3"), ((3, 5, 7), "d0, d1, d2")]),
            ("dot", "r", [((1030,), "d0"), ((1030,), "d0"), ((), "")]),
            ("outer", "pp", [((13,), "d0"), ((29,), "d1"), ((13, 29), "d0, d1")]),
            ("two-reductions", "prpr", [((6, 5, 30), "d0, d1, d3"), ((5, 30, 9), "d1, d3, d2"), ((6, 9), "d0, d2")]),
            (
                "conv",
                "pppprrr",
                [
                    ((2, 5, 11, 13), "d0, d4, d2 * 2 + d5, d3 * 2 + d6"),
                    ((4, 5, 3, 3), "d1, d4, d5, d6"),
                    ((2, 4, 5, 6), "d0, d1, d2, d3"),
                ],
            ),
        ):
            yield _contraction(f"exact{digits}-{name}", ordering, iterators, shapes)
        # A dimension of extent 0: the body never runs, so an access may be out of bounds, and a result may be empty.
        shapes = [((5, 0), "d0, d1"), ((4, 3), "-1, 2"), ((0,), "d1")]
        yield _contraction(f"exact{digits}-without-results", ordering, "rp", shapes)
        # Rows and columns of infinities, NaNs, zeros and subnormals among ordinary numbers.
        x, y = values.mixed("f32", (24, 70), 31), values.mixed("f32", (70, 20), 32)
        x[::3] = values.random("f32", x[::3].shape, 33, 2)
        y[:, ::3] = values.random("f32", y[:, ::3].shape, 34, 2)
        x[5], y[:, 7] = -0.0, 0.0
        x[6], y[:, 9] = 1e-45, -3e-42
        b = Builder()
        p, q, init = b.argument(x.shape, "f32"), b.argument(y.shape, "f32"), b.argument((24, 20), "f32")
        step = "%r0 = math.fma %x0, %x1, %a0 : f32"
        result = b.fold(ordering, "ppr", [(p, "d0, d2"), (q, "d2, d1")], [(init, "d0, d1")], step)
        yield Case(f"exact{digits}-special", b.program(*result), (x, y, np.full((24, 20), -0.0, np.float32)))


def accumulated_contractions() -> Iterator[Case]:
    """(M4) Yields contractions that use matrix-unit accumulators."""
    for name, product, operands in accumulated.products():
        yield Case(f"accumulated-{name}", product.program(), operands)


def _reduction(
    name: str,
    ordering: str,
    shape: Sequence[int],
    reduced: Sequence[int],
    body: str,
    t: str = "f32",
    wide: str | None = None,
    array: np.ndarray | None = None,
    init: np.ndarray | None = None,
) -> Case:
    """Returns a fold of one tensor over the dimensions `reduced`."""
    b = Builder()
    kept = [d for d in range(len(shape)) if d not in reduced]
    result_shape = tuple(shape[d] for d in kept)
    x, start = b.argument(shape, t), b.argument(result_shape, t)
    iterators = "".join("r" if d in reduced else "p" for d in range(len(shape)))
    maps = ", ".join(f"d{d}" for d in range(len(shape))), ", ".join(f"d{d}" for d in kept)
    extend, xn = _extended(t, wide or t, "x0")
    body = extend + body.replace("%x0", xn)
    result = b.fold(ordering, iterators, [(x, maps[0])], [(start, maps[1])], body, [wide or t])
    arrays = (
        values.random(t, shape, 1) if array is None else array,
        values.random(t, result_shape, 2) if init is None else init,
    )
    return Case(name, b.program(*result), arrays)


def reductions() -> Iterator[Case]:
    """Yields reductions with fixed orders."""
    add = "%r0 = arith.addf %x0, %a0 : f32"
    square = "%q = arith.mulf %x0, %x0 : f32\n    %r0 = arith.addf %a0, %q : f32"
    mul = "%r0 = arith.mulf %x0, %a0 : f32"
    for n in (0, 1, 2, 3, 31, 63, 64, 65, 100, 127, 128, 129, 1000, 8191, 8192, 8193, 20000):
        rows = 1 if n > 8000 else 5
        yield _reduction(f"row-sum-{rows}x{n}", ROW.format(run=1), (rows, n), [1], add)
    for m, n in ((0, 3), (1, 5), (7, 1), (33, 17), (513, 7), (1500, 33), (512, 64), (1024, 130)):
        yield _reduction(f"column-sum-{m}x{n}", COLUMN, (m, n), [0], add)
    for shape in ((3, 5, 7), (9, 31, 77), (1, 1, 1), (40, 9, 70)):
        run = len(shape)
        yield _reduction(f"sum-of-all-{'x'.join(map(str, shape))}", ROW.format(run=run), shape, [0, 1, 2], square)
    # The sums of batch norm: the last two dimensions are adjacent in memory, and the vector size does not divide their
    # extent.
    for hw in (1, 7, 8, 9, 64, 65):
        yield _reduction(f"batch-norm-sum-{hw}", ROW.format(run=2), (6, 3, hw, 8), [0, 2, 3], add)
        yield _reduction(f"channels-last-sum-{hw}", COLUMN, (6, 8, hw, 3), [0, 1, 2], add)
    yield _reduction("middle-sum", COLUMN, (4, 70, 6), [1], add)
    yield _reduction("outer-and-inner-sum", ROW.format(run=1), (20, 5, 30), [0, 2], add)
    yield _reduction("row-product", ROW.format(run=1), (5, 300), [1], mul, array=values.random("f32", (5, 300), 3, 0))
    yield _reduction("column-product", COLUMN, (600, 5), [0], mul, array=values.random("f32", (600, 5), 4, 0))
    for chunk, lanes, run, totals in itertools.product(
        (2, 7, 64, 100), (1, 2, 8, 64), (0, 1, 2), ("sequential", "refold")
    ):
        name = f"sum-chunk{chunk}-lanes{lanes}-run{run}-{totals}"
        yield _reduction(name, order(chunk, lanes, run, totals), (3, 7, 4, 5), [1, 2, 3], add)
    for t, wide in (("f64", "f64"), ("bf16", "f32"), ("f16", "f32"), ("f8E4M3FN", "f32"), ("f8E5M2", "f32")):
        body = f"%r0 = arith.addf %x0, %a0 : {wide}"
        yield _reduction(f"row-sum-{t}", ROW.format(run=1), (5, 300), [1], body, t, wide)
        yield _reduction(f"column-sum-{t}", COLUMN, (700, 5), [0], body, t, wide)
        yield _reduction(f"nothing-sum-{t}", COLUMN, (0, 5), [0], body, t, wide)
    # (F4) The total starts at +0 and the initial operand is added last: signed zeros, infinities and NaNs show this.
    zeros = np.full((4, 70), -0.0, np.float32)
    init = np.array([-0.0, 0.0, -0.0, 1.0], np.float32)
    for name, ordering in (("row", ROW.format(run=1)), ("chunked", order(8, 1)), ("lanes", order(8, 4))):
        yield _reduction(f"minus-zero-{name}", ordering, (4, 70), [1], add, array=zeros, init=init)
    wild = values.mixed("f32", (9, 200), 5)
    for name, ordering in (("row", ROW.format(run=1)), ("column", COLUMN)):
        yield _reduction(f"special-sum-{name}", ordering, (9, 200), [1], add, array=wild)


def any_order_folds() -> Iterator[Case]:
    """Yields folds in any order."""
    for t in FLOATS:
        for op in ("maximumf", "minimumf"):
            body = f"%r0 = arith.{op} %x0, %a0 : {t}"
            for shape, reduced in (((9, 130), [1]), ((130, 9), [0]), ((3, 0), [1]), ((33, 5, 7), [0, 1, 2])):
                array = values.mixed(t, shape, 6) if t in ("f32", "bf16") else values.random(t, shape, 6)
                name = f"{op}-{t}-{'x'.join(map(str, shape))}"
                yield _reduction(name, ANY, shape, reduced, body, t, array=array)
    zeros = np.where(np.random.default_rng(0).random((40, 90)) < 0.03, -0.0, 0.0).astype(np.float32)
    init = np.full(40, -0.0, np.float32)
    for op in ("maximumf", "minimumf"):
        body = f"%r0 = arith.{op} %x0, %a0 : f32"
        yield _reduction(f"{op}-signed-zeros", ANY, (40, 90), [1], body, array=zeros, init=init)
        yield _reduction(f"{op}-signed-zeros-negated", ANY, (40, 90), [1], body, array=-zeros, init=-init)
    for t in INTEGERS:
        for op in "addi muli andi ori xori maxsi minsi maxui minui".split():
            body = f"%r0 = arith.{op} %x0, %a0 : {t}"
            for shape, reduced in (((9, 130), [1]), ((130, 9), [0]), ((3, 0), [1])):
                name = f"{op}-{t}-{'x'.join(map(str, shape))}"
                yield _reduction(name, ANY, shape, reduced, body, t)
    # Adjacent elements in memory are along d0, the outer dimension of the fold.
    for shape in ((130, 9), (5, 70), (3, 1)):
        b = Builder()
        x, start = b.argument(shape, "f32"), b.argument((), "f32")
        result = b.fold(ANY, "rr", [(x, "d1, d0")], [(start, "")], "%r0 = arith.maximumf %x0, %a0 : f32")
        arrays = (values.mixed("f32", shape, 8), np.array(-1, np.float32))
        yield Case(f"maximumf-permuted-{shape[0]}x{shape[1]}", b.program(*result), arrays)
    # Bodies that return the accumulator unchanged; folds with such bodies must not be simplified away.
    for name, body in (
        ("zero", "%z = arith.xori %x0, %x0 : i16\n    %r0 = arith.addi %a0, %z : i16"),
        ("one", "%o = arith.constant 1 : i16\n    %r0 = arith.muli %a0, %o : i16"),
    ):
        yield _reduction(f"unchanged-by-{name}", ANY, (3, 7), [1], body, "i16")
    # Integer contraction and max pooling.
    for t in ("i32", "i64", "i8"):
        b = Builder()
        x, y, init = b.argument((7, 65), t), b.argument((65, 9), t), b.argument((7, 9), t)
        body = f"%p = arith.muli %x0, %x1 : {t}\n    %r0 = arith.addi %p, %a0 : {t}"
        result = b.fold(ANY, "ppr", [(x, "d0, d2"), (y, "d2, d1")], [(init, "d0, d1")], body)
        arrays = tuple(values.random(t, shape, i) for i, shape in enumerate(((7, 65), (65, 9), (7, 9))))
        yield Case(f"matmul-{t}", b.program(*result), arrays)
    for stride, size in ((1, 3), (2, 2), (2, 3)):
        h = 11
        out = (h - size) // stride + 1
        b = Builder()
        x, init = b.argument((2, 3, h, h), "f32"), b.argument((2, 3, out, out), "f32")
        window = b.empty((size, size), "f32")
        for name, ordering, op in (("max", ANY, "maximumf"), ("sum", COLUMN, "addf")):
            result = b.fold(
                ordering,
                "pppprr",
                [(x, f"d0, d1, d2 * {stride} + d4, d3 * {stride} + d5"), (window, "d4, d5")],
                [(init, "d0, d1, d2, d3")],
                f"%r0 = arith.{op} %x0, %a0 : f32",
            )
            arrays = values.random("f32", (2, 3, h, h), 7), np.full((2, 3, out, out), -np.inf, np.float32)
            yield Case(f"pool-{name}-{size}-stride{stride}", b.program(*result), arrays)


def sequential_folds() -> Iterator[Case]:
    """Yields sequential folds."""
    yield _reduction("decay", SEQUENTIAL, (5, 40), [1], "%h = arith.subf %a0, %x0 : f32\n    %r0 = math.absf %h : f32")
    b = Builder()
    x = b.argument((3, 70), "f32")
    best, at = b.argument((3,), "f32"), b.argument((3,), "i64")
    body = (
        "%c = arith.cmpf ogt, %x0, %a0 : f32\n    %t = repro.index 1 : index\n"
        "    %n = arith.index_cast %t : index to i64\n"
        "    %r0 = arith.select %c, %x0, %a0 : f32\n    %r1 = arith.select %c, %n, %a1 : i64"
    )
    results = b.fold(SEQUENTIAL, "pr", [(x, "d0, d1")], [(best, "d0"), (at, "d0")], body)
    arrays = values.random("f32", (3, 70), 1), np.full(3, -np.inf, np.float32), np.zeros(3, np.int64)
    yield Case("two-results", b.program(*results), arrays)


# Data-dependent operations --------------------------------------------------------------------------------------------


def arg_reductions() -> Iterator[Case]:
    """Yields arg-max and arg-min reductions."""
    for t in ("f32", "f64", "bf16", "f16", "i32", "i64", "i8"):
        for kind, (shape, dim) in itertools.product(("max", "min"), (((7, 65), 1), ((65, 7), 0), ((4, 1, 3), 1))):
            out = tuple(e for d, e in enumerate(shape) if d != dim)
            b = Builder()
            x = b.argument(shape, t)
            results = b.call(f"repro.arg_reduce {kind} dimension = {dim}", [x], [b.empty(out, t), b.empty(out, "i64")])
            few = values.special(t) if t[0] in "fb" else np.arange(-3, 3).astype(values.dtype(t))
            # Half of the rows consist of special values, among them NaNs; the other half have none, so that ordinary
            # values decide.
            array = np.random.default_rng(3).choice(few, shape)
            plain = values.random(t, shape, 4)
            mask = np.arange(shape[0]) % 2 == 0
            array = np.where(mask.reshape(-1, *([1] * (len(shape) - 1))), array, plain).astype(array.dtype)
            name = f"arg-{kind}-{t}-{'x'.join(map(str, shape))}"
            yield Case(name, b.program(*results), (array,))


def sorts() -> Iterator[Case]:
    """Yields sorts."""
    for t in ("f32", "bf16", "i64", "i8", "i1"):
        for direction, (shape, dim) in itertools.product(("ascending", "descending"), (((5, 33), 1), ((33, 5), 0))):
            b = Builder()
            key, other = b.argument(shape, t), b.argument(shape, "i64")
            results = b.call(f"repro.sort {direction} dimension = {dim}", [key, other], [key, other])
            few = values.special(t)
            array = np.random.default_rng(5).choice(few, shape)
            arrays = array, np.arange(math.prod(shape)).reshape(shape)
            yield Case(f"sort-{direction}-{t}-{'x'.join(map(str, shape))}", b.program(*results), arrays)


def scans() -> Iterator[Case]:
    """Yields scans."""
    for t in ("f32", "f64", "bf16", "f16", "i32", "i64"):
        for combine in ("add", "mul", "maximum", "minimum"):
            for shape, dim in (((3, 1300), 1), ((600, 4), 0), ((2, 1, 5), 1), ((3, 0), 1)):
                b = Builder()
                x, out = b.argument(shape, t), b.empty(shape, t)
                result = b.call(f"repro.scan {combine} dimension = {dim}", [x], [out])
                span = 0 if combine == "mul" else 6
                name = f"scan-{combine}-{t}-{'x'.join(map(str, shape))}"
                yield Case(name, b.program(*result), (values.random(t, shape, 8, span),))


def scatters() -> Iterator[Case]:
    """Yields scatters."""
    for t in ("f32", "f64", "bf16", "i32", "i64"):
        for combine in ("add", "mul", "maximum", "minimum", "replace"):
            for n, original, depth in (
                (0, (5, 3), 1),
                (40, (5, 3), 1),
                (1500, (4, 2), 1),
                (200, (3, 4), 2),
                (700, (2,), 1),
            ):
                b = Builder()
                update_shape = (n, *original[depth:])
                u, i, o = b.argument(update_shape, t), b.argument((n, depth), "i64"), b.argument(original, t)
                result = b.call(f"repro.scatter {combine}", [u, i], [o])
                rng = np.random.default_rng(n)
                indices = np.stack([rng.integers(0, e, n) for e in original[:depth]], axis=1)
                indices[: n // 2] = 0  # half of the updates are to one element
                span = 0 if combine == "mul" else 6
                arrays = values.random(t, update_shape, 9, span), indices, values.random(t, original, 10)
                yield Case(f"scatter-{combine}-{t}-{n}-{depth}", b.program(*result), arrays)
    for index in (-1, 5):
        b = Builder()
        u, i, o = b.argument((3, 2), "f32"), b.argument((3, 1), "i32"), b.argument((5, 2), "f32")
        result = b.call("repro.scatter add", [u, i], [o])
        indices = np.array([[0], [index], [2]], np.int32)
        arrays = values.random("f32", (3, 2), 1), indices, values.random("f32", (5, 2), 2)
        yield Case(f"scatter-outside-{index}", b.program(*result), arrays)


def random_numbers() -> Iterator[Case]:
    """Yields random-number operations."""
    for shape in ((), (1,), (3,), (4,), (5,), (64,), (67,), (3, 7), (0,), (2, 3, 129)):
        for seed, step in ((0, 0), (-1, 2**32 - 1), (0x123456789ABCDEF0, 17)):
            b = Builder()
            scalars = b.scalar_arguments(2)
            results = []
            for distribution, t, site in (("uniform", "f32", 0), ("bits", "i32", 5), ("uniform", "f32", 2**32 - 1)):
                results += b.call(f"repro.random {distribution} site = {site}", scalars, [b.empty(shape, t)])
            name = f"random-{'x'.join(map(str, shape)) or 'scalar'}-{step}"
            yield Case(name, b.program(*results), (np.array(seed), np.array(step)))
    for step in (-1, 2**32):
        b = Builder()
        result = b.call("repro.random uniform site = 1", b.scalar_arguments(2), [b.empty((3,), "f32")])
        yield Case(f"random-step-{step}", b.program(*result), (np.array(1), np.array(step)))


def checks() -> Iterator[Case]:
    """(E1) Yields programs with checks whose values are not used, or no longer used after folding or fusion. Each check
    must still run."""
    read = "%i = arith.index_cast %x0 : i64 to index\n    %v = tensor.extract {0}[%i] : {1}\n    "
    folded = {
        "select": "%no = arith.constant false\n    %r0 = arith.select %no, %v, %x1 : i64",
        "and": "%zero = arith.constant 0 : i64\n    %r0 = arith.andi %v, %zero : i64",
        "product": "%zero = arith.constant 0 : i64\n    %r0 = arith.muli %zero, %v : i64",
        "unused": "%r0 = arith.addi %x1, %x1 : i64",
    }
    good, bad = np.array([3, 0, 4, 1, 2]), np.array([3, 0, 4, 1, 5])
    numbers = np.arange(5) - 7
    for name, use in folded.items():
        for kind in ("generic", "fold"):
            b = Builder()
            table, i, x, total = (b.argument(shape, "i64") for shape in ((5,), (5,), (5,), ()))
            body = read.format(table.name, table.type) + use
            if kind == "generic":
                result = b.elementwise(body, i, x, element="i64")
            else:
                body = body.replace("%r0", "%t") + "\n    %r0 = arith.addi %t, %a0 : i64"
                result = b.fold(ANY, "r", [(i, "d0"), (x, "d0")], [(total, "")], body)[0]
            for indices in (good, bad):
                arrays = (numbers, indices, numbers * 3, np.array(9))
                yield Case(f"{kind}-{name}-{indices[-1]}", b.program(result), arrays)

    def gathered(b: Builder, table: Value, i: Value) -> Value:
        """Returns the negated elements of the table at the indices `i`. The check of the indices must run."""
        return b.elementwise(read.format(table.name, table.type) + "%r0 = arith.negf %v : f32", i, element="f32")

    def mapped(results: str) -> Callable[[Builder, Value, Value], Value]:
        body = "%r0 = arith.addf %x0, %x1 : f32"
        return lambda b, v, w: b.generic((5,), [(v, results), (w, "d0")], body, "f32")[0]

    def without_loops(b: Builder, v: Value, w: Value) -> Value:
        none = b.empty((0,), "f32")
        body = "%r0 = arith.addf %x0, %x0 : f32"
        return b.generic((5, 0), [(v, "d0"), (none, "d1")], body, "f32")[0]

    def shape_of(b: Builder, v: Value, w: Value) -> Value:
        at = b.constant("0", None, "index")
        size = b.op(f"tensor.dim {v.name}, {at.name} : {v.type}", None, "index")
        number = b.op(f"arith.index_cast {size.name} : index to i64", None, "i64")
        return b.splat(number, (2,))

    uses = {
        "part": lambda b, v, w: b.slice(v, [1], [3]),
        "covered": lambda b, v, w: b.insert(w, v, [0], [5]),
        "one": mapped("2"),
        "some": mapped("d0 mod 3"),
        "all": mapped("d0"),
        "descending": mapped("-d0 + 4"),
        "without-loops": without_loops,
        "element": lambda b, v, w: b.splat(b.extract(v, b.constant("2", None, "index")), (3,)),
        "shape": shape_of,
        "none": lambda b, v, w: w,
    }
    floats = values.random("f32", (5,), 1), values.random("f32", (5,), 2)
    for name, use_of in uses.items():
        b = Builder()
        table, w, i = b.argument((5,), "f32"), b.argument((5,), "f32"), b.argument((5,), "i64")
        result = use_of(b, gathered(b, table, i), w)
        for indices in (good, bad):
            yield Case(f"gathered-{name}-{indices[-1]}", b.program(result), (*floats, indices))

    # Element indices that the program computes, and constant ones.
    for index in (-1, 2, 5):
        b = Builder()
        x, n = b.argument((5,), "f32"), b.argument((), "i64")
        at = b.op(f"arith.index_cast {b.extract(n).name} : i64 to index", None, "index")
        b.extract(x, at)
        arrays = (floats[0], np.array(index))
        yield Case(f"computed-index-{index}", b.program(x, states=1), arrays)
        b = Builder()
        x, k = b.argument((5,), "f32"), b.constant(str(index), None, "index")
        yield Case(f"constant-index-{index}", b.program(b.splat(b.extract(x, k), (3,))), floats[:1])
        for rows in (4, 0):
            b = Builder()
            x = b.argument((5,), "f32")
            body = f"%k = arith.constant {index} : index\n    %v = tensor.extract {x.name}[%k] : {x.type}\n    "
            (y,) = b.generic((rows,), [], body + "%r0 = arith.negf %v : f32", "f32")
            yield Case(f"constant-index-{index}-in-{rows}-rows", b.program(y), floats[:1])
    for rows in (3, 0):
        b = Builder()
        nothing, i = b.argument((0,), "f32"), b.argument((rows,), "i64")
        yield Case(f"no-element-{rows}", b.program(gathered(b, nothing, i)), (floats[0][:0], np.zeros(rows, np.int64)))
        b = Builder()
        i = b.argument((rows,), "i64")
        body = '%no = arith.constant false\n    cf.assert %no, "never"\n    %r0 = arith.addi %x0, %x0 : i64'
        b.elementwise(body, i, element="i64")
        yield Case(f"assertion-of-{rows}", b.program(i), (np.zeros(rows, np.int64),))

    # Scatters and random numbers whose results are not read, or of which only an empty slice is read.
    for columns in (2, 0):
        for index in (4, 5):
            b = Builder()
            u, i, o = b.argument((3, columns), "f32"), b.argument((3, 1), "i64"), b.argument((5, columns), "f32")
            met = b.call("repro.scatter add", [u, i], [o])
            arrays = [values.random("f32", (n, columns), n) for n in (3, 5)]
            arrays.insert(1, np.array([[0], [index], [2]]))
            yield Case(f"scatter-unread-{columns}-{index}", b.program(o, states=0), tuple(arrays))
            yield Case(f"scatter-{columns}-{index}", b.program(*met), tuple(arrays))
    for step in (2**32 - 1, 2**32):
        b = Builder()
        n, out = b.argument((), "i64"), b.empty((3,), "f32")
        b.call("repro.random uniform site = 1", [b.extract(n)] * 2, [out])
        yield Case(f"random-unread-{step}", b.program(n), (np.array(step),))


# Whole programs -------------------------------------------------------------------------------------------------------


def whole_programs() -> Iterator[Case]:
    """Yields programs that combine several operations."""
    for holds in (True, False):
        b = Builder()
        w, c = b.argument((5,), "f32"), b.argument((), "i1")
        new = b.elementwise("%r0 = arith.addf %x0, %x0 : f32", w, element="f32")
        b.ops(f'cf.assert {b.extract(c).name}, "expected a true flag"')
        yield Case(f"assert-{holds}", b.program(new, new, states=1), (values.random("f32", (5,), 1), np.array(holds)))
    for bad in (False, True):
        # A check in an element-wise body that runs after a state has been computed.
        b = Builder()
        w, x = b.argument((50,), "f32"), b.argument((50,), "i64")
        new = b.elementwise("%r0 = arith.mulf %x0, %x0 : f32", w, element="f32")
        body = (
            "%k = arith.constant 7 : i64\n    %c = arith.cmpi slt, %x0, %k : i64\n"
            '    cf.assert %c, "expected less than 7"\n    %r0 = arith.addi %x0, %k : i64'
        )
        checked = b.elementwise(body, x, element="i64")
        array = np.arange(50) % 7 + np.where(np.arange(50) == 33, 7 * bad, 0)
        yield Case(f"assert-in-body-{bad}", b.program(new, checked, states=1), (values.random("f32", (50,), 2), array))

    for shape in ((), (8, 1), (5, 37)):
        for bad in (False, True):
            # A generic whose body has only checks, and no outputs.
            b = Builder()
            w, x = b.argument((50,), "f32"), b.argument(shape, "i64")
            new = b.elementwise("%r0 = arith.mulf %x0, %x0 : f32", w, element="f32")
            names, kinds = _names(shape), ", ".join(['"parallel"'] * len(shape))
            b.ops(
                f"linalg.generic {{indexing_maps = [affine_map<({names}) -> ({names})>], iterator_types = [{kinds}]}} "
                f"ins({x.name} : {x.type}) {{\n  ^bb0(%x0: i64):\n    %k = arith.constant 7 : i64\n"
                '    %c = arith.cmpi slt, %x0, %k : i64\n    cf.assert %c, "expected less than 7"\n'
                "    linalg.yield\n  }"
            )
            array = np.full(shape, 6)
            array.flat[array.size // 2] += bad
            case = b.program(new, states=1), (values.random("f32", (50,), 2), array)
            yield Case(f"assert-alone-{'x'.join(map(str, shape))}-{bad}", *case)

    # States that are exchanged, returned unchanged, read after they have been replaced, or returned twice.
    b = Builder()
    p, q, fixed, x = (b.argument((4, 9), "f32") for _ in range(4))
    new = b.elementwise("%r0 = arith.addf %x0, %x1 : f32", p, x, element="f32")
    late = b.elementwise("%r0 = arith.mulf %x0, %x1 : f32", new, p, element="f32")
    text = b.program(q, new, fixed, late, x, new, p, states=3)
    yield Case("state-swapped", text, tuple(values.random("f32", (4, 9), i) for i in range(4)))

    b = Builder()
    p, step = b.argument((33,), "f32"), b.argument((), "i64")
    count = b.elementwise("%one = arith.constant 1 : i64\n%r0 = arith.addi %x0, %one : i64", step, element="i64")
    ramp = b.constant("dense<[1.0, -0.0, 0.25]>", (3,), "f32")
    yield Case("state-unchanged", b.program(p, count, ramp, states=2), (values.random("f32", (33,), 3), np.array(41)))

    # A composed index 3 d0 - 2 d0 simplifies to d0, although the extent of the dimension that it indexes is not that of
    # d0.
    b = Builder()
    x = b.argument((1, 8, 3), "f32")
    body = "%r0 = arith.negf %x0 : f32"
    (inner,) = b.generic((1, 3, 3), [(x, "d0, d0 * 3 + d1 * 2, d2")], body, "f32")
    reading = [(inner, "d0, -d0, d1")]
    (outer,) = b.generic((1, 3), reading, body, "f32")
    zero = b.constant("dense<0.0>", (1,), "f32")
    total = b.fold(ROW.format(run=1), "pr", reading, [(zero, "d0")], "%r0 = arith.addf %x0, %a0 : f32")[0]
    yield Case("loop-of-another-extent", b.program(outer, total), (values.random("f32", (1, 8, 3), 8),))

    # A result without elements that is an expanded view, so that its shape is not that of the operation that writes it.
    b = Builder()
    x = b.argument((3, 3, 0), "f32")
    new = b.elementwise("%r0 = arith.negf %x0 : f32", x, element="f32")
    text = f"tensor.expand_shape {new.name} [[0], [1], [2, 3]] output_shape [3, 3, 0, 1] : {new.type} into "
    wide = b.op(f"{text}{tensor((3, 3, 0, 1), 'f32')}", (3, 3, 0, 1), "f32")
    yield Case("empty-result-expanded", b.program(wide), (np.zeros((3, 3, 0), np.float32),))

    # Softmax over rows: a fold in any order, functions, a fold in a defined order and broadcasts, which are all fused.
    b = Builder()
    x = b.argument((9, 77), "f32")
    low, zero = b.constant("dense<0xFF800000>", (9,), "f32"), b.constant("dense<0.0>", (9,), "f32")
    rows = [(x, "d0, d1")]
    peak = b.fold(ANY, "pr", rows, [(low, "d0")], "%r0 = arith.maximumf %x0, %a0 : f32")[0]
    body = "%d = arith.subf %x0, %x1 : f32\n%r0 = repro.exp %d : f32"
    e = b.generic((9, 77), [*rows, (peak, "d0")], body, "f32")[0]
    total = b.fold(ROW.format(run=1), "pr", [(e, "d0, d1")], [(zero, "d0")], "%r0 = arith.addf %x0, %a0 : f32")[0]
    out = b.generic((9, 77), [(e, "d0, d1"), (total, "d0")], "%r0 = arith.divf %x0, %x1 : f32", "f32")[0]
    yield Case("softmax", b.program(out, total, peak), (values.random("f32", (9, 77), 4, 3),))


# Operations on the same rows, which one kernel runs block by block ----------------------------------------------------


def _names(shape: Sequence[int]) -> str:
    return ", ".join(f"d{d}" for d in range(len(shape)))


class _Rows:
    """Operations along the last dimension of tensors of one shape.

    Bodies are written for `%x0: f32`. With bf16 tensors they compute in f32. With f64 tensors they compute in f64 and
    use squares instead of exponentials, because exponentials take long to compile.
    """

    def __init__(self, shape: tuple[int, ...], element: str = "f32") -> None:
        self.b, self.shape, self.element = Builder(), shape, element
        self.wide = "f64" if element == "f64" else "f32"
        self.least = {"f32": "0xFF800000", "f64": "0xFFF0000000000000"}[self.wide]
        self.all, self.row = _names(shape), _names(shape[:-1])

    def argument(self, element: str | None = None) -> Value:
        return self.b.argument(self.shape, element or self.element)

    def _body(self, inputs: Sequence[tuple[Value, str]], body: str) -> str:
        """Returns `body` for inputs of these types: changes its types, and adds conversions of bf16 inputs."""
        if self.wide == "f64":
            body = body.replace("repro.exp %d", "arith.mulf %d, %d").replace("repro.rsqrt", "math.sqrt")
            body = body.replace("f32", "f64").replace("0xFF800000", self.least)
        for i, (value, _) in enumerate(inputs):
            if value.element == "bf16":
                body = f"%w{i} = arith.extf %x{i} : bf16 to f32\n" + body.replace(f"%x{i}", f"%w{i}")
        return body

    def fold(self, ordering: str, inputs: Sequence[tuple[Value, str]], body: str, start: str = "0.0") -> Value:
        init = self.b.constant(f"dense<{start}>", self.shape[:-1], self.wide)
        iterators = "p" * (len(self.shape) - 1) + "r"
        return self.b.fold(ordering, iterators, inputs, [(init, self.row)], self._body(inputs, body))[0]

    def sum(self, inputs: Sequence[tuple[Value, str]], term: str) -> Value:
        return self.fold(ROW.format(run=1), inputs, f"{term}\n%r0 = arith.addf %t, %a0 : f32")

    def peak(self, inputs: Sequence[tuple[Value, str]], masked: str = "") -> Value:
        body = masked or "%m = arith.maximumf %x0, %x0 : f32"
        return self.fold(ANY, inputs, f"{body}\n%r0 = arith.maximumf %m, %a0 : f32", self.least)

    def sum_of_columns(self, inputs: Sequence[tuple[Value, str]], term: str) -> Value:
        zero = self.b.constant("dense<0.0>", self.shape[-1:], self.wide)
        iterators, last = "r" * (len(self.shape) - 1) + "p", f"d{len(self.shape) - 1}"
        body = self._body(inputs, f"{term}\n%r0 = arith.addf %t, %a0 : f32")
        return self.b.fold(COLUMN, iterators, inputs, [(zero, last)], body)[0]

    def map(self, inputs: Sequence[tuple[Value, str]], body: str) -> Value:
        """Adds a linalg.generic whose result has the type in which bodies compute (`wide`)."""
        return self.b.generic(self.shape, inputs, self._body(inputs, body), self.wide)[0]

    def store(self, inputs: Sequence[tuple[Value, str]], body: str) -> Value:
        """Adds a linalg.generic whose result is rounded to the type of the tensors (`element`)."""
        body = self._body(inputs, body)
        if self.element != self.wide:
            body = body.replace("%r0", "%r") + f"\n%r0 = arith.truncf %r : {self.wide} to {self.element}"
        return self.b.generic(self.shape, inputs, body, self.element)[0]

    def of_rows(self, inputs: Sequence[tuple[Value, str]], body: str, element: str | None = None) -> Value:
        return self.b.generic(self.shape[:-1], inputs, self._body(inputs, body), element or self.wide)[0]

    def softmax(self, x: Value) -> Value:
        peak = self.peak([(x, self.all)])
        body = "%d = arith.subf %x0, %x1 : f32\n%r0 = repro.exp %d : f32"
        e = self.map([(x, self.all), (peak, self.row)], body)
        total = self.sum([(e, self.all)], "%t = arith.addf %x0, %x0 : f32")
        return self.store([(e, self.all), (total, self.row)], "%r0 = arith.divf %x0, %x1 : f32")


def _softmax_and_gradient(shape: tuple[int, ...], element: str = "f32") -> str:
    k = _Rows(shape, element)
    x, g = k.argument(), k.argument()
    y = k.softmax(x)
    dot = k.sum([(y, k.all), (g, k.all)], "%t = arith.mulf %x0, %x1 : f32")
    body = "%d = arith.subf %x0, %x2 : f32\n%r0 = arith.mulf %d, %x1 : f32"
    return k.b.program(y, k.store([(g, k.all), (y, k.all), (dot, k.row)], body))


def _masked_softmax(shape: tuple[int, ...]) -> str:
    """Returns a program that computes the softmax of attention scores. The mask has the last two dimensions, and may
    exclude all elements of a row."""
    k = _Rows(shape)
    x, mask = k.argument(), k.b.argument(shape[-2:], "i1")
    rank = len(shape)
    inputs = [(x, k.all), (mask, f"d{rank - 2}, d{rank - 1}")]
    masked = "%low = arith.constant 0xFF800000 : f32\n%m = arith.select %x1, %x0, %low : f32"
    peak = k.peak(inputs, masked)
    body = f"{masked}\n%d = arith.subf %m, %x2 : f32\n%r0 = repro.exp %d : f32"
    e = k.map([*inputs, (peak, k.row)], body)
    total = k.sum([(e, k.all)], "%t = arith.addf %x0, %x0 : f32")
    empty = k.of_rows(
        [(peak, k.row)], "%i = arith.constant 0xFF800000 : f32\n%r0 = arith.cmpf oeq, %x0, %i : f32", "i1"
    )
    body = "%q = arith.divf %x0, %x1 : f32\n%z = arith.constant 0.0 : f32\n%r0 = arith.select %x2, %z, %q : f32"
    return k.b.program(k.map([(e, k.all), (total, k.row), (empty, k.row)], body), peak)


def _layer_norm_and_gradient(shape: tuple[int, ...], element: str = "f32") -> str:
    k = _Rows(shape, element)
    x, g, w = k.argument(), k.argument(), k.b.argument(shape[-1:], element)
    last = f"d{len(shape) - 1}"
    divide = f"%n = arith.constant {float(shape[-1])} : f32\n%r0 = arith.divf %x0, %n : f32"
    mean = k.of_rows([(k.sum([(x, k.all)], "%t = arith.negf %x0 : f32"), k.row)], divide)
    square = "%d = arith.addf %x0, %x1 : f32\n%t = arith.mulf %d, %d : f32"
    variance = k.sum([(x, k.all), (mean, k.row)], square)
    scale = k.of_rows([(variance, k.row)], divide.replace("%r0", "%v") + "\n%r0 = repro.rsqrt %v : f32")
    body = "%d = arith.addf %x0, %x1 : f32\n%s = arith.mulf %d, %x2 : f32\n%r0 = arith.mulf %s, %x3 : f32"
    y = k.store([(x, k.all), (mean, k.row), (scale, k.row), (w, last)], body)
    dot = k.sum([(g, k.all), (y, k.all), (w, last)], "%p = arith.mulf %x0, %x2 : f32\n%t = arith.mulf %p, %x1 : f32")
    body = "%d = arith.mulf %x1, %x2 : f32\n%s = arith.subf %x0, %d : f32\n%r0 = arith.mulf %s, %x3 : f32"
    dx = k.store([(g, k.all), (y, k.all), (dot, k.row), (scale, k.row)], body)
    # The gradient of the weight is a sum over all rows, unlike the other operations.
    dw = k.sum_of_columns([(g, k.all), (y, k.all)], "%t = arith.mulf %x0, %x1 : f32")
    return k.b.program(y, dx, dw)


def _cross_entropy(rows: int, classes: int) -> str:
    """Returns a program that computes the cross entropy. The losses of the rows are gathered from a result that no
    other operation reads."""
    k = _Rows((rows, classes))
    x, target = k.argument(), k.b.argument((rows,), "i64")
    peak = k.peak([(x, k.all)])
    body = "%d = arith.subf %x0, %x1 : f32\n%t = repro.exp %d : f32"
    total = k.sum([(x, k.all), (peak, k.row)], body)
    log = k.of_rows([(total, k.row)], "%r0 = repro.log %x0 : f32")
    body = "%d = arith.subf %x0, %x1 : f32\n%r0 = arith.subf %d, %x2 : f32"
    y = k.map([(x, k.all), (peak, k.row), (log, k.row)], body)
    body = (
        "%i = linalg.index 0 : index\n%j = arith.index_cast %x0 : i64 to index\n"
        f"%v = tensor.extract {y.name}[%i, %j] : {y.type}\n%r0 = arith.negf %v : f32"
    )
    return k.b.program(k.of_rows([(target, k.row)], body))


def _rows_of_another(rows: int, count: int) -> str:
    """Returns a program that subtracts other[row] from the maximum of each row, and then subtracts the difference from
    the row. `other` has `count` elements; the step fails (E1) if `count` is less than `rows`."""
    k = _Rows((rows, 40))
    x, other = k.argument(), k.b.argument((count,), "f32")
    load = f"%v = tensor.extract {other.name}[%i] : {other.type}"
    body = f"%i = linalg.index 0 : index\n{load}\n%r0 = arith.subf %x0, %v : f32"
    low = k.of_rows([(k.peak([(x, k.all)]), k.row)], body)
    return k.b.program(k.map([(x, k.all), (low, k.row)], "%r0 = arith.subf %x0, %x1 : f32"))


def _softmax_of_columns(shape: tuple[int, ...], width: int, first: int) -> str:
    """Returns a program that computes the softmax of shape[-1] columns, starting with column `first`, of a tensor whose
    last dimension has extent `width`."""
    k = _Rows(shape)
    x = k.b.argument((*shape[:-1], width), "f32")
    return k.b.program(k.softmax(k.b.slice(x, [0] * (len(shape) - 1) + [first], shape)))


def _softmax_of_gathered_rows(rows: int, count: int, width: int, of_state: bool) -> str:
    """Returns a program whose new state is softmax(state + rows). The rows are gathered by index from the `count` rows
    of another tensor, or from the state itself.

    An out-of-range index is an error that leaves the state unchanged (E1), even if other rows come first.
    """
    k = _Rows((rows, width))
    state, index = k.argument(), k.b.argument((rows,), "i64")
    table = state if of_state else k.b.argument((count, width), "f32")
    body = (
        "%i = arith.index_cast %x0 : i64 to index\n%j = linalg.index 1 : index\n"
        f"%v = tensor.extract {table.name}[%i, %j] : {table.type}\n%r0 = arith.addf %x1, %v : f32"
    )
    total = k.map([(index, k.row), (state, k.all)], body)
    new = k.softmax(total)
    return k.b.program(new, k.sum([(total, k.all)], "%t = arith.negf %x0 : f32"), states=1)


def _product(b: Builder, x: Value, turn_x: bool, y: Value, turn_y: bool) -> Value:
    """Returns the matrix products of a batch, with x transposed first if `turn_x` and y if `turn_y`."""
    (*batch, i, j), (*_, m, n) = x.shape or (), y.shape or ()
    names, rank = _names(batch), len(batch)
    row, column, inner = (f"d{rank + i}" for i in range(3))
    left = f"{names}, {inner}, {row}" if turn_x else f"{names}, {row}, {inner}"
    right = f"{names}, {column}, {inner}" if turn_y else f"{names}, {inner}, {column}"
    init = b.constant("dense<0.0>", (*batch, j if turn_x else i, m if turn_y else n), x.element)
    body = f"%r0 = math.fma %x0, %x1, %a0 : {x.element}"
    output = f"{names}, {row}, {column}"
    return b.fold(COLUMN, "p" * (rank + 2) + "r", [(x, left), (y, right)], [(init, output)], body)[0]


def long_items() -> Case:
    """Returns a batch of matrix products, each with more rows than a kernel's block has, and a K that is longer than a
    chunk."""
    b = Builder()
    q, key, v = (b.argument((16, 530, 8), "f32") for _ in range(3))
    scores = _product(b, q, False, key, True)
    body = "%z = arith.constant 0.0 : f32\n%r0 = arith.maximumf %x0, %z : f32"
    (kept,) = b.generic((16, 530, 530), [(scores, "d0, d1, d2")], body, "f32")
    arrays = [values.random("f32", (16, 530, 8), seed) for seed in range(3)]
    return Case("long-items", b.program(_product(b, kept, False, v, False)), tuple(arrays))


def _attention(batch: tuple[int, ...], length: int, width: int, element: str, turned: bool) -> str:
    """Returns a program that computes attention for a batch, and its gradients. With `turned`, the heads are the second
    to last dimension of the arguments."""
    k = _Rows((*batch, length, length), element)
    b, names, rank = k.b, _names(batch), len(batch)
    row, column = (f"d{rank + i}" for i in range(2))
    items = (*batch, length, width)
    outside = (*batch[:1], length, *batch[1:], width) if turned else items
    places = [0, rank, *range(1, rank)] if turned else range(rank + 1)
    order = ", ".join([*(f"d{i}" for i in places), column])
    q, key, v, g = (b.argument(outside, element) for _ in range(4))
    mask = b.argument((length, length), "i1")
    scale = f"%s = arith.constant 0.375 : {element}\n%r0 = arith.mulf %x0, %s : {element}"
    if turned:
        q, key, v, g = (b.generic(items, [(x, order)], scale, element)[0] for x in (q, key, v, g))

    inputs = [(_product(b, q, False, key, True), k.all), (mask, f"{row}, {column}")]
    masked = "%low = arith.constant -1.0e4 : f32\n%m = arith.select %x1, %x0, %low : f32"
    peak = k.peak(inputs, masked)
    e = k.map([*inputs, (peak, k.row)], f"{masked}\n%d = arith.subf %m, %x2 : f32\n%r0 = repro.exp %d : f32")
    total = k.sum([(e, k.all)], "%t = arith.negf %x0 : f32")
    p = k.map([(e, k.all), (total, k.row)], "%r0 = arith.divf %x0, %x1 : f32")
    out = _product(b, p, False, v, False)
    dv = _product(b, p, True, g, False)
    dp = _product(b, g, False, v, True)
    dot = k.sum([(p, k.all), (dp, k.all)], "%t = arith.mulf %x0, %x1 : f32")
    body = "%d = arith.subf %x0, %x2 : f32\n%r0 = arith.mulf %d, %x1 : f32"
    ds = k.map([(dp, k.all), (p, k.all), (dot, k.row)], body)
    results = [out, dv, _product(b, ds, False, key, False), _product(b, ds, True, q, False)]
    if turned:
        back = [(x, f"{names}, {row}, {column}") for x in results]
        results = [b.generic(outside, [x], scale, element, output=order, dims=items)[0] for x in back]
    return b.program(*results)


def row_chains() -> Iterator[Case]:
    """Yields operations that follow each other on the same rows (softmax, layer norm, ...), in f32."""
    for shape in ((7, 13), (1, 40), (17, 2000), (64, 300), (4, 6, 33), (3, 32, 70), (40, 8192), (16, 33000)):
        name = "x".join(map(str, shape))
        few = max(shape) > 4000
        x, g = (values.random("f32", shape, seed, 3) for seed in (1, 2))
        yield Case(f"softmax-{name}", _softmax_and_gradient(shape), (x, g))
        if few:
            continue
        weight = values.random("f32", shape[-1:], 3, 2)
        yield Case(f"layer-norm-{name}", _layer_norm_and_gradient(shape), (x, g, weight))
        wild = values.mixed("f32", shape, 4)
        yield Case(f"special-softmax-{name}", _softmax_and_gradient(shape), (wild, g))
        yield Case(f"special-layer-norm-{name}", _layer_norm_and_gradient(shape), (wild, g, weight))
    for shape in ((3, 5, 16, 24), (2, 3, 7, 9), (2, 64, 40)):
        mask = np.random.default_rng(5).random(shape[-2:]) < 0.7
        mask[0] = False
        name = "x".join(map(str, shape))
        yield Case(f"masked-softmax-{name}", _masked_softmax(shape), (values.random("f32", shape, 6, 3), mask))
    for rows, classes in ((32, 50), (13, 7), (48, 600)):
        x = values.random("f32", (rows, classes), 7, 3)
        target = np.random.default_rng(8).integers(0, classes, rows)
        wrong = target.copy()
        wrong[rows // 2] = classes
        yield Case(f"cross-entropy-{rows}x{classes}", _cross_entropy(rows, classes), (x, target))
        yield Case(f"cross-entropy-{rows}x{classes}-outside", _cross_entropy(rows, classes), (x, wrong))
    for count in (256, 300, 128):
        inputs = values.random("f32", (256, 40), 9, 3), values.random("f32", (count,), 10, 3)
        suffix = "-outside" if count < 256 else ""
        yield Case(f"rows-of-another-256-{count}{suffix}", _rows_of_another(256, count), inputs)


def row_chains_of_other_types() -> Iterator[Case]:
    """Yields operations that follow each other on the same rows, in f64 and bf16."""
    for element in ("f64", "bf16"):
        for shape in ((7, 13), (64, 300), (4, 6, 33)):
            name = f"{element}-{'x'.join(map(str, shape))}"
            x, g, wild = (*(values.random(element, shape, seed, 3) for seed in (1, 2)), values.mixed(element, shape, 4))
            weight = values.random(element, shape[-1:], 3, 2)
            softmax, norm = _softmax_and_gradient(shape, element), _layer_norm_and_gradient(shape, element)
            yield Case(f"softmax-{name}", softmax, (x, g))
            yield Case(f"layer-norm-{name}", norm, (x, g, weight))
            if shape == (7, 13):
                yield Case(f"special-softmax-{name}", softmax, (wild, g))
                yield Case(f"special-layer-norm-{name}", norm, (wild, g, weight))


def row_chains_of_parts() -> Iterator[Case]:
    """Yields operations that follow each other on slices of rows and on gathered rows."""
    for shape, width, first in (((7, 13), 40, 5), ((64, 48), 144, 48), ((4, 6, 33), 100, 67)):
        x = values.random("f32", (*shape[:-1], width), 1, 3)
        name = f"{'x'.join(map(str, shape))}-from-{first}-of-{width}"
        yield Case(f"softmax-of-columns-{name}", _softmax_of_columns(shape, width, first), (x,))
    for rows, count, width in ((7, 30, 13), (96, 50, 40)):
        state, table = values.random("f32", (rows, width), 1, 3), values.random("f32", (count, width), 2, 3)
        for of_state, limit in ((False, count), (True, rows)):
            program = _softmax_of_gathered_rows(rows, count, width, of_state)
            tables = () if of_state else (table,)
            for suffix, wrong in (("", None), ("-outside-above", limit), ("-outside-below", -1)):
                index = np.random.default_rng(3).integers(0, limit, rows)
                if wrong is not None:
                    index[-1] = wrong
                name = f"softmax-of-rows-of-{'the-state' if of_state else 'another'}-{rows}-{limit}{suffix}"
                yield Case(name, program, (state, index, *tables))


def attention() -> Iterator[Case]:
    """Yields attention and its gradients, with and without a mask, in several shapes and types."""
    for batch, length, width, element, turned in (
        ((3,), 37, 5, "f32", False),
        ((1,), 20, 8, "f32", False),
        ((2, 9), 17, 16, "f32", True),
        ((2, 2, 5), 16, 7, "f64", True),
        ((20,), 24, 33, "f32", False),
        ((8, 4), 8, 3, "f32", False),
    ):
        mask = np.random.default_rng(5).random((length, length)) < 0.7
        mask[0] = False
        shape = (batch[0], length, *batch[1:], width) if turned else (*batch, length, width)
        text = _attention(batch, length, width, element, turned)
        name = f"{'x'.join(map(str, (*batch, length, width)))}-{element}"
        for kind, draw in (("", values.random), ("special-", values.mixed)):
            arrays = [draw(element, shape, seed) for seed in range(4)]
            yield Case(f"{kind}attention-{name}", text, (*arrays, mask))


def imported_operations() -> Iterator[Case]:
    """Yields the programs that the importer generates for operations that are not canonical, such as random
    distributions."""
    for shape, seed, step in (
        ((), 0, 0),
        ((5,), -1, 2**32 - 1),
        ((3, 7), 2**62 + 3, 17),
        ((0,), 1, 2),
        ((1061,), 5, 9),
    ):
        name = f"distributions-{'x'.join(map(str, shape)) or 'scalar'}"
        yield Case(name, imported.distributions(shape), (np.array(seed), np.array(step)))
    for attention in imported.ATTENTION:
        yield Case(f"attention-{attention.name}", attention.program(), attention.arrays())
    for convolution in general(8):
        arrays = (values.random("f32", shape, seed, 2) for seed, shape in enumerate(convolution.shapes()))
        yield Case(f"convolution-{convolution.name}", convolution.program(), tuple(arrays))


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "float-operations": float_operations,
    "float-functions": float_functions,
    "integer-operations": integer_operations,
    "conversions": conversions,
    "generics": generics,
    "movements": movements,
    "slices-of-one": slices_of_one,
    "contractions": contractions,
    "exact-contractions": exact_contractions,
    "accumulated-contractions": accumulated_contractions,
    "convolutions": convolutions,
    "reductions": reductions,
    "any-order": any_order_folds,
    "sequential": sequential_folds,
    "arg-reductions": arg_reductions,
    "sorts": sorts,
    "scans": scans,
    "scatters": scatters,
    "random-numbers": random_numbers,
    "checks": checks,
    "whole-programs": whole_programs,
    "row-chains": row_chains,
    "row-chains-of-other-types": row_chains_of_other_types,
    "row-chains-of-parts": row_chains_of_parts,
    "attention": attention,
    "imported": imported_operations,
}

REPRESENTATIVES = (
    *("float-operations/unary-f8E5M2", "float-operations/fma-f32", "float-functions/powi-f8E4M3FN-i32"),
    *("integer-operations/extended-i8", "conversions/f16-from-i8", "generics/generic-two-results-index"),
    *("generics/gather-outside", "movements/pad-i64", "movements/concat-bf16", "slices-of-one/1x1x0x2"),
    *("contractions/matmul-65x129x40", "contractions/matmul-bf16-5", "contractions/contraction-heads"),
    *("exact-contractions/exact2-two-reductions", "exact-contractions/exact3-17x33x511"),
    *("accumulated-contractions/accumulated-50x1x33", "accumulated-contractions/accumulated-ada-bf16-f32"),
    *("convolutions/conv-stride-phases", "convolutions/conv-grouped", "reductions/sum-of-all-9x31x77"),
    *("reductions/batch-norm-sum-65", "any-order/andi-i64-9x130", "any-order/maximumf-permuted-5x70"),
    *("sequential/two-results", "arg-reductions/arg-max-bf16-4x1x3", "sorts/sort-descending-f32-33x5"),
    *("scans/scan-add-f64-600x4", "scatters/scatter-minimum-f32-200-2", "scatters/scatter-add-bf16-40-1"),
    *("random-numbers/random-3x7-0", "checks/gathered-part-2", "whole-programs/state-swapped"),
    *("row-chains/softmax-4x6x33", "row-chains-of-other-types/layer-norm-bf16-7x13"),
    *("row-chains-of-parts/softmax-of-rows-of-another-7-30-outside-above", "attention/attention-1x20x8-f32"),
    "imported/convolution-random-0",
)
"""The cases for tests that vary something other than the operations, such as the strides of the operands."""


@functools.cache
def cases() -> tuple[Case, ...]:
    """Returns every case, with its group as a prefix of its name; computed once per process."""
    return tuple(
        Case(f"{group}/{case.name}", case.program, case.inputs) for group, make in GROUPS.items() for case in make()
    )
