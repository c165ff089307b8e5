# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""torch-mlir's passes in a process of their own: some operators crash them, or take all memory, or never end."""

import resource
import signal
import subprocess
from pathlib import Path

import torch_mlir

from repro_mlir.base.child_processes import ending_with_this
from repro_mlir.base.limits import VARIABLE, limits

_OPT = Path(torch_mlir.__path__[0]) / "_mlir_libs" / "torch-mlir-opt"
_NO_MEMORY = (b"bad_alloc", b"out of memory", b"Cannot allocate memory")


class LoweringEnded(Exception):
    """The process crashed or went over a limit; the message says which, as in "operator aten.x <message>"."""


def run_passes(bytecode: bytes, pipeline: str, *, divide_seconds: int = 1) -> subprocess.CompletedProcess[bytes]:
    """Runs `pipeline` within `memory_bytes` and `capture_seconds` of docs/security.md.

    Args:
      bytecode: the module.
      divide_seconds: the limit of time is divided by it.
    Returns:
      exit status, bytecode of the result and diagnostics; the status is that of torch-mlir, not negative.
    Raises:
      LoweringEnded: see there.
    """
    bounds = limits()
    seconds = max(bounds.capture_seconds // divide_seconds, 1)
    # Its threads would have address space of their own, and a program is one function.
    command = [str(_OPT), f"--pass-pipeline={pipeline}", "--emit-bytecode", "--mlir-disable-threading"]
    pipe = subprocess.PIPE
    with subprocess.Popen(ending_with_this(command), stdin=pipe, stdout=pipe, stderr=pipe) as process:
        # It waits for its input.
        for kind, soft, hard in (
            (resource.RLIMIT_AS, bounds.memory_bytes, bounds.memory_bytes),
            # SIGXCPU at the first, SIGKILL at the second, which may come from others too.
            (resource.RLIMIT_CPU, seconds, seconds + 5),
            (resource.RLIMIT_CORE, 0, 0),
        ):
            # Only a privileged process may raise what its caller, as by ulimit, has limited already.
            _, most = resource.prlimit(process.pid, kind)
            if most != resource.RLIM_INFINITY:
                soft, hard = min(soft, most), min(hard, most)
            resource.prlimit(process.pid, kind, (soft, hard))
        try:
            output, errors = process.communicate(bytecode)
        except BaseException:
            # Else the end of the block would wait for it.
            process.kill()
            raise
    if process.returncode >= 0:
        return subprocess.CompletedProcess(command, process.returncode, output, errors)
    if process.returncode == -signal.SIGXCPU:
        raise LoweringEnded(f"takes torch-mlir more than {seconds} s; capture_seconds of {VARIABLE} is the limit")
    if any(word in errors for word in _NO_MEMORY):
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        if most != resource.RLIM_INFINITY and most < bounds.memory_bytes:
            raise LoweringEnded(f"takes torch-mlir more than {most:,} bytes of memory; ulimit -v is the limit")
        raise LoweringEnded(
            f"takes torch-mlir more than {bounds.memory_bytes:,} bytes of memory; "
            f"memory_bytes of {VARIABLE} is the limit"
        )
    raise LoweringEnded("crashes torch-mlir")
