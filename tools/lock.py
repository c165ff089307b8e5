# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes requirements.lock: the version and hashes of every package of `make setup`, for all platforms (make lock).

Runs uv in its own environment to resolve the requirements of pyproject.toml. The version of PyTorch has no
hash: package indexes serve different builds of one version (with and without CUDA).
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from setup import ROOT, UNLOCKED, name_of, requirements

LOCK = ROOT / "requirements.lock"
# The other requirements of PyTorch, which are locked so that installing PyTorch adds no package without a hash.
BESIDE_TORCH = ["filelock", "fsspec>=0.8.5", "jinja2", "networkx>=2.5.1", "setuptools>=77.0.3", "sympy>=1.13.3"]
HEADER = "# Written by tools/lock.py (make lock); pyproject.toml has the requirements.\n"


def main() -> int:
    wanted = [*(each for each in requirements() if name_of(each) != UNLOCKED), *BESIDE_TORCH]
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "venv"
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        python = environment / "bin" / "python"
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "uv"], check=True)
        command = [str(python), "-m", "uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes"]
        command += ["--python-version", "3.11", "--prerelease", "disallow", "--no-annotate", "--no-header", "-"]
        found = subprocess.run(command, input="\n".join(wanted), text=True, check=True, stdout=subprocess.PIPE).stdout
    LOCK.write_text(HEADER + found)
    print(f"lock: {found.count('==')} packages in {LOCK.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
