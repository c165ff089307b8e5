# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Makes the virtual environment of a clone: the requirements that pyproject.toml names, from the package registries.

Run by any Python of 3.11 or newer (make PYTHON=...); needs nothing installed.
"""

import argparse
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The build outside of pip needs what scikit-build-core would bring.
BUILD_TOOLS = ["cmake>=3.24", "ninja>=1.11"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv")
    options = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    requirements = [
        *project["build-system"]["requires"],
        *BUILD_TOOLS,
        *project["project"]["dependencies"],
        *(requirement for name in ("torch", "sign", "examples", "cuda", "test") for requirement in extras[name]),
    ]
    python = options.venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(options.venv)], check=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    print(f"setup: installing {len(requirements)} requirements into {options.venv}", flush=True)
    return subprocess.run([*command, *dict.fromkeys(requirements)]).returncode


if __name__ == "__main__":
    sys.exit(main())
