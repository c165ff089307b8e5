# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the bits of kernels with those of the reference interpreter, for each type of operation."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_cases import BF16_SUM, Case, fold, generic, matmul, step, values
from kernel_runner import RUNNABLE, compile_kernels, kernel_function
from support.builder import COLUMN, ROW


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 8191, 8192, 8193, 20000])
def test_row_fold_F1_F2_F3(n: int) -> None:
    fold(
        ROW.format(run=1), ["(i, j) -> (i, j)", "(i, j) -> (i)"], "pr", [f"3x{n}xf32", "3xf32"], step("arith.addf")
    ).check(special=False)


@pytest.mark.parametrize("extents", [(5, 7, 49), (3, 100, 97), (2, 3, 64), (300, 2, 65)])
@pytest.mark.parametrize("op", ["arith.addf", "arith.mulf"])
def test_row_fold_run_F1(extents: tuple[int, int, int], op: str) -> None:
    o, c, r = extents
    fold(
        ROW.format(run=1),
        ["(c, o, r) -> (o, c, r)", "(c, o, r) -> (c)"],
        "prr",
        [f"{o}x{c}x{r}xf32", f"{c}xf32"],
        step(op),
    ).check(special=False)


@pytest.mark.parametrize("n", [0, 1, 3, 511, 512, 513, 1300])
@pytest.mark.parametrize("columns", [1, 5, 70])
@pytest.mark.diagonal
def test_column_fold_F3(n: int, columns: int) -> None:
    fold(
        COLUMN,
        ["(j, i) -> (i, j)", "(j, i) -> (j)"],
        "pr",
        [f"{n}x{columns}xf32", f"{columns}xf32"],
        step("arith.addf"),
    ).check(special=False)


@pytest.mark.parametrize("op", ["arith.maximumf", "arith.minimumf"])
@pytest.mark.parametrize("dims", ["(i, j) -> (i, j)", "(i, j) -> (j, i)"])
def test_any_order_float_F5(op: str, dims: str) -> None:
    kind = "37x83xf32" if dims.endswith("(i, j)") else "83x37xf32"
    fold("#repro.any_order", [dims, "(i, j) -> (i)"], "pr", [kind, "37xf32"], step(op)).check()


@pytest.mark.parametrize("op", ["addi", "muli", "maxsi", "minui", "andi", "xori"])
@pytest.mark.parametrize("kind", ["i32", "i64", "i8"])
@pytest.mark.diagonal
def test_any_order_integer_F5(op: str, kind: str) -> None:
    fold(
        "#repro.any_order",
        ["(i, j) -> (i, j)", "(i, j) -> (i)"],
        "pr",
        [f"7x83x{kind}", f"7x{kind}"],
        step(f"arith.{op}", kind),
    ).check()


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 7, 3), (17, 33, 513), (9, 40, 1300), (3, 5, 0)])
def test_matmul_K1(shape: tuple[int, int, int]) -> None:
    matmul(*shape).check(special=False)


def test_sequential_F6() -> None:
    body = """^bb0(%x: f32, %m: f32, %s: f32):
  %c = arith.cmpf ogt, %x, %m : f32
  %n = arith.select %c, %x, %m : f32
  %t = arith.addf %s, %n : f32
  repro.yield %n, %t : f32, f32"""
    fold(
        "#repro.sequential",
        ["(i, j) -> (i, j)", "(i, j) -> (i)", "(i, j) -> (i)"],
        "pr",
        ["6x40xf32", "6xf32", "6xf32"],
        body,
        2,
    ).check()


@pytest.mark.parametrize("n", [3, 700])
def test_low_precision_fold_F7(n: int) -> None:
    case = fold(COLUMN, ["(j, i) -> (i, j)", "(j, i) -> (j)"], "pr", [f"{n}x21xbf16", "21xbf16"], BF16_SUM)
    case.check(special=False)


@pytest.mark.parametrize("kind", ["f32", "i32", "i1", "bf16"])
@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.parametrize("shape", [(19, 45), (64, 3), (2, 1)])
@pytest.mark.diagonal
def test_arg_reduce_D2(kind: str, name: str, dimension: int, shape: tuple[int, int]) -> None:
    kept, whole = shape[1 - dimension], f"{shape[0]}x{shape[1]}x{kind}"
    outs = f"outs(%a1, %a2 : tensor<{kept}x{kind}>, tensor<{kept}xi64>)"
    text = f"repro.arg_reduce {name} dimension = {dimension} ins(%a0 : tensor<{whole}>) {outs}"
    case = Case(text, [whole, f"{kept}x{kind}", f"{kept}xi64"], 2)
    data = case.arrays()
    case.check(data)
    if kind == "f32":
        data[0] = np.random.default_rng(2).choice(np.array([0.0, -0.0, 1.0, np.nan], np.float32), shape)
        case.check(data)


@pytest.mark.parametrize("combine", ["add", "mul", "maximum", "minimum", "replace"])
@pytest.mark.parametrize("kind", ["f32", "i64", "bf16"])
@pytest.mark.parametrize("n", [0, 1, 40, 1500])
@pytest.mark.diagonal
def test_scatter_D1(combine: str, kind: str, n: int) -> None:
    operands = f"ins(%a0, %a1 : tensor<{n}x77x{kind}>, tensor<{n}x1xi64>) outs(%a2 : tensor<13x77x{kind}>)"
    text = f"repro.scatter {combine} {operands}"
    case = Case(text, [f"{n}x77x{kind}", f"{n}x1xi64", f"13x77x{kind}"])
    data = case.arrays(special=False)
    data[1] = np.random.default_rng(5).integers(0, 11, (n, 1))
    case.check(data)


def test_scatter_elements_D1() -> None:
    text = "repro.scatter add ins(%a0, %a1 : tensor<900xf32>, tensor<900x2xi32>) outs(%a2 : tensor<5x6xf32>)"
    case = Case(text, ["900xf32", "900x2xi32", "5x6xf32"])
    data = case.arrays(special=False)
    data[1] = np.random.default_rng(5).integers(0, 5, (900, 2)).astype(np.int32)
    case.check(data)


@pytest.mark.parametrize("combine", ["add", "mul", "maximum", "minimum"])
@pytest.mark.parametrize("kind", ["f32", "bf16", "i64"])
@pytest.mark.parametrize("shape", [(3, 5), (2, 512), (2, 1100), (1100, 2), (600, 37)])
@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.diagonal
def test_scan_D3(combine: str, kind: str, shape: tuple[int, int], dimension: int) -> None:
    t = f"{shape[0]}x{shape[1]}x{kind}"
    case = Case(f"repro.scan {combine} dimension = {dimension} ins(%a0 : tensor<{t}>) outs(%a1 : tensor<{t}>)", [t, t])
    case.check(special=combine in ("maximum", "minimum"))


@pytest.mark.parametrize("direction", ["ascending", "descending"])
@pytest.mark.parametrize("kind", ["f32", "i32", "i1"])
@pytest.mark.parametrize("shape", [(1, 4), (9, 3), (100, 2), (2, 257)])
@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.diagonal
def test_sort_D2(direction: str, kind: str, shape: tuple[int, int], dimension: int) -> None:
    k, v = (f"{shape[0]}x{shape[1]}x{e}" for e in (kind, "i64"))
    operands = f"ins(%a0, %a1 : tensor<{k}>, tensor<{v}>) outs(%a2, %a3 : tensor<{k}>, tensor<{v}>)"
    text = f"repro.sort {direction} dimension = {dimension} {operands}"
    case = Case(text, [k, v, k, v], 2)
    data = case.arrays()
    data[1] = np.arange(data[1].size).reshape(shape)
    if kind == "f32":
        data[0] = np.where(np.random.default_rng(1).random(shape) < 0.5, np.float32(-0.0), data[0]).astype(np.float32)
    case.check(data)


SHAPES = [(1,), (16,), (37,), (3, 5), (4, 64), (9000,), (2, 3, 17)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "i32", "i64", "i8", "i1"])
@pytest.mark.diagonal
def test_elementwise_copy_and_operation_V1(shape: tuple[int, ...], kind: str) -> None:
    t = "x".join(map(str, shape)) + "x" + kind
    total = f"%r = arith.add{'i' if kind[0] == 'i' else 'f'} %x, %y : {kind}"
    if kind == "bf16":
        extensions = "".join(f"%{name}w = arith.extf %{name} : bf16 to f32\n  " for name in "xy")
        total = extensions + "%w = arith.addf %xw, %yw : f32\n  %r = arith.truncf %w : f32 to bf16"
    dims = ", ".join(f"d{i}" for i in range(len(shape)))
    body = f"^bb0(%x: {kind}, %y: {kind}, %o: {kind}):\n  {total}\n  linalg.yield %r : {kind}"
    generic([f"({dims}) -> ({dims})"] * 3, [t] * 3, body).check()


@pytest.mark.parametrize(
    ("source", "target"), [("f32", "i32"), ("f32", "i8"), ("f64", "i64"), ("bf16", "i32"), ("f32", "i64")]
)
@pytest.mark.parametrize("op", ["fptosi", "fptoui"])
def test_float_to_integer_S3(source: str, target: str, op: str) -> None:
    conversion = f"%r = arith.{op} %x : {source} to {target}"
    if source == "bf16":
        conversion = f"%w = arith.extf %x : bf16 to f32\n  %r = arith.{op} %w : f32 to {target}"
    body = f"^bb0(%x: {source}, %o: {target}):\n  {conversion}\n  linalg.yield %r : {target}"
    case = generic(["(i) -> (i)"] * 2, [f"333x{source}", f"333x{target}"], body)
    data = case.arrays()
    data[0][:6] = [2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 255.0, -0.5]
    case.check(data)


@pytest.mark.parametrize("op", ["divsi", "divui", "remsi", "remui", "shli", "shrsi", "shrui"])
@pytest.mark.parametrize("kind", ["i32", "i64", "i8"])
def test_integer_division_and_shift_I1(op: str, kind: str) -> None:
    body = f"^bb0(%x: {kind}, %y: {kind}, %o: {kind}):\n  %r = arith.{op} %x, %y : {kind}\n  linalg.yield %r : {kind}"
    case = generic(["(i) -> (i)"] * 3, [f"333x{kind}"] * 3, body)
    data = case.arrays()
    low = np.iinfo(data[0].dtype).min
    data[0][:5], data[1][:5] = [low, low, 5, 0, -1], [-1, 0, 0, 0, 64]
    case.check(data)


def test_transpose_and_broadcast() -> None:
    body = "^bb0(%x: f32, %y: f32, %o: f32):\n  %r = arith.addf %x, %y : f32\n  linalg.yield %r : f32"
    generic(
        ["(i, j) -> (j, i)", "(i, j) -> (i)", "(i, j) -> (i, j)"], ["45x37xf32", "37xf32", "37x45xf32"], body
    ).check()


LAYOUTS = [((100, 1), 3), ((1, 60), 0), ((110, 2), 5)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("kind", ["f32", "bf16", "i1"])
@pytest.mark.diagonal
def test_parts_of_larger_buffers(layout: tuple, operand: int, kind: str) -> None:
    body = f"^bb0(%x: {kind}, %o: {kind}):\n  linalg.yield %x : {kind}"
    for access in ("(i, j) -> (i, j)", "(i, j) -> (j, i)"):
        shape = (50, 37) if access.endswith("(i, j)") else (37, 50)
        case = generic([access, "(i, j) -> (i, j)"], [f"{shape[0]}x{shape[1]}x{kind}", f"50x37x{kind}"], body)
        case.layouts[operand] = layout
        case.check(levels=["v4", "v2"])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("operand", [0, 1, 2])
@pytest.mark.diagonal
def test_contraction_of_parts_of_larger_buffers_K1(layout: tuple, operand: int) -> None:
    case = matmul(40, 41, 42)
    case.layouts[operand] = layout
    case.check(levels=["v4", "v2"])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("order", [ROW.format(run=1), COLUMN])
def test_fold_of_parts_of_larger_buffers(layout: tuple, order: str) -> None:
    access = "(i, j) -> (i, j)" if order != COLUMN else "(i, j) -> (j, i)"
    shape = (50, 37) if order != COLUMN else (37, 50)
    case = fold(order, [access, "(i, j) -> (i)"], "pr", [f"{shape[0]}x{shape[1]}xf32", "50xf32"], step("arith.addf"))
    case.layouts[0] = layout
    case.check(levels=["v4", "v2"])


def test_other_accesses_than_linear_ones() -> None:
    body = "^bb0(%x: f32, %o: f32):\n  %r = arith.negf %x : f32\n  linalg.yield %r : f32"
    maps = ["(i, j) -> (i floordiv 2, j)", "(i, j) -> (i, j)"]
    generic(maps, ["6x37xf32", "12x37xf32"], body).check(levels=["v4", "v2"])
    maps = ["(i, j) -> (j floordiv 4, j mod 4, i)", "(i, j) -> (i, j)"]
    generic(maps, ["9x4x5xf32", "5x36xf32"], body).check(levels=["v4", "v2"])
    flipped = ["(i, j) -> (4 - i, 35 - j)", "(i, j) -> (i, j)"]
    generic(flipped, ["5x36xf32", "5x36xf32"], body).check(levels=["v4", "v2"])


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "i1"])
@pytest.mark.parametrize("size", [1, 3, 9, 16, 23, 33])
@pytest.mark.diagonal
def test_descending_and_every_second_element(kind: str, size: int) -> None:
    """Reads elements backwards, and reads or writes every second element, in rows of all lengths modulo the vector
    size; the elements between those that it writes must not change."""
    body = f"^bb0(%x: {kind}, %o: {kind}):\n  linalg.yield %x : {kind}"
    maps = [f"(i, j) -> (i, {size - 1} - j)", "(i, j) -> (i, j)"]
    generic(maps, [f"3x{size}x{kind}"] * 2, body).check()
    for operand in (0, 1):
        case = generic(["(i, j) -> (i, j)"] * 2, [f"3x{size}x{kind}"] * 2, body)
        case.layouts[operand] = ((2 * size + 1, 2), 1)
        case.check()


@pytest.mark.parametrize("order", [ROW.format(run=1), COLUMN])
@pytest.mark.parametrize("size", [5, 16, 37])
def test_folds_of_descending_elements(order: str, size: int) -> None:
    for access in (f"(i, j) -> (i, {size - 1} - j)", f"(i, j) -> ({size - 1} - j, i)"):
        shape = (50, size) if access.endswith("- j)") else (size, 50)
        types = [f"{shape[0]}x{shape[1]}xf32", f"{size}xf32", "50xf32"]
        maps = [access, "(i, j) -> (j)", "(i, j) -> (i)"]
        fold(order, maps, "pr", types, step("arith.addf").replace("%x: f32", "%x: f32, %shape: f32")).check()


def check_error(arguments: str, text: str, memory: list[np.ndarray], expected: int) -> None:
    """Checks the error word of a kernel (the number of the failed check, or 0), on all levels that this machine
    runs."""
    for level in RUNNABLE:
        kernel = compile_kernels(kernel_function("kernel", arguments, text), level)["kernel"]
        assert kernel.run(*[m.copy() for m in memory]) == expected


@pytest.mark.parametrize("columns", [3, 16, 37])
@pytest.mark.parametrize("bad", [None, -1, 11, 2**40])
@pytest.mark.diagonal
def test_gather_of_checked_indices_E1(columns: int, bad: int | None) -> None:
    arguments = f"%t: memref<11x{columns}xf32>, %i: memref<20x{columns}xi64>, %o: memref<20x{columns}xf32>"
    index = np.random.default_rng(1).integers(0, 11, (20, columns))
    for access, checked in (("%safe, %column", index), ("%safe, %other", index % columns)):
        text = f"""linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]}}
    ins(%i : memref<20x{columns}xi64>) outs(%o : memref<20x{columns}xf32>) {{
  ^bb0(%p: i64, %z: f32):
    %row = arith.index_cast %p : i64 to index
    %column = linalg.index 1 : index
    %width = arith.constant {columns} : index
    %other = arith.remui %row, %width : index
    %rows = arith.constant 11 : index
    %zero = arith.constant 0 : index
    %ok = arith.cmpi ult, %row, %rows : index
    cf.assert %ok, "no row" {{launch.message = 6 : i64}}
    %safe = arith.select %ok, %row, %zero : index
    %v = memref.load %t[{access}] : memref<11x{columns}xf32>
    linalg.yield %v : f32
  }}"""
        indices = index.copy()
        if bad is not None:
            indices[7, columns - 1] = bad
        table = values(f"11x{columns}xf32")
        out = np.zeros((20, columns), np.float32)
        check_error(arguments, text, [table, indices, out], 0 if bad is None else 7)
        if bad is None:
            kernel = compile_kernels(kernel_function("kernel", arguments, text))["kernel"]
            kernel.run(table, indices, out)
            second = np.arange(columns) if access == "%safe, %column" else checked
            assert out.view(np.uint32).tolist() == table[index, second].view(np.uint32).tolist()


@pytest.mark.parametrize("n", [1, 16, 35])
def test_assertion_E1(n: int) -> None:
    arguments = f"%a: memref<{n}xf32>, %o: memref<{n}xf32>"
    text = f"""linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
    iterator_types = ["parallel"]}} ins(%a : memref<{n}xf32>) outs(%o : memref<{n}xf32>) {{
  ^bb0(%x: f32, %z: f32):
    %zero = arith.constant 0.0 : f32
    %ok = arith.cmpf oge, %x, %zero : f32
    cf.assert %ok, "negative" {{launch.message = 2 : i64}}
    linalg.yield %x : f32
  }}"""
    good = np.ones(n, np.float32)
    bad = good.copy()
    bad[n - 1] = -1
    check_error(arguments, text, [good, good], 0)
    check_error(arguments, text, [bad, good], 3)


@pytest.mark.parametrize("combine", ["add", "replace"])
@pytest.mark.parametrize("bad", [-1, 9, -(2**62)])
def test_scatter_skips_indices_out_of_range_E1(combine: str, bad: int) -> None:
    """The scatter only skips indices that are out of range: a separate assertion, which repro-expand-checks makes,
    checks the indices."""
    found = []
    for left_out in (False, True):
        rows = 29 if left_out else 30
        types = f"memref<{rows}x5xf32>, memref<{rows}x1xi64>"
        arguments = f"%u: memref<{rows}x5xf32>, %i: memref<{rows}x1xi64>, %o: memref<9x5xf32>"
        text = f"repro.scatter {combine} ins(%u, %i : {types}) outs(%o : memref<9x5xf32>)"
        updates, index = values("30x5xf32"), np.random.default_rng(1).integers(0, 9, (30, 1))
        index[11] = bad
        if left_out:
            updates, index = np.delete(updates, 11, 0), np.delete(index, 11, 0)
        out = np.ones((9, 5), np.float32)
        check_error(arguments, text, [updates, index, out], 0)
        compile_kernels(kernel_function("kernel", arguments, text))["kernel"].run(updates, index, out)
        found.append(out.tobytes())
    assert found[0] == found[1]
