# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# See https://llvm.org/LICENSE.txt for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the speed of the compiled elementary functions with torch's, on one thread.

Prints a table: function, level, nanoseconds per element of our function and of torch's (with the same vector width),
and torch's time divided by ours. Each time is the best of many runs over 65,536 elements that stay in the cache. Both
functions take turns, so that a busy machine slows both.

Usage: python tools/functions/measure.py LEVEL [FUNCTION ...]
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import time

import numpy as np
from objects import BINARY, ELEMENTS, UNARY, compiled

#: Maps a CPU level to the value of ATEN_CPU_CAPABILITY with which torch uses vectors of the same width.
CAPABILITY = {"x86-64-v3": "avx2", "x86-64-v4": "avx512"}


def operands(name: str) -> list[np.ndarray]:
    """Returns arguments that are not special values: f32 arrays of ELEMENTS elements, and i32 exponents for powi."""
    generator = np.random.default_rng(1)
    x = (generator.random(ELEMENTS) * 2 + 0.1).astype(np.float32)
    if name in ("asin", "acos", "atanh"):
        x *= np.float32(0.4)
    if name == "acosh":
        x += 1
    if name == "powi":
        return [x, generator.integers(-8, 8, ELEMENTS).astype(np.int32)]
    if name in BINARY:
        return [x, (generator.random(ELEMENTS) * 3).astype(np.float32)]
    return [x]


def measure(name: str, level: str, rounds: int = 60) -> tuple[float, float | None]:
    """Returns the nanoseconds per element of our function and of torch's (None if torch does not have the function)."""
    import torch

    torch.set_num_threads(1)
    x = operands(name)
    result = np.empty(ELEMENTS, np.float32)
    function = getattr(compiled(name, level), f"{name}_vector")
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*x, result)]
    theirs = getattr(torch, name, None)
    tensors = [torch.from_numpy(a) for a in x]
    out = torch.empty(ELEMENTS)
    ours_best = theirs_best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        function(*pointers)
        ours_best = min(ours_best, time.perf_counter() - start)
        if theirs is not None:
            start = time.perf_counter()
            theirs(*tensors, out=out)
            theirs_best = min(theirs_best, time.perf_counter() - start)
    scale = 1e9 / ELEMENTS
    return ours_best * scale, None if theirs is None else theirs_best * scale


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("level", choices=CAPABILITY)
    parser.add_argument("functions", nargs="*", default=[])
    arguments = parser.parse_args()
    # torch reads this variable when it is imported.
    os.environ["ATEN_CPU_CAPABILITY"] = CAPABILITY[arguments.level]
    os.environ["MKL_ENABLE_INSTRUCTIONS"] = CAPABILITY[arguments.level].upper()
    for name in arguments.functions or [*UNARY, *BINARY]:
        ours, theirs = measure(name, arguments.level)
        ratio = "" if theirs is None else f"{theirs:8.3f} {theirs / ours:6.2f}"
        print(f"{name:8} {arguments.level} {ours:8.3f} {ratio}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
