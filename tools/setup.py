# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Creates the virtual environment of a clone with the requirements of pyproject.toml, from package registries.

Installs the packages of requirements.lock with exactly those versions and hashes, and then PyTorch, which has no
hash (see tools/lock.py). Runs with any Python 3.11 or newer (make PYTHON=...) without other packages.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# scikit-build-core would install these tools itself, but only in a build that pip starts.
BUILD_TOOLS = ["cmake>=3.24", "ninja>=1.11"]
UNLOCKED = "torch"
EXTRAS = "torch", "onnx", "jax", "keras", "sign", "examples", "cuda", "test"


def name_of(requirement: str) -> str:
    """Returns the package that a requirement such as torch>=2.9,<3 requires."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def requirements() -> list[str]:
    """Returns the requirements for building, running and testing, from pyproject.toml. A version that pyproject.toml
    states for the repository's own environment replaces the range of the extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    own = {name_of(each): each for each in project["tool"]["repro-mlir"]["environment"]}
    found = [
        *project["build-system"]["requires"],
        *BUILD_TOOLS,
        *project["project"]["dependencies"],
        *(own.get(name_of(each), each) for name in EXTRAS for each in extras[name]),
    ]
    return list(dict.fromkeys(found))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv")
    options = parser.parse_args()
    python = options.venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(options.venv)], check=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    torch = [each for each in requirements() if name_of(each) == UNLOCKED]
    for what in (["--require-hashes", "-r", str(ROOT / "requirements.lock")], torch):
        print(f"setup: installing {' '.join(what)} into {options.venv}", flush=True)
        status = subprocess.run([*command, *what]).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
