# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# See https://llvm.org/LICENSE.txt for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Moves coefficients by units in the last place until every hard case rounds correctly.

Compiles the formulas of the compiler (Formulas.h) for this machine, with tables that can change. Tries random small
moves of a table on the hard cases of expected/<function>.txt alone, and records the first table that rounds all of them
correctly in tuning.json, which derive.py applies. check.py must then confirm the table on all inputs.

If no table rounds all cases correctly and at most --patches inputs remain, they are written to patches.json.

Usage: python tools/functions/tune.py FUNCTION TABLE [TABLE ...]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import pathlib
import random
import subprocess
import sys

import derive
import numpy as np
from objects import BLOCKS, BUILD, EXPECTED, ROOT, reference

#: Odd and even functions, which look up |x| in the patches.
PATCHED_BY_MAGNITUDE = "asin asinh atan atanh cbrt cos cosh sinh tanh".split()


def tuner(function: str, tables: list[str]) -> ctypes.CDLL:
    """Builds and loads a library for this machine that contains `function`, with writable copies of the tables that
    `function` reads."""
    BUILD.mkdir(parents=True, exist_ok=True)
    source, made = BUILD / f"tune_{function}.cpp", BUILD / f"tune_{function}.so"
    pointers = "\n".join(f'extern "C" double *table_{t}() {{ return k{t}; }}' for t in tables)
    source.write_text(f"""
#define REPRO_FUNCTION_TABLE static
#include "lib/Codegen/Functions/Formulas.h"
#include "tools/functions/VectorMachine.h"
using namespace mlir::repro::functions;
extern "C" void apply(const float *x, float *y, long n) {{
  VectorMachine m;
  Formulas<VectorMachine> f(m);
  for (long i = 0; i < n; i += 8)
    m.store(y + i, f.{function}(m.load(x + i)));
}}
{pointers}
""")
    flags = ["-O2", "-march=native", "-ffp-contract=off", "-std=c++17", "-shared", "-fPIC", f"-I{ROOT}"]
    subprocess.run(["g++", *flags, str(source), "-o", str(made)], check=True)
    library = ctypes.CDLL(str(made))
    for t in tables:
        getattr(library, f"table_{t}").restype = ctypes.POINTER(ctypes.c_double)
    return library


class Cases:
    """The hard cases of one function, and a library that computes it with tables that can change."""

    def __init__(self, function: str, tables: list[str]) -> None:
        lines = (EXPECTED / f"{function}.txt").read_text().split()
        bits = np.array([int(u, 16) for u in lines[BLOCKS + 1 :]], np.uint32)
        self.bits = bits
        self.count = len(bits)
        padded = np.concatenate([bits, np.full(-len(bits) % 8, 0x3F800000, np.uint32)])
        self.x = padded.view(np.float32)
        self.y = np.empty_like(self.x)
        exact = [reference.round_exact(function, float(x)) for x in self.x[: self.count]]
        self.right = np.array(exact, np.float32).view(np.uint32)
        self.library = tuner(function, tables)
        self.tables = [getattr(self.library, f"table_{t}")() for t in tables]

    def failing(self, coefficients: list[list[float]]) -> np.ndarray:
        """Returns the indices of the hard cases whose results are wrong with these tables."""
        for table, values in zip(self.tables, coefficients, strict=True):
            for j, value in enumerate(values):
                table[j] = value
        pointer = ctypes.c_void_p
        self.library.apply(pointer(self.x.ctypes.data), pointer(self.y.ctypes.data), ctypes.c_long(len(self.x)))
        return np.flatnonzero(self.y.view(np.uint32)[: self.count] != self.right)


def ulp(x: float) -> float:
    """Returns the unit in the last place of x, by which derive.nudged moves it."""
    return math.ldexp(1.0, math.frexp(x)[1] - 53)


def moved(tables: list[list[float]], steps: list[list[int]]) -> list[list[float]]:
    """Returns the tables after moving each coefficient by its number of units in the last place."""
    return [[derive.nudged(v, n) for v, n in zip(t, s, strict=True)] for t, s in zip(tables, steps, strict=True)]


def drift(start: list[list[float]], steps: list[list[int]], reach: float) -> float:
    """Returns the largest change of x p(x), relative to p(0), that the moves cause for a table's polynomial p and |x|
    <= reach."""
    worst = 0.0
    for table, moves in zip(start, steps, strict=True):
        changes = [n * ulp(v) / table[0] for v, n in zip(table, moves, strict=True)]
        for i in range(-20, 21):
            x = reach * i / 20
            worst = max(worst, abs(x * sum(c * x**j for j, c in enumerate(changes))))
    return worst


def update(path: pathlib.Path, values: dict[str, object]) -> None:
    """Merges values into a JSON object in a file. An empty list removes its entry."""
    known = json.loads(path.read_text()) if path.exists() else {}
    known.update(values)
    lines = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(known.items()) if v]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("function")
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--tries", type=int, default=50_000)
    parser.add_argument("--reach", type=int, default=6, help="log2 of the largest move of the lowest coefficient")
    parser.add_argument("--reach-of-x", type=float, default=0.0, help="largest |x| of the table: also move pairs")
    parser.add_argument("--drift", type=float, default=52.0, help="with --reach-of-x: moves stay within 2^-DRIFT")
    parser.add_argument("--patches", type=int, default=2, help="how many inputs may be patched")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    update(derive.PATCHES, {arguments.function: []})
    derive.HEADER.write_text(derive.render())
    polynomials = derive.polynomials()
    start = [polynomials[t][1] for t in arguments.tables]
    cases = Cases(arguments.function, arguments.tables)
    generator = random.Random(arguments.seed)
    steps = [[0] * len(t) for t in start]
    best = len(cases.failing(start))
    print(f"{arguments.function}: {best} of {cases.count} hard cases fail", flush=True)
    for _ in range(arguments.tries if arguments.tables else 0):
        if best == 0:
            break
        trial = [list(s) for s in steps]
        if arguments.reach_of_x and generator.random() < 0.5:
            # Changes two coefficients so that the polynomial p changes by c_j x^j (1 - x^2 / reach^2). This change is
            # small near +-reach, where the other roundings leave the least tolerance.
            t = generator.choice([t for t, values in enumerate(start) if len(values) > 2])
            j = generator.randrange(min(4, len(start[t]) - 2))
            size = generator.choice((-1, 1)) * 2.0 ** generator.uniform(0, arguments.reach + j)
            unit = ulp(start[t][j])
            trial[t][j] += round(size)
            trial[t][j + 2] -= round(size * unit / arguments.reach_of_x**2 / ulp(start[t][j + 2]))
        for _ in range(generator.choice((0, 1, 1, 2, 3) if arguments.reach_of_x else (1, 1, 2, 3))):
            t = generator.randrange(len(start))
            j = generator.randrange(len(start[t]))
            # Coefficients of higher powers have less effect, so they may move further. A low part, which is alone in
            # its table, may move by any amount.
            reach = 51 if len(start[t]) == 1 else min(arguments.reach + 2 * j, 40)
            size = 2.0 ** generator.uniform(0, reach)
            trial[t][j] += round(generator.choice((-1, 1)) * size)
        if arguments.reach_of_x and drift(start, trial, arguments.reach_of_x) > 2.0**-arguments.drift:
            continue
        wrong = len(cases.failing(moved(start, trial)))
        if wrong <= best:
            if wrong < best:
                print(f"  {wrong} left", flush=True)
            steps, best = trial, wrong
    left = cases.failing(moved(start, steps))
    patches = [
        [f"{u:08x}", f"{v:08x}"]
        for u, v in zip(cases.bits[left].tolist(), cases.right[left].tolist(), strict=True)
        if not (arguments.function in PATCHED_BY_MAGNITUDE and u >> 31)
    ]
    if len(patches) > arguments.patches:
        print(f"{arguments.function}: {len(patches)} hard cases are left", file=sys.stderr)
        return 1
    update(derive.TUNING, dict(zip(arguments.tables, steps, strict=True)))
    update(derive.PATCHES, {arguments.function: patches})
    derive.HEADER.write_text(derive.render())
    return 0


if __name__ == "__main__":
    sys.exit(main())
