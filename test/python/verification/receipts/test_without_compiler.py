# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Verifying a receipt with the reference interpreter needs no compiler, no MLIR and no PyTorch."""

import subprocess
import sys
from pathlib import Path

import repro_mlir

ROOM = Path(repro_mlir.__file__).parent / "verification"

CODE = """
import importlib, sys
for name in sys.argv[2:]:
    importlib.import_module(name)
import repro_mlir
verified = repro_mlir.verify(sys.argv[1], target="reference")
assert verified.executed == tuple(range(1, verified.steps + 1))
above = "compilation", "execute", "frontends", "script_runs", "_mlir_libs", "dialects", "ir"
found = [name for name in sys.modules if name.startswith(tuple(f"repro_mlir.{room}" for room in above))]
assert not found and not {"jax", "torch", "torch_mlir"} & {*sys.modules}, found
try:
    repro_mlir.verify(sys.argv[1], target="none")
except repro_mlir.ReproError as error:
    assert "unknown target 'none'" in str(error), error
else:
    raise AssertionError
"""


def test_verification_by_the_reference_interpreter(finished: Path) -> None:
    names = [".".join(path.relative_to(ROOM.parents[1]).with_suffix("").parts) for path in ROOM.rglob("*.py")]
    done = subprocess.run([sys.executable, "-c", CODE, finished, *names], capture_output=True, text=True)
    assert done.returncode == 0 and len(names) > 40, done.stderr
