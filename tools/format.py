# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""clang-format over every C and C++ file of the repository; --check changes nothing and names what is not formatted."""

import argparse
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["dialects", "lib", "python", "test", "tools"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    files = [
        name
        for name in listed.stdout.split()
        if name.endswith((".c", ".cpp", ".h")) and (ROOT / name).is_file() and not (ROOT / name).is_symlink()
    ]
    tool = Path(sysconfig.get_path("scripts")) / "clang-format"
    mode = ["--dry-run", "--Werror"] if options.check else ["-i"]
    return subprocess.run([str(tool), *mode, *files], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
