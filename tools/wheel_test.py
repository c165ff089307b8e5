# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Installs a wheel into a new environment, outside of the source tree and without PyTorch, and uses the package
there."""

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "python"
PROGRAM = (
    "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> attributes {repro.num_state = 0 : i64} {\n"
    "  return %x : tensor<2xf32>\n"
    "}\n"
)
USE = """
import os
import subprocess
import sys
import numpy as np
import repro_mlir
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.bundle.writer import write_bundle
from repro_mlir.compilation.device_code import compile_for
from repro_mlir.program import Program
from repro_mlir.program.canonical import to_bytes
from repro_mlir.bundle.stub_driver import LIBRARY

x = TensorType("x", "f32", (2,))
data = to_bytes(open("program.mlir").read())
program = Program(data, (), (x,), (TensorType("y", "f32", (2,)),), 0, ())
array = np.array([1, 2], np.float32)
os.environ["REPRO_LIBCUDA"] = str(LIBRARY)
for target in ("reference", "cpu", "cuda"):
    _, outputs = repro_mlir.compile(program, target)({}, array)
    assert (outputs["y"] == array).all(), (target, outputs)
assert len(program.hash) == 64
write_bundle("model.rmb", program, compile_for(program, ["sm_75"]), steps=[[array]])
subprocess.run([sys.executable, "model.rmb"], check=True, stdout=subprocess.DEVNULL)
assert "torch" not in sys.modules
print("wheel works:", program.hash)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="holds the wheel")
    options = parser.parse_args()
    wheels = sorted(options.folder.resolve().glob("repro_mlir-*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        print(f"wheel_test: no wheel in {options.folder}", file=sys.stderr)
        return 1
    with zipfile.ZipFile(wheels[-1]) as archive:
        members = set(archive.namelist())
    suffixes = (".c", ".css", ".js", ".json")
    data = {path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*") if path.suffix in suffixes}
    if not data <= members:
        print(f"wheel_test: expected {', '.join(sorted(data - members))} in the wheel", file=sys.stderr)
        return 1
    names = {Path(name).name for name in members if "/licenses/" in name}
    if names != {"LICENSE", "LICENSE-THIRD-PARTY"}:
        print(f"wheel_test: expected both files of licences, got {sorted(names)}", file=sys.stderr)
        return 1
    print(f"wheel_test: {wheels[-1].name}, {wheels[-1].stat().st_size / 1e6:.1f} MB", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "venv" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", str(Path(folder) / "venv")], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-compile", str(wheels[-1])], check=True)
        (Path(folder) / "program.mlir").write_text(PROGRAM)
        subprocess.run([str(python.parent / "repro-opt"), "program.mlir"], cwd=folder, check=True)
        subprocess.run([str(python.parent / "repro"), "--help"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([str(python), "-c", USE], cwd=folder, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
