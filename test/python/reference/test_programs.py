# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs whole canonical programs in the interpreter and compares their results with scalar loops or simple expected
values."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scalar
from repro_mlir.base.errors import ProgramError, StepFailed
from repro_mlir.base.numerics.hashing import tensor_hash
from repro_mlir.program.canonical import to_bytes
from repro_mlir.reference import structured
from repro_mlir.reference.interpreter import Interpreter
from repro_mlir.reference.program import Operation
from support.builder import Builder, order

RNG = np.random.default_rng(0)


def run(text: str, *arrays: np.ndarray) -> list[np.ndarray]:
    return Interpreter(to_bytes(text)).run(*arrays)


def main(arguments: str, results: str, body: str) -> str:
    return f"func.func @main({arguments}) -> ({results}) attributes {{repro.num_state = 0 : i64}} {{\n{body}\n}}"


def normal(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * np.exp2(RNG.integers(-9, 9, shape))).astype(np.float32)


def assert_bits(got: np.ndarray, want: np.ndarray) -> None:
    want = np.asarray(want, got.dtype)
    assert got.shape == want.shape
    assert got.tobytes() == want.tobytes(), (got, want)


def matmul(m: int, n: int, k: int, chunk: int, element: str = "f32", wide: str = "f32") -> str:
    extend = f"%u = arith.extf %x0 : {element} to f32\n%v = arith.extf %x1 : {element} to f32"
    if element == wide:
        extend = "%zero = arith.constant -0.0 : f32\n%u = arith.addf %x0, %zero : f32\n%v = arith.addf %x1, %zero : f32"
    b = Builder()
    x, y, init = (b.argument(shape, element) for shape in ((m, k), (k, n), (m, n)))
    body = f"{extend}\n%r0 = math.fma %u, %v, %a0 : f32"
    return b.program(*b.fold(order(chunk, 1), "ppr", [(x, "d0, d2"), (y, "d2, d1")], [(init, "d0, d1")], body, ["f32"]))


@pytest.mark.parametrize(("m", "n", "k", "chunk"), [(3, 4, 5, 512), (2, 3, 30, 7), (1, 1, 1, 1), (3, 2, 0, 512)])
def test_matmul_K1_F1(m: int, n: int, k: int, chunk: int) -> None:
    a, b, c = normal(m, k), normal(k, n), normal(m, n)
    (got,) = run(matmul(m, n, k, chunk), a, b, c)
    want = np.empty((m, n), np.float32)
    for i in range(m):
        for j in range(n):
            terms = list(zip(a[i], b[:, j], strict=True))
            step = lambda acc, x, y: scalar.fma(x, y, acc)  # noqa: E731
            want[i, j] = scalar.ordered(terms, c[i, j], np.float32(0), step, np.add, chunk, 1, max(k, 1), False)
    assert_bits(got, want)


@pytest.mark.parametrize(
    ("iterators", "x", "y", "result"),
    [
        ("ppr", ((4, 9), "d0, d2"), ((9, 5), "d2, d1"), ((4, 5), "d0, d1")),
        ("ppr", ((9, 4), "d2, d0"), ((9, 1), "d2, d1"), ((1, 4), "d1, d0")),
        # A batch, and a dimension of the result that neither factor has.
        ("ppppr", ((2, 4, 9), "d0, d1, d4"), ((5, 9, 2), "d2, d4, d0"), ((2, 3, 4, 5), "d0, d3, d1, d2")),
        # Results of rank 0, and factors that are the same for some elements.
        ("rr", ((3, 7), "d0, d1"), ((7,), "d1"), ((), "")),
        ("r", ((), ""), ((9,), "d0"), ((), "")),
        ("prr", ((4,), "d0"), ((3, 7), "d1, d2"), ((4,), "d0")),
        # A square, a window, and a window that moves backwards.
        ("pr", ((4, 9), "d0, d1"), None, ((4,), "d0")),
        ("pprr", ((8, 4), "d0 + d2, d3"), ((3, 4, 5), "d2, d3, d1"), ((6, 5), "d0, d1")),
        ("pprr", ((8, 4), "-d0 - d2 + 7, d3"), ((3, 4, 5), "d2, d3, d1"), ((6, 5), "d0, d1")),
    ],
)
@pytest.mark.parametrize("chunk", [512, 4])
def test_factors_that_are_read_together_K1_F1(
    monkeypatch: pytest.MonkeyPatch, iterators: str, x: Any, y: Any, result: Any, chunk: int
) -> None:
    """Compares contractions with the same ones with a body that is evaluated for one element at a time."""
    inputs = [x] if y is None else [x, y]
    arrays = [normal(*shape) for shape, _ in [*inputs, result]]

    def text(changes: str, names: tuple[str, str]) -> str:
        b = Builder()
        *factors, init = (b.argument(shape, "f32") for shape, _ in [*inputs, result])
        accesses = [(value, access) for value, (_, access) in zip(factors, inputs, strict=True)]
        body = f"{changes}\n%r0 = math.fma {names[0]}, {names[1]}, %a0 : f32"
        return b.program(*b.fold(order(chunk, 1), iterators, accesses, [(init, result[1])], body))

    second = "%x0" if y is None else "%x1"
    plus_zero = f"%z = arith.constant -0.0 : f32\n%u = arith.addf %x0, %z : f32\n%v = arith.addf {second}, %z : f32"
    (want,) = run(text(plus_zero, ("%u", "%v")), *arrays)
    for block, terms in ((structured._CHAIN_BLOCK, structured._TERMS), (3, 5), (1, 1)):
        monkeypatch.setattr(structured, "_CHAIN_BLOCK", block)
        monkeypatch.setattr(structured, "_TERMS", terms)
        assert_bits(run(text("", ("%x0", second)), *arrays)[0], want)


def test_matmul_in_bf16_F7() -> None:
    a, b, c = (np.round(normal(*s) * 4) / 4 for s in ((3, 700), (700, 2), (3, 2)))
    a, b, c = (np.clip(x, -15, 15) for x in (a, b, c))
    bits = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b, c)]
    (got,) = run(matmul(3, 2, 700, 512, "bf16"), *bits)
    a, b, c = ((x.astype(np.uint32) << 16).view(np.float32) for x in bits)
    (wide,) = run(matmul(3, 2, 700, 512), a, b, c)
    rounded = wide.view(np.uint32).astype(np.int64)
    rounded = ((rounded + 0x7FFF + (rounded >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    assert not np.array_equal(got, wide)
    assert_bits(got, rounded)


@pytest.mark.parametrize("stride", [1, 2])
def test_convolution_K2(stride: int) -> None:
    n, c, h, w, o, k = 2, 3, 6, 7, 2, 3
    oh, ow = (h - k) // stride + 1, (w - k) // stride + 1
    x, f, init = normal(n, c, h, w), normal(o, c, k, k), normal(n, o, oh, ow)
    b = Builder()
    image, kernel, start = (b.argument(array.shape, "f32") for array in (x, f, init))
    inputs = [(image, f"d0, d4, d2 * {stride} + d5, d3 * {stride} + d6"), (kernel, "d1, d4, d5, d6")]
    body = "%r0 = math.fma %x0, %x1, %a0 : f32"
    text = b.program(*b.fold(order(10, 1), "pppprrr", inputs, [(start, "d0, d1, d2, d3")], body))
    (got,) = run(text, x, f, init)
    want = np.empty_like(got)
    for b, q, y, z in np.ndindex(*want.shape):
        window = x[b, :, y * stride : y * stride + k, z * stride : z * stride + k]
        terms = list(zip(window.reshape(-1), f[q].reshape(-1), strict=True))
        step = lambda acc, u, v: scalar.fma(u, v, acc)  # noqa: E731
        want[b, q, y, z] = scalar.ordered(terms, init[b, q, y, z], np.float32(0), step, np.add, 10, 1, 27, False)
    assert_bits(got, want)


def reduction(shape: tuple[int, ...], reduced: list[int], ordering: str, step: str, element: str = "f32") -> str:
    """Returns a program that folds the dimensions `reduced`. The result's dimensions are reversed, to test output
    maps."""
    kept = [i for i in range(len(shape)) if i not in reduced][::-1]
    dims, results = (", ".join(f"d{i}" for i in chosen) for chosen in (range(len(shape)), kept))
    b = Builder()
    x, init = b.argument(shape, element), b.argument([shape[i] for i in kept], element)
    iterators = "".join("r" if i in reduced else "p" for i in range(len(shape)))
    return b.program(*b.fold(ordering, iterators, [(x, dims)], [(init, results)], step))


@pytest.mark.parametrize(("shape", "reduced"), [((3, 70), [1]), ((4, 3, 5, 7), [0, 2, 3]), ((2, 9, 11), [0, 1, 2])])
@pytest.mark.parametrize("run_dims", [0, 1, 2])
@pytest.mark.parametrize("totals", ["sequential", "refold"])
def test_sum_in_lanes_F1_F3(shape: tuple[int, ...], reduced: list[int], run_dims: int, totals: str) -> None:
    run_dims = min(run_dims, len(reduced))
    text = reduction(shape, reduced, order(50, 8, run_dims, totals), "%r0 = arith.addf %x0, %a0 : f32")
    kept = [i for i in range(len(shape)) if i not in reduced]
    x, init = normal(*shape), normal(*(shape[i] for i in kept[::-1]))
    (got,) = run(text, x, init)
    columns = x.transpose(*kept[::-1], *reduced).reshape(*init.shape, -1)
    r = math.prod(shape[i] for i in reduced[len(reduced) - run_dims :]) if run_dims else columns.shape[-1]
    for where in np.ndindex(*init.shape):
        terms = [(v,) for v in columns[where]]
        want = scalar.ordered(terms, init[where], np.float32(0), np.add, np.add, 50, 8, r, totals == "refold")
        assert_bits(got[where], want)


@pytest.mark.parametrize("shape", [(3, 70), (70, 80), (2, 0)])
def test_any_order_F5(shape: tuple[int, ...]) -> None:
    x, init = normal(*shape), np.full(shape[0], -np.inf, np.float32)
    text = reduction(shape, [1], "#repro.any_order", "%r0 = arith.maximumf %x0, %a0 : f32")
    assert_bits(run(text, x, init)[0], x.max(axis=1, initial=-np.inf))
    whole = RNG.integers(-(2**31), 2**31, shape).astype(np.int32)
    text = reduction(shape, [1], "#repro.any_order", "%r0 = arith.addi %x0, %a0 : i32", "i32")
    assert_bits(run(text, whole, np.ones(shape[0], np.int32))[0], whole.sum(axis=1, dtype=np.int32) + np.int32(1))
    mask = RNG.random(shape) < 0.9
    text = reduction(shape, [1], "#repro.any_order", "%r0 = arith.andi %x0, %a0 : i1", "i1")
    assert_bits(run(text, mask, np.ones(shape[0], np.bool_))[0], mask.all(axis=1))


def test_sequential_body_F6() -> None:
    """Computes Welford's running mean and sum of squared differences: a body with two results that does not start from
    a neutral element."""
    text = main(
        "%x: tensor<2x9xf32>, %m: tensor<2xf32>, %s: tensor<2xf32>",
        "tensor<2xf32>, tensor<2xf32>",
        """
  %0:2 = repro.fold #repro.sequential
      maps [affine_map<(i, t) -> (i, t)>, affine_map<(i, t) -> (i)>, affine_map<(i, t) -> (i)>]
      iterators [parallel, reduction] ins(%x : tensor<2x9xf32>) outs(%m, %s : tensor<2xf32>, tensor<2xf32>) {
    ^bb0(%u: f32, %mean: f32, %square: f32):
      %one = arith.constant 1 : index
      %t = repro.index 1 : index
      %n = arith.addi %t, %one : index
      %i = arith.index_cast %n : index to i64
      %f = arith.sitofp %i : i64 to f32
      %d = arith.subf %u, %mean : f32
      %q = arith.divf %d, %f : f32
      %new = arith.addf %mean, %q : f32
      %e = arith.subf %u, %new : f32
      %more = math.fma %d, %e, %square : f32
      repro.yield %new, %more : f32, f32
    } -> tensor<2xf32>, tensor<2xf32>
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xf32>""",
    )
    x, mean, square = normal(2, 9), normal(2), normal(2)
    got = run(text, x, mean, square)
    for i in range(2):
        m, s = mean[i], square[i]
        for t in range(9):
            d = x[i, t] - m
            m = m + d / np.float32(t + 1)
            s = scalar.fma(d, x[i, t] - m, s)
        assert_bits(got[0][i], m)
        assert_bits(got[1][i], s)


def elementwise(body: str, *types: str, result: str, n: int) -> str:
    """Returns a program with one linalg.generic over n elements; its body takes %x0, %x1, ... and yields %r."""
    b = Builder()
    arguments = [(b.argument((n,), each), "d0") for each in types]
    return b.program(*b.generic((n,), arguments, body, result, yields=["%r"]))


INF, NAN = math.inf, math.nan
BITS_OF_X0 = """%u = arith.cmpf uno, %x0, %x0 : f32
      %q = arith.constant 0x7FC00000 : i32
      %b = arith.bitcast %x0 : f32 to i32
      %r = arith.select %u, %q, %b : i32"""

ELEMENTWISE = [
    ("%r = arith.remf %x0, %x1 : f32", "f32", ["f32", "f32"], [[-4, 5.5, 1], [2, 2, 0]], [-0.0, 1.5, NAN]),
    ("%r = arith.negf %x0 : f32", "f32", ["f32"], [[0.0, -0.0, 1]], [-0.0, 0.0, -1]),
    ("%r = arith.maximumf %x0, %x1 : f32", "f32", ["f32", "f32"], [[-0.0, NAN, 1], [0.0, 1, -INF]], [0.0, NAN, 1]),
    ("%r = math.round %x0 : f32", "f32", ["f32"], [[2.5, -2.5, -0.4]], [3, -3, -0.0]),
    ("%r = math.roundeven %x0 : f32", "f32", ["f32"], [[2.5, -3.5, -0.4]], [2, -4, -0.0]),
    ("%r = math.copysign %x0, %x1 : f32", "f32", ["f32", "f32"], [[1, 1, -1], [-0.0, -NAN, NAN]], [-1, 1, 1]),
    ("%r = arith.fptosi %x0 : f32 to i8", "i8", ["f32"], [[1e9, -1e9, NAN]], [127, -128, 0]),
    ("%r = arith.fptoui %x0 : f32 to i8", "i8", ["f32"], [[1e9, -1e9, 200.9]], [-1, 0, -56]),
    ("%r = arith.sitofp %x0 : i1 to f32", "f32", ["i1"], [[True, False]], [-1, 0]),
    ("%r = arith.uitofp %x0 : i1 to f32", "f32", ["i1"], [[True, False]], [1, 0]),
    ("%r = arith.uitofp %x0 : i8 to f32", "f32", ["i8"], [[-1, 5]], [255, 5]),
    ("%r = arith.divsi %x0, %x1 : i8", "i8", ["i8", "i8"], [[-128, 5, -7], [-1, 0, 2]], [-128, -1, -3]),
    ("%r = arith.remsi %x0, %x1 : i8", "i8", ["i8", "i8"], [[-128, 5, -7], [-1, 0, 2]], [0, 5, -1]),
    ("%r = arith.shli %x0, %x1 : i8", "i8", ["i8", "i8"], [[1, 1, 3], [7, 8, -1]], [-128, 0, 0]),
    ("%r = arith.shrsi %x0, %x1 : i8", "i8", ["i8", "i8"], [[-100, -1, 100], [3, 8, 99]], [-13, -1, 0]),
    ("%r = arith.shrui %x0, %x1 : i8", "i8", ["i8", "i8"], [[-1, -1, 3], [1, 8, 1]], [127, 0, 1]),
    ("%r = arith.muli %x0, %x1 : i32", "i32", ["i32", "i32"], [[2**31 - 1, 7], [2, -3]], [-2, -21]),
    ("%r = arith.maxui %x0, %x1 : i8", "i8", ["i8", "i8"], [[-1, 3], [5, 4]], [-1, 4]),
    ("%r = arith.maxsi %x0, %x1 : i8", "i8", ["i8", "i8"], [[-1, 3], [5, 4]], [5, 4]),
    ("%r = arith.extui %x0 : i8 to i32", "i32", ["i8"], [[-1, 1]], [255, 1]),
    ("%r = arith.extsi %x0 : i1 to i32", "i32", ["i1"], [[True, False]], [-1, 0]),
    ("%r = arith.trunci %x0 : i32 to i8", "i8", ["i32"], [[200, -129]], [-56, 127]),
    ("%r = arith.addi %x0, %x1 : i1", "i1", ["i1", "i1"], [[True, True], [True, False]], [False, True]),
    ("%r = arith.cmpi slt, %x0, %x1 : i8", "i1", ["i8", "i8"], [[-1, 1], [1, -1]], [True, False]),
    ("%r = arith.cmpi ult, %x0, %x1 : i8", "i1", ["i8", "i8"], [[-1, 1], [1, -1]], [False, True]),
    ("%r = arith.cmpi slt, %x0, %x1 : i1", "i1", ["i1", "i1"], [[True, False], [False, True]], [True, False]),
    ("%r = arith.cmpf ult, %x0, %x1 : f32", "i1", ["f32", "f32"], [[NAN, 1, 2], [1, 1, 3]], [True, False, True]),
    ("%r = arith.cmpf one, %x0, %x1 : f32", "i1", ["f32", "f32"], [[NAN, 1, 2], [1, 1, 3]], [False, False, True]),
    ("%r = arith.cmpf une, %x0, %x1 : f32", "i1", ["f32", "f32"], [[NAN, 1, 2], [1, 1, 3]], [True, False, True]),
    ("%r = arith.cmpf ord, %x0, %x1 : f32", "i1", ["f32", "f32"], [[NAN, 1], [1, 1]], [False, True]),
    (BITS_OF_X0, "i32", ["f32"], [[1.0, -NAN]], [0x3F800000, 0x7FC00000]),
    ("%r = arith.bitcast %x0 : i32 to f32", "f32", ["i32"], [[0x3F800000, 1]], [1.0, 2.0**-149]),
    ("%r = math.ctlz %x0 : i32", "i32", ["i32"], [[0, 1, -1]], [32, 31, 0]),
    ("%r = math.cttz %x0 : i8", "i8", ["i8"], [[0, 8]], [8, 3]),
    ("%r = math.absi %x0 : i8", "i8", ["i8"], [[-128, -3]], [-128, 3]),
    ("%l, %r = arith.mului_extended %x0, %x1 : i32", "i32", ["i32", "i32"], [[-1, 5], [-1, 5]], [-2, 0]),
    ("%l, %r = arith.mulsi_extended %x0, %x1 : i32", "i32", ["i32", "i32"], [[-1, 2**31 - 1], [-1, 4]], [0, 1]),
    ("%l, %r = arith.addui_extended %x0, %x1 : i8, i1", "i1", ["i8", "i8"], [[-1, 5], [1, 5]], [True, False]),
    ("%r = repro.exp %x0 : f32", "f32", ["f32"], [[0, -INF, 1]], [1, 0, float(np.float32(math.e))]),
    ("%r = repro.pow %x0, %x1 : f32", "f32", ["f32", "f32"], [[2, -2, 9], [3, 3, 0.5]], [8, -8, 3]),
    ("%r = repro.powi %x0, %x1 : f32, i32", "f32", ["f32", "i32"], [[2, -2], [-3, 3]], [0.125, -8]),
    ("%r = arith.truncf %x0 : f64 to f32", "f32", ["f64"], [[1 + 2.0**-24, 1e300]], [1, INF]),
    ("%r = arith.truncf %x0 : f32 to f8E4M3FN", "f8E4M3FN", ["f32"], [[464, 465, 1.0625]], [448, NAN, 1]),
    ("%r = arith.truncf %x0 : f32 to f8E5M2", "f8E5M2", ["f32"], [[61439, 61440, 1e-9]], [57344, INF, 0]),
]
NUMPY = {"f32": "f4", "f64": "f8", "f16": "f4", "bf16": "f4", "f8E4M3FN": "f4", "f8E5M2": "f4", "i1": "?"}
NUMPY |= {"i8": "i1", "i32": "i4", "i64": "i8"}


@pytest.mark.parametrize(
    ("body", "result", "types", "operands", "want"), ELEMENTWISE, ids=lambda v: v if isinstance(v, str) else ""
)
def test_elementwise(body: str, result: str, types: list[str], operands: list[list], want: list) -> None:
    text = elementwise(body, *types, result=result, n=len(want))
    arrays = [np.array(values, NUMPY[t]) for values, t in zip(operands, types, strict=True)]
    assert_bits(run(text, *arrays)[0], np.array(want, NUMPY[result]))


def test_generic_with_gather_and_transpose() -> None:
    text = main(
        "%t: tensor<5x3xf32>, %i: tensor<4xi64>",
        "tensor<3x4xf32>",
        """
  %e = tensor.empty() : tensor<3x4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r)>, affine_map<(r, c) -> (c, r)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<4xi64>) outs(%e : tensor<3x4xf32>) {
    ^bb0(%j: i64, %o: f32):
      %row = arith.index_cast %j : i64 to index
      %column = linalg.index 1 : index
      %v = tensor.extract %t[%row, %column] : tensor<5x3xf32>
      linalg.yield %v : f32
  } -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>""",
    )
    table, rows = normal(5, 3), np.array([4, 0, 4, 2])
    assert_bits(run(text, table, rows)[0], table[rows].T)
    with pytest.raises(StepFailed, match=r"expected an index of dimension 0 .* got 5"):
        run(text, table, np.array([0, 5, 1, 2]))


def test_assertion_E1() -> None:
    text = main(
        "%x: tensor<i1>",
        "tensor<i1>",
        """
  %c = tensor.extract %x[] : tensor<i1>
  cf.assert %c, "expected a true x"
  return %x : tensor<i1>""",
    )
    assert run(text, np.array(True))[0]
    with pytest.raises(StepFailed, match="expected a true x"):
        run(text, np.array(False))


def test_movements() -> None:
    text = main(
        "%x: tensor<4x6xf32>",
        "tensor<2x3xf32>, tensor<4x6xf32>, tensor<2x2x6xf32>, tensor<24xf32>, tensor<6x9xf32>, tensor<8x6xf32>, "
        "tensor<2xf32>, tensor<6xf32>",
        """
  %v = arith.constant 7.0 : f32
  %a = tensor.extract_slice %x[1, 0] [2, 3] [2, 2] : tensor<4x6xf32> to tensor<2x3xf32>
  %b = tensor.insert_slice %a into %x[0, 3] [2, 3] [1, 1] : tensor<2x3xf32> into tensor<4x6xf32>
  %c = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 2, 6] : tensor<4x6xf32> into tensor<2x2x6xf32>
  %d = tensor.collapse_shape %x [[0, 1]] : tensor<4x6xf32> into tensor<24xf32>
  %p = tensor.pad %x low[1, 0] high[1, 3] {
    ^bb0(%i: index, %j: index):
      tensor.yield %v : f32
  } : tensor<4x6xf32> to tensor<6x9xf32>
  %q = tensor.concat dim(0) %x, %b : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %f = tensor.from_elements %v, %v : tensor<2xf32>
  %r = tensor.extract_slice %x[2, 0] [1, 6] [1, 1] : tensor<4x6xf32> to tensor<6xf32>
  return %a, %b, %c, %d, %p, %q, %f, %r : tensor<2x3xf32>, tensor<4x6xf32>, tensor<2x2x6xf32>, tensor<24xf32>,
      tensor<6x9xf32>, tensor<8x6xf32>, tensor<2xf32>, tensor<6xf32>""",
    )
    x = normal(4, 6)
    a, b, c, d, p, q, f, r = run(text, x)
    assert_bits(a, x[1:4:2, 0:5:2])
    want = x.copy()
    want[0:2, 3:6] = x[1:4:2, 0:5:2]
    assert_bits(b, want)
    assert_bits(c, x.reshape(2, 2, 6))
    assert_bits(d, x.reshape(24))
    assert_bits(p, np.pad(x, ((1, 1), (0, 3)), constant_values=7))
    assert_bits(q, np.concatenate([x, want]))
    assert_bits(f, [7, 7])
    assert_bits(r, x[2])


def test_constants() -> None:
    text = main(
        "",
        "tensor<2x2xbf16>, tensor<3xi1>, tensor<2xi8>, tensor<2xf8E5M2>, tensor<2xf32>, tensor<2xf16>, tensor<2xi64>",
        """
  %a = arith.constant dense<[[1.5, -0.0], [0x7F80, 0xFFC1]]> : tensor<2x2xbf16>
  %b = arith.constant dense<[true, false, true]> : tensor<3xi1>
  %c = arith.constant dense<[-8, 7]> : tensor<2xi8>
  %d = arith.constant dense<1.75> : tensor<2xf8E5M2>
  %e = arith.constant dense<[0xFFC00001, 0x00000001]> : tensor<2xf32>
  %f = arith.constant dense<[0.1, 65504.0]> : tensor<2xf16>
  %g = arith.constant dense<[-1, 9223372036854775807]> : tensor<2xi64>
  return %a, %b, %c, %d, %e, %f, %g : tensor<2x2xbf16>, tensor<3xi1>, tensor<2xi8>, tensor<2xf8E5M2>, tensor<2xf32>,
      tensor<2xf16>, tensor<2xi64>""",
    )
    a, b, c, d, e, f, g = run(text)
    assert_bits(a, [[1.5, -0.0], [math.inf, math.nan]])
    assert_bits(b, [True, False, True])
    assert_bits(c, [-8, 7])
    assert_bits(d, [1.75, 1.75])
    assert_bits(e, np.array([0x7FC00000, 1], np.uint32).view(np.float32))
    assert_bits(f, np.array([0.1, 65504], np.float16).astype(np.float32))
    assert_bits(g, [-1, 2**63 - 1])


def test_data_dependent_operations_D1_D2_D3_R1() -> None:
    text = main(
        "%x: tensor<2x5xf32>, %u: tensor<3x5xf32>, %w: tensor<3x1xi32>, %k: tensor<i64>, %n: tensor<i64>",
        "tensor<2xf32>, tensor<2xi64>, tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>, tensor<3xf32>, tensor<3xi32>",
        """
  %seed = tensor.extract %k[] : tensor<i64>
  %step = tensor.extract %n[] : tensor<i64>
  %e1 = tensor.empty() : tensor<2xf32>
  %e2 = tensor.empty() : tensor<2xi64>
  %e3 = tensor.empty() : tensor<3xf32>
  %e4 = tensor.empty() : tensor<3xi32>
  %v, %i = repro.arg_reduce max dimension = 1 ins(%x : tensor<2x5xf32>) outs(%e1, %e2 : tensor<2xf32>, tensor<2xi64>)
      -> tensor<2xf32>, tensor<2xi64>
  %s = repro.scatter add ins(%u, %w : tensor<3x5xf32>, tensor<3x1xi32>) outs(%x : tensor<2x5xf32>) -> tensor<2x5xf32>
  %c = repro.scan add dimension = 1 ins(%x : tensor<2x5xf32>) outs(%x : tensor<2x5xf32>) -> tensor<2x5xf32>
  %o = repro.sort descending dimension = 1 ins(%x : tensor<2x5xf32>) outs(%x : tensor<2x5xf32>) -> tensor<2x5xf32>
  %r = repro.random uniform site = 3 ins(%seed, %step : i64, i64) outs(%e3 : tensor<3xf32>) -> tensor<3xf32>
  %b = repro.random bits site = 3 ins(%seed, %step : i64, i64) outs(%e4 : tensor<3xi32>) -> tensor<3xi32>
  return %v, %i, %s, %c, %o, %r, %b : tensor<2xf32>, tensor<2xi64>, tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>,
      tensor<3xf32>, tensor<3xi32>""",
    )
    x, u, w = normal(2, 5), normal(3, 5), np.array([[1], [0], [1]], np.int32)
    x[0, 3] = np.nan
    v, i, s, c, o, r, b = run(text, x, u, w, np.array(-5), np.array(2))
    assert_bits(v, [np.nan, x[1].max()])
    assert_bits(i, [3, x[1].argmax()])
    assert_bits(s[:, :3], (x + np.stack([u[1], u[0] + u[2]]))[:, :3])
    assert_bits(c[1], np.array(scalar.scan(list(x[1]), np.add), np.float32))
    assert_bits(o[0], [np.nan, *sorted(x[0][[0, 1, 2, 4]].tolist(), reverse=True)])
    words = scalar.philox((0, 0, 3, 2), (2**32 - 5, 2**32 - 1))[:3]
    assert_bits(b, np.array(words, np.uint32).view(np.int32))
    assert_bits(r, [(word >> 8) * 2.0**-24 for word in words])
    with pytest.raises(StepFailed, match="got 2"):
        run(text, x, u, w + 1, np.array(-5), np.array(2))
    with pytest.raises(StepFailed, match="expected a step within"):
        run(text, x, u, w, np.array(-5), np.array(-1))


def with_body(text: str, old: bytes, new: bytes) -> bytes:
    """Returns the stored bytes of a program with `old` replaced by `new`. No verifier has checked the result."""
    data = to_bytes(text)
    assert data.count(old) == 1
    size = struct.unpack_from("<Q", data, 24)[0] + len(new) - len(old)
    return data[:24] + struct.pack("<Q", size) + data[32:].replace(old, new)


def test_errors_name_operation_and_place() -> None:
    """The interpreter itself rejects programs that the compiler's verifier would have rejected, and names the location
    of the operation."""
    zeros = [np.zeros((2, 3), np.float32), np.zeros(2, np.float32)]
    text = reduction((2, 3), [1], order(8, 1), "%r0 = arith.addf %a0, %x0 : f32")
    with pytest.raises(ProgramError, match=r"^-:2:9: 'repro.fold': \(F6\) expected a body acc = op"):
        Interpreter(with_body(text, b"arith.addf", b"arith.subf")).run(*zeros)
    text = reduction((2, 3), [1], "#repro.any_order", "%r0 = arith.maximumf %a0, %x0 : f32")
    segments = struct.pack("<3Q", 2, 1, 1)
    exact = with_body(text, b"\0\1\1" + segments, b"\0\1\3" + struct.pack("<Q", 3) + segments)
    with pytest.raises(ProgramError, match=r"'repro.fold': \(K4\) expected acc = math.fma"):
        Interpreter(exact).run(*zeros)
    text = elementwise("%r = arith.extf %x0 : f8E5M2 to bf16", "f8E5M2", result="bf16", n=1)
    with pytest.raises(ProgramError, match=r"'repro.exp2': \(V1\) expected a computation in f32 or f64, got bf16"):
        Interpreter(with_body(text, b"arith.extf", b"repro.exp2")).run(np.zeros(1, np.float32))
    text = main(
        "%x: tensor<4xf32>",
        "tensor<2xf32>",
        """
  %0 = tensor.extract_slice %x[2] [2] [1] : tensor<4xf32> to tensor<2xf32>
  return %0 : tensor<2xf32>""",
    )
    wrong = with_body(text, struct.pack("<4Q", 1, 2, 1, 2), struct.pack("<4Q", 1, 3, 1, 2))
    with pytest.raises(ProgramError, match=r"\(A3\) expected a slice of dimension 0 within 0 .. 3, got offset 3"):
        Interpreter(wrong).run(np.zeros(4, np.float32))


def test_arguments_that_do_not_fit() -> None:
    identity = main("%x: tensor<2xf32>", "tensor<2xf32>", "return %x : tensor<2xf32>")
    for arrays, message in (
        ([], "expected 1 arguments, got 0"),
        ([np.zeros(3, np.float32)], r"argument 0: expected shape \(2,\), got \(3,\)"),
        ([np.zeros(2)], "expected float32 for tensor<2xf32>, got float64"),
    ):
        with pytest.raises(ProgramError, match=message):
            run(identity, *arrays)
    low = main("%x: tensor<1xbf16>", "tensor<1xbf16>", "return %x : tensor<1xbf16>")
    with pytest.raises(ProgramError, match="values that bf16 represents"):
        run(low, np.array([1.001], np.float32))


def test_trace_sees_every_operation() -> None:
    seen = []
    text = main(
        "%t: tensor<f32>",
        "tensor<f32>",
        """
  %x = tensor.extract %t[] : tensor<f32>
  %0 = arith.addf %x, %x : f32
  %1 = arith.mulf %0, %x : f32
  %2 = tensor.from_elements %1 : tensor<f32>
  return %2 : tensor<f32>""",
    )

    def see(op: Operation, operands: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
        seen.append((op.name, float(results[0])))

    Interpreter(to_bytes(text)).run(np.array(3, np.float32), trace=see)
    assert seen == [("tensor.extract", 3), ("arith.addf", 6), ("arith.mulf", 18), ("tensor.from_elements", 18)]


def test_tensor_hash_H1() -> None:
    import blake3

    header = b"repro-tensor-v1\0" + b"f32".ljust(16, b"\0") + (2).to_bytes(4, "little")
    header += (1).to_bytes(8, "little") + (2).to_bytes(8, "little")
    data = np.array([0x80000000, 0x7FC00000], "<u4").tobytes()
    array = np.array([[-0.0, -np.nan]], np.float32)
    assert tensor_hash(array, "f32") == blake3.blake3(header + data).hexdigest()
    assert tensor_hash(array.T, "f32") != tensor_hash(array, "f32")
    assert tensor_hash(np.array([True]), "i1") != tensor_hash(np.array([1], np.int8), "i8")
    bits = np.array([0x3F80, 0xFFC1], np.uint16)
    assert tensor_hash(bits, "bf16") == tensor_hash(np.array([1, np.nan], np.float32), "bf16")
    with pytest.raises(TypeError, match="expected an array of i32"):
        tensor_hash(array, "i32")


@pytest.mark.parametrize("element", ["i1", "i8", "i64", "f16", "bf16", "f8E4M3FN", "f32", "f64"])
def test_insertion_into_an_argument_of_rank_0(element: str) -> None:
    """NumPy functions return scalars instead of arrays of rank 0, and a slice cannot be assigned to a scalar."""
    text = main(
        f"%part: tensor<{element}>, %whole: tensor<{element}>",
        f"tensor<{element}>",
        f"%0 = tensor.insert_slice %part into %whole[] [] [] : tensor<{element}> into tensor<{element}>\n"
        f"return %0 : tensor<{element}>",
    )
    dtype = {"i1": "?", "i8": "i1", "i64": "i8", "f16": "u2", "bf16": "u2", "f8E4M3FN": "u1", "f32": "f4", "f64": "f8"}
    one, zero = np.ones((), dtype[element]), np.zeros((), dtype[element])
    (got,) = run(text, one, zero)
    assert got.shape == () and got != 0
