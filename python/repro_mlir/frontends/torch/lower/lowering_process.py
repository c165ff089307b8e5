# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs torch-mlir's passes in a child process: some operators make them crash, exhaust memory or never end."""

import resource
import signal
import subprocess

from repro_mlir.base.child_processes import ending_with_this
from repro_mlir.base.limits import VARIABLE, limits
from repro_mlir.frontends.torch.base.torch_mlir_names import OPT

_NO_MEMORY = (b"bad_alloc", b"out of memory", b"Cannot allocate memory")


class LoweringEnded(Exception):
    """The process crashed or exceeded a limit. The message is a predicate such as "crashes torch-mlir", for a sentence
    that begins with the operator.
    """


def run_torch_mlir(bytecode: bytes, pipeline: str, *, divide_seconds: int = 1) -> subprocess.CompletedProcess[bytes]:
    """Runs `pipeline` within the limits `memory_bytes` and `capture_seconds` of docs/verification/security.md.

    Args:
      bytecode: the module.
      pipeline: MLIR's textual pass pipeline.
      divide_seconds: the divisor of the time limit.
    Returns:
      the exit status of torch-mlir (never negative), the bytecode of the result, and the diagnostics.
    Raises:
      LoweringEnded: the process crashed or exceeded a limit.
    """
    bounds = limits()
    seconds = max(bounds.capture_seconds // divide_seconds, 1)
    # Threads would use additional address space and have no benefit, because a program has only one function to
    # parallelize over.
    command = [str(OPT), f"--pass-pipeline={pipeline}", "--emit-bytecode", "--mlir-disable-threading"]
    pipe = subprocess.PIPE
    with subprocess.Popen(ending_with_this(command), stdin=pipe, stdout=pipe, stderr=pipe) as process:
        # The limits apply before any pass runs, because the process still waits for its input.
        for kind, soft, hard in (
            (resource.RLIMIT_AS, bounds.memory_bytes, bounds.memory_bytes),
            # At the soft limit, the kernel sends SIGXCPU, which shows the cause. SIGKILL, which it sends at the hard
            # limit, could also come from elsewhere.
            (resource.RLIMIT_CPU, seconds, seconds + 5),
            (resource.RLIMIT_CORE, 0, 0),
        ):
            # Only a privileged process may raise a hard limit that the parent has set, for example with ulimit.
            _, most = resource.prlimit(process.pid, kind)
            if most != resource.RLIM_INFINITY:
                soft, hard = min(soft, most), min(hard, most)
            resource.prlimit(process.pid, kind, (soft, hard))
        try:
            output, errors = process.communicate(bytecode)
        except BaseException:
            # Popen.__exit__ would wait for the process, so end the process first.
            process.kill()
            raise
    if process.returncode >= 0:
        return subprocess.CompletedProcess(command, process.returncode, output, errors)
    if process.returncode == -signal.SIGXCPU:
        raise LoweringEnded(f"takes torch-mlir more than {seconds} s, the limit (capture_seconds of {VARIABLE})")
    if any(word in errors for word in _NO_MEMORY):
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        if most != resource.RLIM_INFINITY and most < bounds.memory_bytes:
            raise LoweringEnded(f"takes torch-mlir more than {most:,} bytes of memory, the limit (ulimit -v)")
        raise LoweringEnded(
            f"takes torch-mlir more than {bounds.memory_bytes:,} bytes of memory, the limit "
            f"(memory_bytes of {VARIABLE})"
        )
    raise LoweringEnded("crashes torch-mlir")
