# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Installs the wheels of a folder in new environments, without a compiler in PATH, and uses and uninstalls them.

Other packages come from the package index. With --torch, runs the first example of README.md, too.
"""

import argparse
import json
import os
import re
import resource
import runpy
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECEIPT = ROOT / "test" / "data" / "compatibility" / "signed.receipt"
MOST_SECONDS = 180.0
"""The limit of the processor time of the installation with PyTorch and the first example together."""

OWNED = """
import importlib.metadata as m, json
names = "repro-mlir", "repro-mlir-verify"
print(json.dumps({name: [str(file.locate().resolve()) for file in m.files(name)] for name in names}))
"""
BACKENDS = "import torch; assert 'repro_mlir' in torch._dynamo.list_backends()"


def _first_example() -> str:
    found = re.search(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None and "import repro_mlir" in found[1], "expected an example of repro_mlir in README.md"
    return found[1]


def _times() -> tuple[float, float]:
    """Returns the time now, and the processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), used.ru_utime + used.ru_stime


def _since(start: tuple[float, float]) -> str:
    now = _times()
    return f"{now[0] - start[0]:.1f} s, {now[1] - start[1]:.1f} s of processor time"


class Environment:
    """A new virtual environment, whose processes find no programs except its own."""

    def __init__(self, python: str, folder: Path) -> None:
        self.folder = folder
        self.programs = folder / "bin"
        kept = ("HOME", "LANG", "TMPDIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
        variables = {name: os.environ[name] for name in os.environ if name in kept or name.startswith("PIP_")}
        self.variables = {**variables, "PATH": str(self.programs), "XDG_CACHE_HOME": str(folder / "cache")}
        subprocess.run([python, "-m", "venv", str(folder)], check=True)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Runs one of the programs of the environment. The result contains the output, and nothing is printed."""
        full = [str(self.programs / command[0]), *command[1:]]
        return subprocess.run(full, cwd=self.folder, env=self.variables, text=True, capture_output=True)

    def succeed(self, *command: str) -> str:
        """Runs a program, and returns what it writes to standard output.

        Raises:
          AssertionError: the program fails.
        """
        done = self.run(*command)
        assert done.returncode == 0, f"{' '.join(command)[:200]}\n{done.stdout}{done.stderr}"
        return done.stdout

    def pip(self, *arguments: str) -> None:
        cache = ("--cache-dir", os.environ.get("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip")))
        self.succeed("python", "-m", "pip", "--quiet", "--disable-pip-version-check", *cache, *arguments)


def check(python: str, wheels: Path, folder: Path, torch: bool) -> None:
    """Installs, uses and uninstalls the wheels in a new environment of `python`.

    Raises:
      AssertionError: one of these fails, or takes too long.
    """
    environment = Environment(python, folder)
    version = environment.succeed("python", "--version").strip()
    start = _times()
    environment.pip("install", "--find-links", str(wheels), "repro-mlir[torch,sign]" if torch else "repro-mlir[sign]")
    print(f"install_test: {version}: installed, {_since(start)}", flush=True)
    if torch:
        begin = _times()
        shown = environment.succeed("python", "-c", _first_example())
        print(f"install_test: {version}: first example of README.md, {_since(begin)}: {shown.strip()}", flush=True)
        assert _times()[1] - start[1] < MOST_SECONDS, f"expected at most {MOST_SECONDS} s of processor time"
        environment.succeed("python", "-c", BACKENDS)
    owned = {name: set(files) for name, files in json.loads(environment.succeed("python", "-c", OWNED)).items()}
    both = owned["repro-mlir"] & owned["repro-mlir-verify"]
    assert not both, f"expected each file in one distribution, found {sorted(both)} in both"
    script = str((environment.programs / "repro").resolve())
    assert script in owned["repro-mlir-verify"]
    test = runpy.run_path(str(ROOT / "tools" / "wheel_test.py"))
    (folder / "program.mlir").write_text(test["PROGRAM"])
    environment.succeed("repro-opt", "program.mlir")
    if not torch:
        print("install_test:", environment.succeed("python", "-c", test["USE"]).strip().splitlines()[-1], flush=True)
    verify = "repro", "verify", str(RECEIPT)
    environment.succeed(*verify)
    environment.pip("uninstall", "--yes", "repro-mlir")
    environment.succeed(*verify)
    done = environment.run("repro", "train", "train.py", "--steps", "1")
    assert done.returncode and "install repro-mlir" in done.stderr, done
    environment.pip("uninstall", "--yes", "repro-mlir-verify")
    assert not (environment.programs / "repro").exists()
    left = [path for path in folder.rglob("*repro_mlir*") if path.is_file()]
    assert not left, f"expected no file of the package, found {left}"
    print(f"install_test: {version}: used and uninstalled", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", action="store_true", help="with the extra torch, and the first example of README.md")
    parser.add_argument("wheels", type=Path, help="the folder of the wheels")
    parser.add_argument("pythons", nargs="+", metavar="PYTHON", help="the Pythons of the environments")
    options = parser.parse_args()
    for python in options.pythons:
        with tempfile.TemporaryDirectory() as name:
            check(python, options.wheels.resolve(), Path(name) / "environment", options.torch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
