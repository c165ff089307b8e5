# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Collects the hardest arguments of the elementary functions (S5) for the conformance vectors.

Writes python/repro_mlir/conformance/hard_cases.json: the hard cases of f32 from expected/, and for f64 those of
hard_double.txt and those that a search finds. The search divides 2^24 random neighbouring arguments of each function
into runs of 2^20; within a run, a function is a polynomial of degree 2 to 2^-48 units in the last place. From each run,
it takes the argument whose value is closest to the middle of two f64, which is about 2^-20 units away.

Usage: python tools/functions/search_double.py
"""

from __future__ import annotations

import json
import struct

import gmpy2
import numpy as np
from check_double import hard_cases
from objects import EXPECTED, ROOT, reference

RUN = 1 << 20
RUNS = 16
FAR = 2.0**-16
OUTPUT = ROOT / "python" / "repro_mlir" / "conformance" / "hard_cases.json"
# The least and the greatest exponent of the arguments, and whether negative ones are searched too.
DOMAINS = {
    "acosh": (0, 8, False),
    "acos": (-8, -1, True),
    "asin": (-8, -1, True),
    "atanh": (-8, -1, True),
    "cosh": (-6, 8, True),
    "erf": (-8, 1, True),
    "erfc": (-8, 3, True),
    "exp10": (-8, 7, True),
    "log": (-30, 30, False),
    "log1p": (-30, -1, True),
    "log10": (-30, 30, False),
    "log2": (-30, 30, False),
    "rsqrt": (-8, 8, False),
}
OTHERS = (-8, 5, True)


def hardest(name: str, start: float) -> float:
    """Returns the one of RUN neighbours, from `start` away from zero, whose value is closest to the middle of two
    f64."""
    function = reference.EXACT[name]
    ulp = np.spacing(abs(start))
    step = gmpy2.mpfr(float(np.copysign(ulp, start)))
    with gmpy2.context(precision=200):
        values = [function(gmpy2.mpfr(start) + step * (RUN // 2 * k)) for k in range(3)]
        unit = gmpy2.mpfr(float(np.spacing(abs(float(values[0])))))
        first, middle, last = (value / unit for value in values)
        half = RUN // 2
        square = (last - 2 * middle + first) / (2 * half * half)
        linear = (middle - first) / half - square * half
        constant, slope = (int(gmpy2.floor(each * 2**64)) % 2**64 for each in (first, linear))
    j = np.arange(RUN, dtype=np.uint64)
    bent = np.remainder(float(square) * j.astype(np.float64) ** 2 + 0.5, 1) - 0.5
    # The distance of the value from the middle, in units of 2^-64 ulp; the unsigned sum wraps around.
    fraction = np.uint64(constant) + np.uint64(slope) * j + (bent * 2.0**64).astype(np.int64).view(np.uint64)
    best = int(np.argmin(np.abs((fraction - np.uint64(1 << 63)).view(np.int64))))
    return start + float(np.copysign(ulp, start)) * best


def distance(name: str, x: float) -> float:
    """Returns the distance of the exact value from the middle of two f64, in units in the last place."""
    with gmpy2.context(precision=250):
        exact = reference.EXACT[name](gmpy2.mpfr(x))
        units = exact / gmpy2.mpfr(float(np.spacing(abs(float(exact)))))
        return float(abs(units - gmpy2.floor(units) - 0.5))


def search(name: str) -> list[float]:
    """Returns the hardest argument of each run, unless the run has none within FAR; the runs are the same in each
    search."""
    rng = np.random.default_rng(list(name.encode()))
    low, high, both = DOMAINS.get(name, OTHERS)
    exponents = rng.permutation(np.resize(np.arange(low, high + 1), RUNS))
    starts = np.ldexp(1 + rng.random(RUNS) * 0.99, exponents)
    found = [hardest(name, float(x * (-1 if both and i % 2 else 1))) for i, x in enumerate(starts)]
    return [x for x in found if distance(name, x) < FAR]


def main() -> None:
    single = {}
    for file in sorted(EXPECTED.glob("*.txt")):
        lines = file.read_text().split()
        single[file.stem] = lines[lines.index("hard") + 1 :]
    double = {}
    for name in reference.DOUBLE:
        if name not in reference.BINARY:
            found = sorted({*hard_cases().get(name, []), *search(name)})
            double[name] = [struct.pack(">d", each).hex() for each in found]
    rows = [
        f'"{kind}": {{\n' + ",\n".join(f"{json.dumps(name)}: {json.dumps(cases[name])}" for name in cases) + "\n}"
        for kind, cases in (("f32", single), ("f64", double))
    ]
    OUTPUT.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
