# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs AArch64 artifacts on other machines in QEMU's user-mode emulator.

A small C program is linked with the artifact's objects into a static executable, which QEMU runs.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from repro_mlir.base.child_processes import ending_with_this
from repro_mlir.base.errors import StepFailed
from repro_mlir.execute.artifact import read_artifact
from repro_mlir.runner.plan import Plan

COMPILER = "aarch64-linux-gnu-gcc"
EMULATOR = "qemu-aarch64-static"
_SOURCE = Path(__file__).parent / "qemu_runner.c"
_FAILED_CHECK = 2


def is_available() -> bool:
    """Returns whether the cross compiler and the emulator are installed."""
    return bool(shutil.which(COMPILER) and shutil.which(EMULATOR))


def _job(plan: Plan, shares: int, steps: int) -> bytes:
    """Returns the launch plan in the format of qemu_runner.c: buffer 0 is the arena, buffer 1 has the constants, and
    the other buffers are the tensors."""
    tensors = [*plan.states, *plan.inputs, *plan.outputs]
    first = {
        "arena": 0,
        "constant": 1,
        "state": 2,
        "input": 2 + len(plan.states),
        "output": 2 + len(plan.states) + len(plan.inputs),
    }
    scratch = max((kernel.scratch for kernel in plan.kernels), default=0)
    numbers = [steps, shares, plan.arena_size, scratch, 1 + len(tensors), len(plan.launches)]
    numbers += [plan.constant_size, *(tensor.nbytes for tensor in tensors)]
    for launch in plan.launches:
        kernel = plan.kernels[launch.kernel]
        numbers += [launch.kernel, kernel.items, kernel.grain, int(launch.check), len(launch.arguments)]
        for space, index, offset in launch.arguments:
            numbers += [first[space] + index, offset]
    return struct.pack(f"<{len(numbers)}Q", *numbers)


class QemuBackend:
    """A backend with the interface of `CpuBackend` for an aarch64 artifact. The backend is slow; its purpose is the
    comparison of bits."""

    def __init__(self, artifact: bytes, threads: int = 1, *, timeout: float = 600):
        """Links the program.

        Args:
            artifact: the result of `compile` for "aarch64" or "aarch64-dotprod".
            threads: the number of shares into which each kernel's work is divided; the shares run one after the other.
            timeout: the maximum time of the link or of a step, in seconds.

        Raises:
            ReproError: the artifact is damaged.
            ValueError: the artifact is not for aarch64.
            RuntimeError: the cross compiler or the emulator is missing or fails.
        """
        self._contents = read_artifact(artifact)
        if self._contents.machine != "aarch64":
            raise ValueError(f"expected an artifact for aarch64, got one for {self._contents.machine}")
        for tool in (COMPILER, EMULATOR):
            if not shutil.which(tool):
                raise RuntimeError(f"{tool} is not installed")
        self._plan = self._contents.plan
        self.states, self.inputs, self.outputs = self._plan.states, self._plan.inputs, self._plan.outputs
        self.threads = threads
        self._timeout = timeout
        self._folder = tempfile.TemporaryDirectory(prefix="repro-aarch64-")
        objects = []
        for i, content in enumerate(self._contents.objects):
            objects.append(self._path(f"kernels{i}.o"))
            objects[-1].write_bytes(content)
        command: list[str | Path] = [COMPILER, "-std=c11", "-O2", "-static", "-o", self._path("runner")]
        command += [_SOURCE, *objects, "-lm"]
        result = subprocess.run(ending_with_this(command), capture_output=True, text=True, timeout=timeout)
        if result.returncode:
            raise RuntimeError(f"{COMPILER} failed: {result.stderr[:2000]}")

    def _path(self, name: str) -> Path:
        return Path(self._folder.name) / name

    def run(
        self,
        states: Sequence[np.ndarray],
        inputs: Sequence[np.ndarray] = (),
        outputs: Sequence[np.ndarray] | None = None,
        *,
        steps: int = 1,
    ) -> Sequence[np.ndarray]:
        """Runs `steps` steps on the same inputs and returns the outputs of the last one; the arguments are those of
        `CpuBackend.run`."""
        if outputs is None:
            outputs = [kind.empty() for kind in self.outputs]
        values = [*states, *inputs, *outputs]
        self._path("job").write_bytes(_job(self._plan, self.threads, steps))
        with open(self._path("data"), "wb") as file:
            file.write(self._contents.constants)
            for value in values:
                file.write(np.asarray(value).tobytes())
        names = [str(self._path(name)) for name in ("runner", "job", "data", "result")]
        result = subprocess.run(
            ending_with_this([EMULATOR, *names]), capture_output=True, text=True, timeout=self._timeout
        )
        if result.returncode == _FAILED_CHECK:
            raise StepFailed(self._plan.message(int(result.stdout)))
        if result.returncode:
            raise RuntimeError(f"{EMULATOR} failed with status {result.returncode}: {result.stderr[:2000]}")
        content = self._path("result").read_bytes()
        at = len(self._contents.constants)
        for i, value in enumerate(values):
            if not 0 <= i - len(states) < len(inputs):
                value[...] = np.frombuffer(content[at : at + value.nbytes], value.dtype).reshape(value.shape)
            at += value.nbytes
        return outputs
