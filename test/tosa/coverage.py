# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs a sample of TOSA's conformance tests of each operator that takes f32, and writes docs/coverage/tosa.md.

python test/tosa/coverage.py ENVIRONMENT [--tests FOLDER] [--count N] [OPERATOR ...]
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import suite
from repro_mlir import __version__

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "docs" / "coverage" / "tosa.md"
VERSION = "1.0.2"

COMMON = ("--profile", "tosa-pro-fp", "--extension", "tosa-ext-fft", "tosa-ext-controlflow")
COMMON += ("--tosa-version", VERSION, "--target-dtype", "fp32", "--test-type", "positive")
COMMON += ("--num-rand-permutations", "1")
SMALL = ("--tensor-dim-range", "1,8", "--max-resize-output-dim", "20")
CONVOLUTION = ("--max-conv-padding", "1", "--max-conv-stride", "1", "--max-conv-dilation", "1", "--conv-kernel")

# Options of the test generator for operators that sum products: shapes with at least a thousand sums.
SUMS = {
    "avg_pool2d": (
        *("--target-shape", "2,9,11,7", "--max-pooling-padding", "1", "--max-pooling-stride", "2"),
        *("--max-pooling-kernel", "3"),
    ),
    "conv2d": ("--target-shape", "1,18,19,8", *CONVOLUTION, "3,2"),
    "conv3d": ("--target-shape", "1,8,9,10,4", *CONVOLUTION, "2,2,2"),
    "depthwise_conv2d": ("--target-shape", "1,18,19,8", *CONVOLUTION, "3,2"),
    "fft2d": ("--target-shape", "2,16,32"),
    "matmul": ("--target-shape", "4,17,23"),
    "reduce_sum": ("--target-shape", "32,40,32"),
    "rfft2d": ("--target-shape", "2,16,32"),
    "transpose_conv2d": ("--target-shape", "1,14,15,8", *CONVOLUTION, "3,3"),
}
OPERATORS = {
    "Tensor": "argmax avg_pool2d conv2d conv3d depthwise_conv2d fft2d matmul max_pool2d rfft2d transpose_conv2d",
    "Activation": "clamp erf sigmoid tanh",
    "Element-wise": "abs add ceil cos equal exp floor greater greater_equal log maximum minimum mul negate pow "
    "reciprocal rsqrt select sin sub",
    "Reduction": "reduce_max reduce_min reduce_product reduce_sum",
    "Data": "cast concat const gather identity pad reshape resize reverse scatter slice tile transpose",
    "Control flow": "cond_if_binary cond_if_const while_loop",
}
FILTERS = {"cond_if_binary": "cond_if", "cond_if_const": "cond_if"}
"""Maps an operator to the name of its filter in the suite, where the two differ."""

EXPECTED = {"while_loop": "the number of iterations depends on values"}
"""Operators whose tests are refused, with the error's text."""


def tests_of(environment: Path, folder: Path, operator: str) -> list[Path]:
    """Returns the folders of an operator's tests. Generates them if they do not exist."""
    done = folder / f"{operator}.done"
    if not done.exists():
        (library,) = environment.absolute().glob("lib/python3.*/site-packages/tosa_reference_model/*generate_lib.so")
        options = [*COMMON, *SUMS.get(operator, SMALL), "--generate-lib-path", library]
        name = FILTERS.get(operator, operator)
        made = suite.tool(
            environment, "tosa_verif_build_tests", "-o", folder, "--filter", f"^{name}$", *options, seconds=3600
        )
        if made.returncode:
            raise SystemExit(f"{operator}: {made.stderr}")
        done.touch()
    return sorted(_found(folder, operator))


def _found(folder: Path, operator: str) -> Iterator[Path]:
    # The suite has a folder of convolution tests for each size of a kernel.
    for each in folder.iterdir():
        if re.fullmatch(rf"{operator}(_[0-9]\w*)?", each.name):
            yield from (path.parent for path in each.glob("*/desc.json"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environment", type=Path)
    parser.add_argument("--tests", type=Path, default=ROOT / "build" / "tosa")
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("operators", nargs="*")
    options = parser.parse_intermixed_args()
    options.tests.mkdir(parents=True, exist_ok=True)
    rows, faults = [], []
    for group, names in OPERATORS.items():
        for operator in names.split():
            if options.operators and operator not in options.operators:
                continue
            found = tests_of(options.environment, options.tests, operator)
            # Seeding by the operator makes the sample the same in each run.
            chosen = random.Random(operator).sample(found, min(options.count, len(found)))
            failed = {}
            for test in chosen:
                try:
                    suite.run(options.environment, test)
                except suite.Failed as error:
                    failed[test.name] = str(error)
            expected = EXPECTED.get(operator)
            if not chosen:
                faults.append(f"{operator}: the suite has no test")
            if expected is None:
                faults += [f"{operator}: {name}: {why}" for name, why in failed.items()]
            elif not all(expected in failed.get(test.name, "") for test in chosen):
                faults.append(f"{operator}: expected to fail as {expected!r}: {json.dumps(failed)}")
            rows.append((group, operator, len(chosen), len(chosen) - len(failed), expected or ""))
            print(f"{operator:18} {len(chosen) - len(failed)} of {len(chosen)}", flush=True)
    for fault in faults:
        print(fault, file=sys.stderr)
    if not options.operators and not faults:
        _report(rows)
    return 1 if faults else 0


def _report(rows: list[tuple[str, str, int, int, str]]) -> None:
    package = Path(__file__).with_name("requirements.txt").read_text().strip()
    passed, run = sum(row[3] for row in rows), sum(row[2] for row in rows)
    lines = [
        "# Coverage of TOSA",
        "",
        "This page is for people who compile TOSA. It counts the conformance tests that pass. `make coverage-tosa` "
        "writes it.",
        "",
        f"The tests are those that `{package}` generates for TOSA {VERSION}: for each operator that accepts f32",
        "a sample of the positive tests of f32. The graph is imported as `repro compile` does; results are the same",
        "bits from the reference interpreter, `cpu` and `cpu:x86-64-v2`, and the suite's own verification compares",
        "them with those of its reference model in f64, by the tolerance of the test. repro-mlir "
        f"{__version__}, {datetime.date.today().isoformat()}:",
        f"{passed} of {run} tests pass.",
        "",
        "| group | operator | run | pass | refused, because |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    REPORT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
