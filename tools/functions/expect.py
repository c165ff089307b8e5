# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# See https://llvm.org/LICENSE.txt for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Computes the expected results for the 2^32 inputs of each unary function (S5).

An f64 vector function of the C library (libmvec, documented to 4 units in the last place) decides every input whose
rounding an error of 2^-45 cannot change; MPFR decides the others, about one in 2^20. No code of the compiler is
involved.

Writes expected/<function>.txt: 256 sums (see Driver.cpp) of the blocks of 2^24 inputs, then the hard cases: the inputs
whose result is within 2^-48 of a rounding boundary. Needs a processor with AVX-512 and glibc 2.35.

Usage: python tools/functions/expect.py [FUNCTION ...]
"""

from __future__ import annotations

import argparse
import ctypes
import sys

import gmpy2
import numpy as np
from objects import BLOCKS, EXPECTED, UNARY, driver, progress, reference

MARGIN = 2.0**-45
HARD_MARGIN = 2.0**-48


def is_hard(name: str, x: float) -> bool:
    """Returns whether the exact result lies within HARD_MARGIN of a rounding boundary."""
    with gmpy2.context(precision=120):
        exact = reference.EXACT[name](gmpy2.mpfr(x))
        below, above = exact * (1 - HARD_MARGIN), exact * (1 + HARD_MARGIN)
    return _to_f32(below) != _to_f32(above)


def _to_f32(value: gmpy2.mpfr) -> float:
    with gmpy2.context(reference.F32_CONTEXT):
        return float(+value)


def expect(name: str) -> None:
    """Computes the expected results of one function and writes its file expected/<function>.txt."""
    lib = driver()
    vector = ctypes.CDLL("libmvec.so.1")
    # libmvec has no reciprocal square root.
    symbol = lib.rsqrt_lanes if name == "rsqrt" else getattr(vector, f"_ZGVeN8v_{name}")
    undecided = np.empty(1 << 24, np.uint32)
    count = ctypes.c_int64()
    sums: list[int] = []
    hard: list[int] = []
    for block in range(BLOCKS):
        progress(f"{name} expected", block, BLOCKS)
        total = lib.library_block(
            ctypes.cast(symbol, ctypes.c_void_p),
            ctypes.c_uint32(block),
            ctypes.c_double(MARGIN),
            undecided.ctypes.data_as(ctypes.c_void_p),
            ctypes.byref(count),
        )
        inputs = undecided[: count.value]
        for u, x in zip(inputs.tolist(), inputs.view(np.float32).tolist(), strict=True):
            exact = np.float32(reference.round_exact(name, x)).view(np.uint32)
            total += lib.mix_result(ctypes.c_uint32(u), ctypes.c_uint32(int(exact)))
            if is_hard(name, x):
                hard.append(u)
        sums.append(total % 2**64)
    EXPECTED.mkdir(exist_ok=True)
    lines = [f"{s:016x}" for s in sums] + ["hard"] + [f"{u:08x}" for u in hard]
    (EXPECTED / f"{name}.txt").write_text("\n".join(lines) + "\n")
    progress(f"{name} expected", BLOCKS, BLOCKS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("functions", nargs="*", default=[])
    arguments = parser.parse_args()
    for name in arguments.functions or UNARY:
        expect(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
