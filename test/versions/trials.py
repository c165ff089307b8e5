# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tries this package with several versions of other packages (make test-versions).

python test/versions/trials.py [PACKAGE | PACKAGE==VERSION]...

trials.json lists the versions and the tests. Each version is installed in an environment over that of this script,
tried, and deleted again. Prints a row of the table in docs/guides/versions.md for each version.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from absent_libraries import replace_absent_libraries

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENVIRONMENTS = ROOT / "build" / "environments" / "versions"


def install(folder: Path, requirements: list[str], with_dependencies: bool) -> Path:
    """Creates an environment over that of this script, and returns the environment's Python."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(requirements) + "\n")
        file.flush()
        command = [sys.executable, str(ROOT / "test" / "environment.py"), file.name, str(folder), "--over"]
        subprocess.run(command if with_dependencies else [*command, "--no-deps"], check=True)
    for libraries in folder.glob("lib/python*/site-packages/torch/lib"):
        replace_absent_libraries(libraries)
    return folder / "bin" / "python"


def try_version(package: str, version: str, trial: dict[str, Any]) -> tuple[bool, str]:
    """Runs the tests of a trial with a version of the package.

    Returns:
      whether the tests passed, and a sentence about the result.
    """
    folder = ENVIRONMENTS / f"{package}-{version}"
    wanted = [f"{name}=={version}" for name in (package, *trial.get("same_version", []))]
    try:
        try:
            python = install(folder, [*wanted, *trial.get("with", [])], trial.get("dependencies", False))
        except subprocess.CalledProcessError:
            return False, "cannot be installed"
        outcomes = []
        for environment in trial.get("environments", [{}]):
            command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", "--no-header"]
            done = subprocess.run(
                [*command, *(str(HERE / name) for name in trial["tests"])],
                env=os.environ | environment, capture_output=True, text=True, cwd=ROOT,
            )  # fmt: skip
            outcomes.append((done.returncode == 0, *_summary(done.stdout)))
            print(done.stdout, file=sys.stderr, flush=True)
        right = all(each for each, _, _ in outcomes)
        first = next((text for _, _, text in outcomes if text), "")
        passed = sum(count for _, count, _ in outcomes)
        return right, f"{passed} tests passed" if right else f"{passed} tests passed; {first}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _summary(output: str) -> tuple[int, str]:
    """Returns the number of tests that passed, and the first error."""
    passed = re.search(r"(\d+) passed", output)
    failed = re.search(r"^E +(.*)$", output, re.MULTILINE)
    return int(passed[1]) if passed else 0, failed[1] if failed else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("chosen", nargs="*", metavar="PACKAGE[==VERSION]")
    chosen = [each.partition("==")[::2] for each in parser.parse_args().chosen]
    trials = json.loads((HERE / "trials.json").read_text())
    unknown = [name for name, _ in chosen if name not in trials]
    if unknown:
        parser.error(f"expected packages among {', '.join(trials)}, got {', '.join(unknown)}")
    failed = False
    for package, trial in trials.items():
        for version in trial["versions"]:
            if chosen and not {(package, ""), (package, version)} & {*chosen}:
                continue
            right, text = try_version(package, version, trial)
            failed |= not right
            today = datetime.datetime.now(datetime.UTC).date()
            print(f"| {package} | {version} | {'yes' if right else 'no'} | {text} | {today} |", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
