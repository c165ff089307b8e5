# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the compiled elementary functions of f64 with MPFR (S5).

Arguments are special values, the hard cases of hard_double.txt, and random values of several types. Writes the results
to docs/reference/functions/double.json.

Usage: python tools/functions/check_double.py [--count N] [--seed N] [--level LEVEL]... [FUNCTION ...]
"""

from __future__ import annotations

import argparse
import datetime
import functools
import hashlib
import json
import pathlib
import sys

import numpy as np
from numpy.typing import NDArray
from objects import ROOT, evaluate, object_of, reference

RESULTS = ROOT / "docs" / "reference" / "functions" / "double.json"
HARD = pathlib.Path(__file__).with_name("hard_double.txt")
F64 = NDArray[np.float64]
Operands = tuple[NDArray[np.generic], ...]

_MAGNITUDES = np.array(
    [
        *(0.0, 1.0, 2.0, 3.0, 0.5, 0.25, 4.0, 8.0, 10.0, 22.0, 23.0, 27.0, 1000.0, 1 / 3, np.inf, np.nan),
        *(5e-324, 2.0**-1073, 2.0**-1022, 2.2250738585072009e-308, 1.7976931348623157e308, 2.0**1000, 1e22, 1e300),
        # near 1, and where 1 + x rounds to 1
        *(1 + 2.0**-52, 1 - 2.0**-53, 2.0**-52, 2.0**-53, 2.0**-54, 2.0**-26, 2.0**-27, 2.0**100, 2.0**200, 2.0**202),
        # near the limits of overflow and underflow of exp, exp2, exp10, sinh and erfc
        *(709.782712893384, 709.7827128933841, 745.1332191019411, 745.1332191019412, 744.4400719213812),
        *(1024.0, 1023.9999999999999, 1074.0, 1074.9999999999998, 1075.0, 1075.0000000000002, 1022.5),
        *(308.2547155599167, 308.25471555991675, 323.30621534311575, 323.6, 710.4758600739439, 710.475860073944),
        *(26.543258430632299, 27.226017111108362, 27.3, 5.921587195794507, 5.9215871957945, 6.0),
        # multiples of pi / 4, and limits of the argument reductions of arc tangents and logarithms
        *(np.pi / 4, np.nextafter(np.pi / 4, 1), np.pi / 2, np.pi, 2.0**0.5, 0.5**0.5, 0.0625, 0.17, 0.35, 1.0625),
    ]
)


@functools.cache
def hard_cases() -> dict[str, list[float]]:
    """Returns, for each function, arguments whose exact result is very close to the midpoint of two f64 values."""
    found: dict[str, list[float]] = {}
    for line in HARD.read_text().splitlines():
        if not line.startswith("#"):
            name, *numbers = line.split()
            found.setdefault(name, []).extend(map(float.fromhex, numbers))
    return found


def arguments(name: str, count: int, seed: int) -> Operands:
    """Returns the arguments to test: the special values and the hard cases of all functions, with both signs, then at
    least `count` random ones."""
    generator = np.random.default_rng(seed)
    part = -(-count // 8)

    def bits() -> F64:
        return generator.integers(0, 1 << 64, part, np.uint64).view(np.float64)

    def normal(scale: float) -> F64:
        return generator.standard_normal(part) * scale

    near_one = 1 + normal(1) * 2.0 ** -generator.integers(0, 53, part)
    tiny = normal(1) * 2.0 ** -generator.integers(0, 70, part)
    kinds = [bits(), normal(1), normal(4), normal(50), generator.uniform(-745, 745, part), near_one, tiny]
    # for exp, arguments with subnormal results
    kinds.append(-generator.uniform(708, 745, part) if name == "exp" else generator.uniform(-1, 1, part))
    hard = np.array([x for cases in hard_cases().values() for x in cases])
    x = np.concatenate([_MAGNITUDES, -_MAGNITUDES, hard, -hard, *kinds])
    if name != "powi":
        return (x,)
    small = generator.integers(-6, 7, x.size, np.int32)
    wide = generator.integers(-(1 << 31), 1 << 31, x.size) >> generator.integers(0, 31, x.size)
    whole = generator.integers(-1000, 1000, x.size).astype(np.float64)
    return np.concatenate([x, x, whole]), np.concatenate([small, wide.astype(np.int32), small])


def failing(name: str, level: str, operands: Operands, right: F64) -> NDArray[np.intp]:
    """Returns the indices at which the bits of the compiled function's results differ from `right`."""
    y = evaluate(name, level, *operands).view(np.float64)
    same = (y.view(np.uint64) == right.view(np.uint64)) | (np.isnan(y) & np.isnan(right))
    return np.flatnonzero(~same)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1 << 20, help="random arguments of each function")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--level", action="append", help="those of x86-64 by default")
    parser.add_argument("functions", nargs="*", default=[])
    given = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    failed = False
    for name in given.functions or reference.DOUBLE:
        operands = arguments(name, given.count, given.seed)
        right = reference.evaluate(name, *operands)
        for level in given.level or ("x86-64-v4", "x86-64-v3", "x86-64-v2"):
            wrong = failing(name, level, operands, right)
            failed |= bool(wrong.size)
            lowered = object_of(name, level, "f64").with_suffix(".ll").read_bytes()
            results.setdefault(name, {})[level] = {
                "inputs": int(right.size),
                "failures": int(wrong.size),
                "failing": [float(operands[0][i]).hex() for i in wrong[:16]],
                "program": hashlib.sha256(lowered).hexdigest()[:16],
                "date": datetime.date.today().isoformat(),
            }
            RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
            print(f"{name:6} {level} {right.size} inputs, {wrong.size} failures", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
