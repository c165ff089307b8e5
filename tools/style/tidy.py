# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the checks of .clang-tidy on all C++ files or, with --since, on those that were changed (make tidy).

Needs a build, because clang-tidy reads the files that TableGen generates. Prints one line per finding and exits with
1 if there is one.
"""

import argparse
import json
import re
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(sysconfig.get_path("scripts"))
BUILD = ROOT / "build"
DATABASE = BUILD / "tidy"


def write_database() -> list[Path]:
    """Writes the compilation database that clang-tidy reads. Returns our C++ files that it contains."""
    listed = subprocess.run([TOOLS / "ninja", "-C", BUILD, "-t", "compdb"], capture_output=True, text=True, check=True)
    commands = [entry for entry in json.loads(listed.stdout) if entry["file"].endswith(".cpp")]
    DATABASE.mkdir(exist_ok=True)
    (DATABASE / "compile_commands.json").write_text(json.dumps(commands))
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    ours = {ROOT / name for name in tracked.splitlines()}
    return sorted({Path(entry["file"]) for entry in commands} & ours)


def changed_since(revision: str) -> set[Path]:
    """Returns the files that have changed since the last common commit with `revision`."""
    command = ["git", "diff", "--name-only", "--merge-base", revision]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {ROOT / name for name in listed.splitlines()}


def findings_of(file: Path) -> list[str]:
    """Returns the findings of clang-tidy in a file and in our headers that it includes."""
    command = [TOOLS / "clang-tidy", "-p", DATABASE, "--quiet", file]
    found = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    return [line.replace(f"{ROOT}/", "") for line in found if re.search(r": (warning|error): ", line)]


def main() -> int:
    """Runs clang-tidy on the files; returns 0 if there are no findings, else 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", metavar="REVISION", help="changed files alone")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    files = write_database()
    if options.since:
        changed = changed_since(options.since)
        files = [file for file in files if file in changed or file.with_suffix(".h") in changed]
    with ThreadPoolExecutor(options.jobs) as pool:
        # clang-tidy checks a header once for each file that includes it, so equal findings are merged.
        found = dict.fromkeys(line for lines in pool.map(findings_of, files) for line in lines)
    print("\n".join(found), end="\n" if found else "")
    print(f"tidy: {len(files)} files, {len(found)} findings")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
