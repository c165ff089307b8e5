# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""(S1) Tests `repro_fma`, the f64 fma on CPU levels without an instruction for it.

Compares it with the C library's correctly rounded fma: random bits, sums that cancel, ties, subnormal results,
overflow and special values.
"""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest
from numpy.typing import NDArray
from objects import ROOT

COUNT = 1 << 20
DRIVER = """
#include "Routines.h"
#include <cmath>
extern "C" void ours(const double *a, const double *b, const double *c, double *r, long n) {
  for (long i = 0; i < n; ++i)
    r[i] = repro_fma(a[i], b[i], c[i]);
}
extern "C" void theirs(const double *a, const double *b, const double *c, double *r, long n) {
  for (long i = 0; i < n; ++i)
    r[i] = std::fma(a[i], b[i], c[i]);
}
"""


@pytest.fixture(scope="module")
def routines(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("fma")
    (folder / "driver.cpp").write_text(DRIVER)
    made = folder / "fma.so"
    sources = [str(folder / "driver.cpp"), str(ROOT / "lib/Runtime/Routines.cpp")]
    flags = ["-std=c++17", "-O2", "-shared", "-fPIC", "-fno-builtin-fma", f"-I{ROOT}/lib/Runtime"]
    subprocess.run(["g++", *flags, *sources, "-o", str(made)], check=True)
    return ctypes.CDLL(str(made))


def triples(kind: str) -> list[NDArray[np.float64]]:
    """Returns three arrays of COUNT f64 operands; `kind` is the case that they cover."""
    generator = np.random.default_rng(11)

    def bits() -> NDArray[np.float64]:
        return generator.integers(0, 1 << 64, COUNT, np.uint64, endpoint=False).view(np.float64)

    def mantissas(width: int, exponent: int) -> NDArray[np.float64]:
        m = generator.integers(-(1 << width), 1 << width, COUNT).astype(np.float64)
        return np.ldexp(m, generator.integers(-exponent, exponent + 1, COUNT))

    if kind == "any bits":
        return [bits(), bits(), bits()]
    if kind == "near":
        return [mantissas(53, 2), mantissas(53, 2), mantissas(53, 60)]
    if kind == "cancellation":
        a, b = mantissas(53, 2), mantissas(53, 2)
        c = -(a * b)
        return [a, b, np.nextafter(c, np.inf) if COUNT % 2 else c]
    if kind == "ties":  # operands with few bits, so that ties are common
        return [mantissas(27, 0), mantissas(27, 0), mantissas(3, 106)]
    if kind == "subnormal":
        return [np.ldexp(mantissas(53, 2), -560), np.ldexp(mantissas(53, 2), -560), np.ldexp(mantissas(40, 8), -1074)]
    if kind == "overflow":
        return [np.ldexp(mantissas(53, 1), 459), np.ldexp(mantissas(53, 1), 459), np.ldexp(mantissas(53, 1), 970)]
    special = np.array(
        [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 2.0**-1022, 1.7976931348623157e308, 2.0**-537]
    )
    return [v.ravel() for v in np.meshgrid(special, special, special)]


@pytest.mark.parametrize("kind", ["any bits", "near", "cancellation", "ties", "subnormal", "overflow", "special"])
def test_fma_is_correctly_rounded(routines: ctypes.CDLL, kind: str) -> None:
    with np.errstate(all="ignore"):
        operands = [np.ascontiguousarray(v) for v in triples(kind)]
    results = [np.empty_like(operands[0]) for _ in range(2)]
    for name, result in zip(("ours", "theirs"), results, strict=True):
        pointers = [v.ctypes.data_as(ctypes.c_void_p) for v in (*operands, result)]
        getattr(routines, name)(*pointers, ctypes.c_long(result.size))
    ours, theirs = results
    same = (ours.view(np.uint64) == theirs.view(np.uint64)) | (np.isnan(ours) & np.isnan(theirs))
    wrong = np.flatnonzero(~same)
    assert not wrong.size, [tuple(float(v[i]).hex() for v in (*operands, ours, theirs)) for i in wrong[:3]]
