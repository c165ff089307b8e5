# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Builds the wheels of a folder again, in a new clone with another path, and compares the bytes."""

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path("tools") / "release"


def differences(first: Path, second: Path) -> list[str]:
    """Returns the differences between two wheels, one line for each; no lines if their bytes are equal."""
    if first.read_bytes() == second.read_bytes():
        return []
    with zipfile.ZipFile(first) as one, zipfile.ZipFile(second) as other:
        names = {archive: set(archive.namelist()) for archive in (one, other)}
        found = [f"{name}: in one of the two" for name in sorted(names[one] ^ names[other])]
        common = sorted(names[one] & names[other])
        found += [f"{name}: other bytes" for name in common if one.read(name) != other.read(name)]
    return found or ["the archives differ, their files do not: order, dates, modes, or another version of zlib"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="holds the wheels of `make release`")
    parser.add_argument("--python", action="append", required=True, help="as for compiler.py")
    parser.add_argument("--machine", action="append", help="as for compiler.py")
    options = parser.parse_args()
    # Uncommitted changes are not in the clone.
    if subprocess.run(["git", "status", "--porcelain", "-uno"], cwd=ROOT, capture_output=True, check=True).stdout:
        print("compare: expected a clone without changes, found some; commit them", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="repro-mlir-second-build-") as name:
        clone, again = Path(name) / "clone", Path(name) / "dist"
        subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(clone)], check=True)
        arguments = [f"--python={each}" for each in options.python] + [
            f"--machine={each}" for each in options.machine or []
        ]
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        for command in ([str(clone / TOOLS / "verifier.py")], [str(clone / TOOLS / "compiler.py"), *arguments]):
            subprocess.run([sys.executable, *command, str(again)], check=True, env=environment, cwd=clone)
        failed = False
        for second in sorted(again.glob("*.whl")):
            first = options.folder / second.name
            found = differences(first, second) if first.exists() else [f"not in {options.folder}"]
            failed |= bool(found)
            print(f"{second.name}: {'differs' if found else 'the same bytes'}", *found, sep="\n  ", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
