# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the bits of folds of rows and columns, computed in vectors, with those of the reference interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_cases import BF16_SUM, check_program, fold, step
from support.builder import ROW, order

ROWS = ROW.format(run=1)
SEQUENTIAL = order(512, 1)


@pytest.mark.parametrize("op", ["arith.addf", "math.fma"])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 40, 63, 64, 65, 100, 128, 1000])
@pytest.mark.diagonal
def test_rows_F1_F2(op: str, n: int) -> None:
    fold(ROWS, ["(i, j) -> (i, j)", "(i, j) -> (i)"], "pr", [f"5x{n}xf32", "5xf32"], step(op)).check()


def test_fma_of_tiny_negative_products_keeps_the_sign_of_zero_F2() -> None:
    text = "^bb0(%x: f32, %y: f32, %acc: f32):\n  %r = math.fma %x, %y, %acc : f32\n  repro.yield %r : f32"
    for n in (3, 40, 64, 70):
        maps = ["(i, j) -> (i, j)", "(i, j) -> (i, j)", "(i, j) -> (i)"]
        case = fold(ROWS, maps, "pr", [f"20x{n}xf32", f"20x{n}xf32", "20xf32"], text)
        tiny = np.full((20, n), 1e-30, np.float32)
        case.check([tiny, -tiny, np.full(20, -0.0, np.float32)])


@pytest.mark.parametrize("extents", [(3, 7), (9, 64), (4, 100), (70, 130), (2, 63), (5, 1)])
@pytest.mark.parametrize("run", [0, 1, 2])
@pytest.mark.parametrize("chunk", [64, 100, 192, 8192])
@pytest.mark.diagonal
def test_runs_and_chunks_F1_F3(extents: tuple[int, int], run: int, chunk: int) -> None:
    o, r = extents
    for totals in ("refold", "sequential"):
        maps = ["(c, o, r) -> (o, c, r)", "(c, o, r) -> (c)"]
        case = fold(order(chunk, 64, run, totals), maps, "prr", [f"{o}x3x{r}xf32", "3xf32"], step("arith.addf"))
        case.check(levels=["v4", "v2"], special=False)


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32, 128])
@pytest.mark.diagonal(lanes=[2, 16, 128])
def test_other_lanes_F2(lanes: int) -> None:
    maps = ["(i, j) -> (i, j)", "(i, j) -> (i)"]
    case = fold(order(100, lanes, totals="refold"), maps, "pr", ["5x333xf32", "5xf32"], step("arith.addf"))
    case.check(special=False)


@pytest.mark.parametrize("op", ["arith.maximumf", "arith.minimumf"])
@pytest.mark.parametrize("kind", ["f32", "bf16", "f64"])
@pytest.mark.parametrize("shape", [(4, 3, 5), (6, 2, 64), (3, 4, 100), (2, 40, 7)])
@pytest.mark.diagonal
def test_any_order_F5(op: str, kind: str, shape: tuple[int, int, int]) -> None:
    a, b, c = shape
    for reduced, kept in (("rpr", "j"), ("prp", "i, k"), ("rrp", "k"), ("prr", "i"), ("rrr", "")):
        size = {"i": a, "j": b, "k": c}
        out = "x".join([str(size[d]) for d in kept.split(", ") if d] + [kind])
        maps = ["(i, j, k) -> (i, j, k)", f"(i, j, k) -> ({kept})"]
        fold("#repro.any_order", maps, reduced, [f"{a}x{b}x{c}x{kind}", out], step(op, kind)).check(levels=["v4", "v2"])


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("window", [2, 3])
@pytest.mark.parametrize("op", ["arith.maximumf", "arith.addf"])
def test_pooling_K2(stride: int, window: int, op: str) -> None:
    image = 12 * stride + window
    head = "(n, h, w, y, x)"
    maps = [f"{head} -> (n, h * {stride} + y, w * {stride} + x)", f"{head} -> (y, x)", f"{head} -> (n, h, w)"]
    attribute = "#repro.any_order" if op == "arith.maximumf" else ROW.format(run=2)
    text = step(op).replace("%x: f32", "%x: f32, %w: f32")
    types = [f"3x{image}x{image}xf32", f"{window}x{window}xf32", "3x13x13xf32"]
    fold(attribute, maps, "ppprr", types, text).check()


def test_fused_inputs_and_index() -> None:
    text = """^bb0(%x: f32, %m: f32, %s: f32, %acc: f32):
  %i = repro.index 1 : index
  %k = arith.index_cast %i : index to i32
  %f = arith.sitofp %k : i32 to f32
  %d = arith.subf %x, %m : f32
  %e = arith.mulf %d, %s : f32
  %g = arith.addf %e, %f : f32
  %r = math.fma %g, %d, %acc : f32
  repro.yield %r : f32"""
    maps = ["(i, j) -> (i, j)", "(i, j) -> (i)", "(i, j) -> (j)", "(i, j) -> (i)"]
    for attribute in (ROWS, SEQUENTIAL):
        fold(attribute, maps, "pr", ["37x700xf32", "37xf32", "700xf32", "37xf32"], text).check()


@pytest.mark.parametrize("columns", [2, 15, 16, 17, 64, 65, 200])
@pytest.mark.parametrize("n", [1, 512, 1100])
@pytest.mark.diagonal
def test_columns_F3(columns: int, n: int) -> None:
    attribute = SEQUENTIAL
    for maps in (["(j, i) -> (i, j)", "(j, i) -> (j)"], ["(j, i) -> (j, i)", "(j, i) -> (j)"]):
        shape = (n, columns) if maps[0].endswith("(i, j)") else (columns, n)
        case = fold(attribute, maps, "pr", [f"{shape[0]}x{shape[1]}xf32", f"{columns}xf32"], step("arith.addf"))
        case.check(levels=["v4", "v3"])


def check_long_rows(attribute: str, kind: str, text: str) -> None:
    """Checks folds of columns whose rows are longer than one panel, and longer than all the panels together that are
    summed at a time."""
    for n, columns in ((64, 2100), (515, 300), (1027, 1029)):
        types = [f"{n}x{columns}x{kind}", f"{columns}x{kind}"]
        fold(attribute, ["(i, j) -> (i, j)", "(i, j) -> (j)"], "rp", types, text).check()


@pytest.mark.parametrize(("op", "kind"), [("arith.addf", "f32"), ("math.fma", "f32"), ("arith.mulf", "f64")])
def test_long_rows_F3(op: str, kind: str) -> None:
    check_long_rows(SEQUENTIAL, kind, step(op, kind))


def test_long_rows_F7() -> None:
    check_long_rows(SEQUENTIAL, "bf16", BF16_SUM)


@pytest.mark.parametrize(
    ("op", "kind"), [("maximumf", "f32"), ("minimumf", "f64"), ("addi", "i64"), ("maxsi", "i8"), ("ori", "i1")]
)
@pytest.mark.diagonal("kind")
def test_long_rows_F5(op: str, kind: str) -> None:
    check_long_rows("#repro.any_order", kind, step(f"arith.{op}", kind))


def test_long_rows_of_whole_programs_F3_F7() -> None:
    """The last of 193 columns does not fill a vector and is stored by itself. There are enough rows for several
    threads."""
    for kind, steps in (("f32", step("arith.addf")), ("bf16", BF16_SUM)):
        types = [f"1030x193x{kind}", f"193x{kind}"]
        case = fold(SEQUENTIAL, ["(i, j) -> (i, j)", "(i, j) -> (j)"], "rp", types, steps)
        check_program(case.program(), types, types[-1])


def test_long_rows_with_values_of_rows_and_columns_F3() -> None:
    text = """^bb0(%x: f32, %m: f32, %s: f32, %acc: f32):
  %i = repro.index 0 : index
  %j = repro.index 1 : index
  %k = arith.addi %i, %j : index
  %l = arith.index_cast %k : index to i32
  %f = arith.sitofp %l : i32 to f32
  %d = arith.subf %x, %m : f32
  %e = arith.mulf %d, %s : f32
  %g = arith.addf %e, %f : f32
  %r = arith.addf %g, %acc : f32
  repro.yield %r : f32"""
    maps = ["(i, j) -> (i, j)", "(i, j) -> (i)", "(i, j) -> (j)", "(i, j) -> (j)"]
    types = ["700x205xf32", "700xf32", "205xf32", "205xf32"]
    case = fold(SEQUENTIAL, maps, "rp", types, text)
    case.layouts = {0: ((211, 1), 3)}
    case.check()


def test_sums_over_batch_and_positions_F1() -> None:
    maps = ["(c, n, h, w) -> (n, c, h, w)", "(c, n, h, w) -> (c)"]
    fold(ROW.format(run=2), maps, "prrr", ["40x5x17x19xf32", "5xf32"], step("arith.addf")).check(special=False)
    fold(SEQUENTIAL, maps, "prrr", ["40x5x7x9xf32", "5xf32"], step("arith.addf")).check(special=False)


@pytest.mark.parametrize("columns", [1, 30])
def test_several_results_F6(columns: int) -> None:
    text = """^bb0(%x: f32, %m: f32, %k: i64):
  %i = repro.index 1 : index
  %p = arith.index_cast %i : index to i64
  %c = arith.cmpf ogt, %x, %m : f32
  %v = arith.select %c, %x, %m : f32
  %q = arith.select %c, %p, %k : i64
  repro.yield %v, %q : f32, i64"""
    for access in ("(j, i) -> (i, j)", "(j, i) -> (j, i)"):
        shape = (70, columns) if access.endswith("(i, j)") else (columns, 70)
        types = [f"{shape[0]}x{shape[1]}xf32", f"{columns}xf32", f"{columns}xi64"]
        fold("#repro.sequential", [access, "(j, i) -> (j)", "(j, i) -> (j)"], "pr", types, text, 2).check()
