# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reports the lines that tests run, as counted by coverage.py (Python) and gcov (C++); see `make coverage-report`.

Builds the package with counters in build-coverage, which also contains the files of gcov and coverage.py. Prints the
number of lines, and the number and share of those that ran, for each Python file and each folder of C++. Failing tests
are not an error. Child processes of repro_mlir.sandbox are not counted, because they start with an empty environment.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build-coverage"
FLAGS = "--coverage -fprofile-update=atomic"
Lines = dict[Path, dict[int, int]]


def build(jobs: int) -> None:
    """Builds the package in build-coverage, instrumented to count executed lines."""
    command = [sys.executable, str(ROOT / "tools" / "build.py"), "--folder", str(BUILD), "--jobs", str(jobs), "--"]
    definitions = {"CMAKE_CXX_FLAGS": FLAGS, "CMAKE_C_FLAGS": FLAGS}
    subprocess.run([*command, *(f"-D{name}={value}" for name, value in definitions.items())], check=True)


def run_tests(tests: list[str], jobs: int) -> None:
    """Deletes the data of earlier runs. Then runs lit, and pytest on the given files or folders. Exits if pytest could
    not run the tests."""
    for stale in (*BUILD.rglob("*.gcda"), *BUILD.glob(".coverage*")):
        stale.unlink()
    packages = str(BUILD / "python_packages")
    environment = {**os.environ, "REPRO_MLIR_CACHE": "off", "REPRO_TEST_TIMEOUT": "600"}
    lit = [Path(sys.executable).parent / "lit", f"-j{jobs}", "-q", "test"]
    subprocess.run(lit, cwd=ROOT, env=environment | {"REPRO_PACKAGES": packages})
    coverage = [sys.executable, "-m", "coverage", "run", f"--data-file={BUILD}/.coverage"]
    pytest = ["-m", "pytest", "-q", "-n", str(jobs), "--dist", "worksteal", *tests]
    status = subprocess.run([*coverage, *pytest], cwd=ROOT, env=environment | {"PYTHONPATH": packages}).returncode
    # pytest exits with 1 if some tests failed, and with a higher status if the tests did not run.
    if status > 1:
        sys.exit(f"pytest ended with status {status}")


def report_python() -> None:
    """Prints, for each Python file, how many of its lines ran."""
    coverage = [sys.executable, "-m", "coverage"]
    data = f"--data-file={BUILD}/.coverage"
    subprocess.run([*coverage, "combine", "-q", data, str(BUILD)], cwd=ROOT, check=True)
    subprocess.run([*coverage, "report", data], cwd=ROOT, check=True)


def read_counters() -> Lines:
    """Returns how often each line of our C++ ran, keyed by file and line."""
    lines: Lines = defaultdict(lambda: defaultdict(int))
    counters = sorted(BUILD.rglob("*.gcda"))
    for first in range(0, len(counters), 16):
        batch = [str(path) for path in counters[first : first + 16]]
        found = subprocess.run(
            ["gcov", "--json-format", "--stdout", *batch], cwd=BUILD, capture_output=True, check=True
        )
        for text in found.stdout.splitlines():
            for file in json.loads(text)["files"]:
                path = (BUILD / file["file"]).resolve()
                if path.is_relative_to(ROOT) and not path.is_relative_to(BUILD) and ".venv" not in path.parts:
                    for line in file["lines"]:
                        lines[path][line["line_number"]] += line["count"]
    return lines


def report_cpp(lines: Lines) -> None:
    """Prints, for each folder of C++, how many of its lines ran."""
    folders: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path, counts in lines.items():
        for name in (str(path.parent.relative_to(ROOT)), "TOTAL"):
            folders[name][0] += len(counts)
            folders[name][1] += sum(count > 0 for count in counts.values())
    total = folders.pop("TOTAL", [0, 0])
    print(f"\n{'folder':40} {'lines':>7} {'ran':>7} {'share':>6}")
    for name, (count, ran) in [*sorted(folders.items()), ("TOTAL", total)]:
        print(f"{name:40} {count:7} {ran:7} {100 * ran / max(count, 1):5.1f}%")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "tests", nargs="*", default=["test/python", "test/Codegen"], help="for pytest; lit runs as well"
    )
    options = parser.parse_args()
    build(options.jobs)
    run_tests(options.tests, options.jobs)
    report_python()
    report_cpp(read_counters())
    return 0


if __name__ == "__main__":
    sys.exit(main())
