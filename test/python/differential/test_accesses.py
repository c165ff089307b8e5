# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(A1) to (A3) Accesses at the limits of what is allowed. Arrays lie between guard pages, so compiled code that reads
an element that the interpreter does not read would crash."""

import numpy as np
import pytest
from support.builder import COLUMN, ROW, Builder
from support.kit import check

HUGE = 1 << 62
DOUBLED = "%r0 = arith.addf %x0, %x0 : f32"

# Entries: the shape of the input, the results of its indexing map, and the shape of the output.
GENERICS = [
    ((1,), f"d0 * {1 << 40}", (1,)),
    ((5,), f"d0 * {HUGE} + 3", (1,)),
    ((4,), "-d0 + 3", (4,)),
    ((4,), "(d0 * 3) mod 4", (7,)),
    ((4,), "(d0 * -7) mod 4", (9,)),
    ((4,), "(-d0) mod 4", (9,)),
    ((4,), "(d0 - 3) floordiv 2 + 2", (6,)),
    ((4,), "(d0 - 5) ceildiv 2 + 2", (6,)),
    ((9,), "(d0 floordiv 3) * 3 + d0 mod 3", (9,)),
    ((4,), "((d0 floordiv 2) floordiv 3) mod 4", (40,)),
    ((4,), "(d0 * 2305843009213693951) mod 4", (2,)),
    ((4,), f"d0 floordiv {HUGE}", (4,)),
    ((7,), "d0 - d1 + 3", (4, 4)),
    ((13,), "d0 * 3 + d1", (4, 4)),
    ((2, 3), "d1 mod 2, d0", (3, 5)),
    ((5, 0), "d0, d1", (5, 0)),
    ((5,), "d0", (5, 0)),
    ((2,), "1", (0,)),
    ((), "", (0, 3)),
]


def values(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_A2_generics() -> None:
    b = Builder()
    arguments = [b.argument(shape, "f32") for shape, *_ in GENERICS]
    results = [
        b.generic(out, [(x, index)], DOUBLED, "f32")[0] for x, (_, index, out) in zip(arguments, GENERICS, strict=True)
    ]
    check(b.program(*results), [values(shape, i) for i, (shape, *_) in enumerate(GENERICS)])


@pytest.mark.parametrize(
    ("x", "x_map", "w", "w_map", "out", "out_map", "loops"),
    [
        ((5,), f"d0 * {1 << 40} + d1", (5,), "d1", (1,), "d0", "pr"),
        ((1,), f"d0 * {1 << 40} + d1 * {1 << 40}", (1,), "d1", (1,), "d0", "pr"),
        ((9,), "d0 * 2 - d1 + 2", (3,), "d1", (4,), "d0", "pr"),
        ((9,), "(d0 + d1) mod 9", (3,), "d1", (9,), "d0", "pr"),
        ((9,), "(d0 + d1) floordiv 2", (3,), "d1", (9,), "d0", "pr"),
        ((0, 7), "d0, d1", (0, 5), "d0, d2", (7, 5), "d1, d2", "rpp"),
        ((4, 3), "d0, d1", (3, 0), "d1, d2", (4, 0), "d0, d2", "prp"),
    ],
)
def test_A2_windows(x: tuple, x_map: str, w: tuple, w_map: str, out: tuple, out_map: str, loops: str) -> None:
    b = Builder()
    factors = [(b.argument(x, "f32"), x_map), (b.argument(w, "f32"), w_map)]
    initial = b.argument(out, "f32")
    result = b.fold(COLUMN, loops, factors, [(initial, out_map)], "%r0 = math.fma %x0, %x1, %a0 : f32")[0]
    check(b.program(result), [values(x, 1), values(w, 2), values(out, 3)])


def test_A2_maps_that_fuse() -> None:
    """Interval arithmetic shows that each indexing map stays within its operand. It cannot show this for the
    composition of the maps, so fusion must not rely on interval arithmetic."""
    b = Builder()
    x, initial = b.argument((4,), "f32"), b.argument((2,), "f32")
    inner = b.generic((7,), [(x, "(d0 floordiv 3) + d0 mod 2")], DOUBLED, "f32")[0]
    outer = b.generic((2, 3), [(inner, "d0 * 3 + d1")], DOUBLED, "f32")[0]
    total = "%r0 = arith.addf %a0, %x0 : f32"
    result = b.fold(ROW.format(run=1), "pr", [(outer, "d0, d1")], [(initial, "d0")], total)[0]
    check(b.program(result), [values((4,), 1), values((2,), 2)])


def test_A2_an_input_to_transpose_next_to_one_in_no_order() -> None:
    """The operation reads one input that is transposed before the kernel runs, and one input whose elements are read in
    an irregular order."""
    for other, shape in (("d0 mod 2, -d2 + 33", (2, 34)), ("d0, d2 floordiv 2", (37, 17)), ("d2 mod 3, d0", (3, 37))):
        b = Builder()
        x, y = b.argument((5, 34, 37), "f32"), b.argument(shape, "f32")
        result = b.generic((37, 5, 34), [(x, "d1, d2, d0"), (y, other)], "%r0 = arith.addf %x0, %x1 : f32", "f32")
        check(b.program(result[0]), [values((5, 34, 37), 1), values(shape, 2)])


@pytest.mark.parametrize("narrow", ["i1", "i8", "i16"])
def test_numbers_of_loops_wrap_in_narrow_types(narrow: str) -> None:
    """Loop indices that are truncated to a narrow type wrap around, so the indices are no longer consecutive after they
    are extended again."""
    b = Builder()
    body = f"""
      %i = linalg.index 0 : index
      %j = arith.index_cast %i : index to {narrow}
      %c = arith.constant 1 : {narrow}
      %k = arith.addi %j, %c : {narrow}
      %s = arith.index_cast %k : {narrow} to index
      %l = arith.index_cast %i : index to i64
      %t = arith.trunci %l : i64 to {narrow}
      %u = arith.index_cast %t : {narrow} to index
      %v = arith.addi %s, %u : index
      %r0 = arith.index_cast %v : index to i64"""
    check(b.program(b.generic((70001,), [], body, "i64")[0]), [])


def test_A3_slices_of_one_element_take_any_stride() -> None:
    b = Builder()
    x, part = b.argument((9, 9), "f32"), b.argument((1, 9), "f32")
    row = b.slice(x, [8, 0], [1, 9], [HUGE, 1])
    column = b.slice(x, [0, 8], [9, 1], [1, HUGE])
    chain = row
    for _ in range(4):
        chain = b.slice(chain, [0, 0], [1, 9], [HUGE, 1])
    whole = b.insert(part, x, [8, 0], [1, 9], [HUGE, 1])
    results = [b.elementwise(DOUBLED, value, element="f32") for value in (row, column, chain, whole)]
    check(b.program(*results), [values((9, 9), 1), values((1, 9), 2)])
