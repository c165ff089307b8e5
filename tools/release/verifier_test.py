# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Verifies a receipt of examples/digits_cnn.py with the wheel of repro-mlir-verify, in new virtual environments.

The receipt is written by the compiler of the build tree: 20 steps, with a kept state after every fifth step.
"""

import argparse
import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_SECONDS = 60.0
"""The longest time that a verification of two steps may take, including the start of Python."""

ABSENT = ("torch", "torch_mlir", "llvm", "jax")


def _check(python: str, wheel: Path, receipt: Path, folder: Path) -> None:
    """Installs the wheel in a new environment of `python` and verifies the receipt there.

    Raises:
      AssertionError: the receipt is not verified in time, or by something other than the wheel.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([python, "-m", "venv", str(folder)], check=True, env=environment)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    own = str(programs / "python")
    pip = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)]
    subprocess.run(pip, check=True, env=environment)
    code = f"import importlib.util as u, sys; print(sys.version.split()[0], [n for n in {ABSENT} if u.find_spec(n)])"
    version = subprocess.run([own, "-c", code], check=True, capture_output=True, text=True, env=environment).stdout
    assert version.endswith(" []\n"), f"expected none of {ABSENT} in the environment, got {version}"
    command = [str(programs / "repro"), "verify", str(receipt), "--steps", "sample:2", "--json"]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    seconds = time.perf_counter() - start
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["right"] and found["verified_steps"] == 2 and found["target"] == "reference", found
    assert seconds < MOST_SECONDS, f"expected at most {MOST_SECONDS} s, got {seconds:.1f}"
    steps = found["executed_steps"]
    print(f"verifier_test: Python {version.split()[0]}: 2 steps verified, {steps} run, {seconds:.1f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON", help="the Pythons of the environments")
    pythons = parser.parse_args().pythons
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = runpy.run_path(str(ROOT / "tools" / "release" / "verifier.py"))["write_wheel"](folder)
        receipt, script = folder / "digits.receipt", ROOT / "examples" / "digits_cnn.py"
        train = [sys.executable, "-m", "repro_mlir", "train", str(script), "--steps", "20", "--receipt", str(receipt)]
        packages = {"PYTHONPATH": str(ROOT / "build" / "python_packages")}
        subprocess.run([*train, "--checkpoint-every", "5"], check=True, env=os.environ | packages)
        for i, python in enumerate(pythons):
            _check(python, wheel, receipt, folder / f"environment{i}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
