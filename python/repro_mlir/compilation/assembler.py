# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Assembles PTX to machine code with NVIDIA's ptxas, if installed."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from repro_mlir.base.child_processes import ending_with_this
from repro_mlir.base.compiler import install_extra
from repro_mlir.base.errors import ReproError


@cache
def find_assembler() -> str | None:
    """Returns the path of ptxas in the package `nvidia-cuda-nvcc`, else on PATH; None if there is none."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        found = sorted(Path(folder).glob("*/bin/ptxas"))
        if found:
            return str(found[-1])
    return shutil.which("ptxas")


def assemble(ptx: str, architecture: str) -> bytes:
    """Returns the cubin of a PTX module.

    Raises:
      ReproError: ptxas is missing or rejects the module.
    """
    assembler = find_assembler()
    if assembler is None:
        raise ReproError(f"ptxas is not installed: {install_extra('cuda')}, or add a CUDA toolkit to PATH")
    with tempfile.TemporaryDirectory(prefix="repro-ptxas-") as folder:
        source, result = Path(folder) / "module.ptx", Path(folder) / "module.cubin"
        source.write_text(ptx)
        # The generated PTX has explicit rounding modifiers, which already keep ptxas from fusing a multiplication and
        # an addition. The flag is a second safeguard.
        command = [assembler, "--fmad=false", f"-arch={architecture}", str(source), "-o", str(result)]
        run = subprocess.run(ending_with_this(command), capture_output=True, text=True)
        if run.returncode:
            reason = (run.stderr.strip().splitlines() or [f"status {run.returncode}"])[0]
            raise ReproError(f"ptxas rejects the code for {architecture}: {reason}")
        return result.read_bytes()
