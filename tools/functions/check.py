# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# See https://llvm.org/LICENSE.txt for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the compiled elementary functions on all 2^32 inputs (S5).

Compares the block sums of every unary function, compiled for each level, with expected/<function>.txt. In each block
that differs, finds the failing inputs. Writes the results to docs/reference/functions/<function>.json. Skips a level
that already has results for the present compiler and coefficients, so that an interrupted check can continue.

Usage: python tools/functions/check.py [--level LEVEL]... [--again] [FUNCTION ...]
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import hashlib
import json
import pathlib
import subprocess
import sys
import time
from typing import Any

import numpy as np
from objects import (
    BLOCKS,
    ELEMENTS,
    EXPECTED,
    LEVELS,
    ROOT,
    UNARY,
    compiled,
    compiler,
    driver,
    object_of,
    progress,
    reference,
)

RESULTS = ROOT / "docs" / "reference" / "functions"


def failing_inputs(function: ctypes._CFuncPtr, name: str, block: int) -> list[int]:
    """Returns, as bits, the inputs in a block of 2^24 for which the function returns a wrong result."""
    wrong: list[int] = []
    y = np.empty(ELEMENTS, np.float32)
    for first in range(block << 24, (block + 1) << 24, ELEMENTS):
        bits = np.arange(first, first + ELEMENTS, dtype=np.int64).astype(np.uint32)
        x = bits.view(np.float32)
        function(x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p))
        right = reference.evaluate(name, x)
        same = (right.view(np.uint32) == y.view(np.uint32)) | (np.isnan(right) & np.isnan(y))
        wrong += bits[~same].tolist()
    return wrong


def check(name: str, level: str) -> list[int]:
    """Checks a function, compiled for a level, on all 2^32 inputs; returns those for which its result is wrong."""
    expected = (EXPECTED / f"{name}.txt").read_text().split()[:BLOCKS]
    function = getattr(compiled(name, level), f"{name}_vector")
    wrong: list[int] = []
    for block, right in enumerate(expected):
        progress(f"{name} {level}", block, BLOCKS)
        sum_ = driver().compiled_block(ctypes.cast(function, ctypes.c_void_p), ctypes.c_uint32(block))
        if f"{sum_:016x}" != right:
            wrong += failing_inputs(function, name, block)
    progress(f"{name} {level}", BLOCKS, BLOCKS)
    return wrong


def recorded(path: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Returns the recorded result of each level."""
    return json.loads(path.read_text()) if path.exists() else {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", action="append", choices=LEVELS, help="those of x86-64 by default")
    parser.add_argument("--again", action="store_true", help="run what has been run before")
    parser.add_argument("functions", nargs="*", default=[])
    arguments = parser.parse_args()
    version = subprocess.run([str(compiler()), "--version"], capture_output=True, text=True).stdout
    llvm = next((line.strip() for line in version.splitlines() if "LLVM version" in line), "unknown")
    failed = False
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name in arguments.functions or UNARY:
        path = RESULTS / f"{name}.json"
        for level in arguments.level or ("x86-64-v4", "x86-64-v3", "x86-64-v2"):
            # The hash of the LLVM IR identifies the compiled code, since the object is compiled from it.
            lowered = object_of(name, level).with_suffix(".ll").read_bytes()
            program = hashlib.sha256(lowered).hexdigest()[:16]
            known = recorded(path).get(level)
            if known and known["program"] == program and not arguments.again:
                failed |= known["failures"] > 0
                continue
            start = time.monotonic()
            wrong = check(name, level)
            failed |= bool(wrong)
            # Reads the file again, because another process may have added a level in the meantime.
            results = recorded(path)
            results[level] = {
                "inputs": 1 << 32,
                "failures": len(wrong),
                "failing": [f"{u:08x}" for u in wrong[:64]],
                "program": program,
                "compiler": llvm,
                "date": datetime.date.today().isoformat(),
            }
            path.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
            print(f"{name:8} {level} {len(wrong)} failures, {time.monotonic() - start:.0f} s", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
