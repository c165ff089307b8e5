# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K4) Exact contractions on the matrix arrays of cores have the bits of the reference interpreter."""

from __future__ import annotations

import re

import numpy as np
import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.execute.cores import CoresBackend
from support import catalogue
from support.builder import COLUMN
from support.cores import check, core_plan, mapped, tool


def exact_product(m: int, n: int, k: int, digits: int) -> str:
    b = catalogue.Builder()
    x, y, z = (b.argument(shape, "f32") for shape in ((m, k), (k, n), (m, n)))
    step = "%r0 = math.fma %x0, %x1, %a0 : f32"
    order = f"#repro.exact<digits = {digits}>"
    return b.program(*b.fold(order, "ppr", [(x, "d0, d2"), (y, "d2, d1")], [(z, "d0, d1")], step))


def test_k4_catalogue() -> None:
    for case in catalogue.exact_contractions():
        check(case.program, case.inputs, "tiny-2x2")


def factors(kind: str, shape: tuple[int, int], digits: int, seed: int) -> np.ndarray:
    """Returns factors whose digits are the largest, or other numbers that are hard to round or to scale."""
    random = np.random.default_rng(seed)
    if kind == "largest digits":
        # All digits but the highest one are -128; the magnitude of the first element is the power of two below q.
        q = -(2 ** (8 * digits - 3)) - sum(128 * 256**i for i in range(digits - 1))
        return np.full(shape, q, np.float32)
    if kind == "alternating":
        return np.where(np.indices(shape).sum(0) % 2, -1, 1).astype(np.float32) * np.float32(2**-149 * 255)
    if kind == "ties":
        return (random.integers(-(2**15), 2**15, shape) + np.float32(0.5)).astype(np.float32)
    if kind == "wide":
        return np.ldexp(random.standard_normal(shape), random.integers(-149, 120, shape)).astype(np.float32)
    array = random.standard_normal(shape).astype(np.float32)
    array[0, :2] = {"infinities": [np.inf, -np.inf], "nans": [np.nan, 1], "zeros": [0.0, -0.0]}[kind]
    array[1] = np.float32(1e-45)
    return array


@pytest.mark.parametrize("kind", ["largest digits", "alternating", "ties", "wide", "infinities", "nans", "zeros"])
@pytest.mark.parametrize("digits", [2, 3])
def test_k4_factors_at_the_limits(kind: str, digits: int) -> None:
    # Slices of 342 products, of which the last one is shorter, and blocks that are not full.
    m, n, k = 5, 6, 1025
    inputs = [factors(kind, (m, k), digits, 1), factors(kind, (k, n), digits, 2), np.full((m, n), -0.0, np.float32)]
    program = exact_product(m, n, k, digits)
    backend = check(program, inputs, "tiny-2x2", plan=core_plan(mapped(program, "tiny-2x2", "cuts=fit")))
    assert backend.report["bound_seconds"] <= backend.report["seconds"]
    # (T4) The cores compute parts of 257 products.
    check(program, inputs, "tiny-2x2")


def test_k4_spinnaker2_computes_with_its_arrays() -> None:
    m, n, k = 64, 96, 512
    random = np.random.default_rng(3)
    inputs = [random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n))]
    program = exact_product(m, n, k, 2)
    exact = check(program, inputs, "spinnaker2").report
    ordered = check(re.sub(r"#repro\.exact<[^>]*>", COLUMN, program), inputs, "spinnaker2").report
    assert exact["bounds"]["compute"] < ordered["bounds"]["compute"] / 1.5


OVERFLOW = """
#local = #cores.memory<local>
func.func private @repro_multiply_bytes(i64, i64, i64, i64, i64, i64, i64, i64, i64, i64)
func.func private @multiply(%x: memref<DEPTHxi8> {launch.access = #launch<access read>},
    %y: memref<1xi32> {launch.access = #launch<access write>}, %scratch: memref<?xi8>, %error: memref<1xi64>,
    %begin: index, %end: index)
    attributes {cores.cycles = 2000, launch.work = #launch.work<items = 1, grain = 1, scratch_bytes = 0>} {
  %0 = memref.extract_aligned_pointer_as_index %x : memref<DEPTHxi8> -> index
  %1 = memref.extract_aligned_pointer_as_index %y : memref<1xi32> -> index
  %from = arith.index_cast %0 : index to i64
  %to = arith.index_cast %1 : index to i64
  %one = arith.constant 1 : i64
  %depth = arith.constant DEPTH : i64
  func.call @repro_multiply_bytes(%from, %one, %one, %from, %one, %one, %to, %one, %one, %depth)
      : (i64, i64, i64, i64, i64, i64, i64, i64, i64, i64) -> ()
  return
}
cores.plan @main machine "tiny-2x2" states() inputs(%x: memref<DEPTHxi8> {repro.name = "x"})
    outputs(%y: memref<1xi32> {repro.name = "y"}) arena(%a: memref<32xi8>) messages [] {
  cores.program at [0, 0] scratch [2048, 64] error 4032 {
  ^bb0(%local: memref<4096xi8, #local>):
    %l = launch.view %local[0] : memref<4096xi8, #local> to memref<DEPTHxi8, #local>
    %m = launch.view %local[1024] : memref<4096xi8, #local> to memref<1xi32, #local>
    %0 = cores.copy %x to %l : memref<DEPTHxi8> to memref<DEPTHxi8, #local>
    cores.wait %0
    cores.run @multiply(read %l, write %m) : memref<DEPTHxi8, #local>, memref<1xi32, #local>
    %1 = cores.copy %m to %y : memref<1xi32, #local> to memref<1xi32>
    cores.wait %1
  }
}
"""


def test_k4_an_overflow_is_refused() -> None:
    """A kernel made by hand that adds too many products is refused where its bytes overflow the accumulator."""
    for depth, byte, wants_error in ((511, -128, False), (512, 127, False), (512, -128, True)):
        backend = CoresBackend(core_plan(OVERFLOW.replace("DEPTH", str(depth))))
        x, y = np.full(depth, byte, np.int8), np.zeros(1, np.int32)
        if wants_error:
            with pytest.raises(ReproError, match=r"array: core \[0, 0\], op 2 \(run multiply\): the sum of 512"):
                backend.run([], [x], [y])
        else:
            backend.run([], [x], [y])
            assert y[0] == depth * byte * byte


def test_k4_cycles_of_the_array_are_counted() -> None:
    plan = OVERFLOW.replace("DEPTH", "256").replace("cycles = 2000", "cycles = 255")
    backend = CoresBackend(core_plan(plan))
    with pytest.raises(ReproError, match="takes more cycles of the array than the plan predicts for the kernel, 255"):
        backend.run([], [np.zeros(256, np.int8)], [np.zeros(1, np.int32)])


def test_k4_a_longer_slice_is_refused() -> None:
    text = mapped(exact_product(4, 4, 600, 2), "tiny-2x2", "cuts=fit")
    assert "slice = 300" in text
    with pytest.raises(ValueError, match=r"expected slices of at most 511 products of bytes.*\(K4\), got 600"):
        tool("repro-opt", "--repro-verify-cores", text=text.replace("slice = 300", "slice = 600"))
