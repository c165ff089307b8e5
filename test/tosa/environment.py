# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Makes the environment of TOSA's conformance suite, which asks for a NumPy of its own.

python test/tosa/environment.py FOLDER
"""

import argparse
import subprocess
import venv
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    made = folder / "made"
    if made.exists() and made.read_text() == REQUIREMENTS.read_text():
        return
    venv.create(folder, with_pip=True, clear=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS], check=True)
    made.write_text(REQUIREMENTS.read_text())


if __name__ == "__main__":
    main()
