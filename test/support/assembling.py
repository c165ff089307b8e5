# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Assembles PTX with NVIDIA's ptxas."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from repro_mlir.compilation.assembler import find_assembler

TOLERATED = {"sm_90": 16, "sm_100": 16}
"""The number of bytes that a kernel may spill: ptxas 13.0 spills a few bytes to fit more blocks on a multiprocessor,
even if registers remain."""

_SPILL = re.compile(r"spilled to local memory in function 'm(\d+)_(\w+)', (\d+) bytes spill stores")


def check(modules: Sequence[str], arch: str, names: Sequence[str] | None = None) -> None:
    """Assembles PTX modules together; raises AssertionError if ptxas rejects a module or a kernel spills registers."""
    assembler = find_assembler()
    assert assembler is not None, "expected ptxas: make setup installs it"
    with tempfile.TemporaryDirectory(prefix="repro-ptxas-") as folder:
        files = []
        for number, text in enumerate(modules):
            kernels = "|".join(re.findall(r"\.entry (\w+)\(", text))
            if kernels:
                files.append(Path(folder) / f"{number}.ptx")
                # ptxas compiles all modules in one call, but links them, so names of kernels must differ.
                files[-1].write_text(re.sub(rf"\b(?=({kernels})(_param_\d+)?\b)", f"m{number}_", text))
        command = [assembler, "--fmad=false", "--warn-on-spills", f"-arch={arch}", *files]
        run = subprocess.run([*command, "-o", Path(folder) / "cubin"], capture_output=True, text=True)
    assert run.returncode == 0, f"{arch}: {run.stderr[:2000]}"
    spills = [
        f"{names[int(module)] if names else 'module ' + module}: {kernel} spills {size} bytes on {arch}"
        for module, kernel, size in _SPILL.findall(run.stderr)
        if int(size) > TOLERATED.get(arch, 0)
    ]
    assert not spills, "\n".join(spills)
