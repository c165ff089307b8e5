# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A program compiled for the CPU and loaded into this process."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence

import numpy as np

from repro_mlir._mlir_libs import _repro
from repro_mlir.base.errors import StepFailed
from repro_mlir.base.numerics.tensors import TensorType, start_of

_LOADED: weakref.WeakSet[CpuBackend] = weakref.WeakSet()


def _keep_loaded() -> None:
    """Keeps the executables alive in a forked process, which does not have their worker threads.

    A forked process runs steps on its own thread. Destructors would wait for the missing threads, so the executables
    must not be destroyed.
    """
    for each in _LOADED:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each._executable))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_loaded)

# The value that the runtime returns for a counter that it could not read.
_NOT_COUNTED = 2**64 - 1


def _types(tensors: Sequence[tuple[str, str, Sequence[int]]]) -> list[TensorType]:
    return [TensorType(name, element, tuple(shape)) for name, element, shape in tensors]


class CpuBackend:
    """A compiled program that this process can run."""

    def __init__(self, artifact: bytes, threads: int | None = None):
        """Loads an artifact.

        Args:
            artifact: the result of `compile`.
            threads: the number of threads of a step, by default one per processor. The bits do not depend on it.

        Raises:
            ValueError: the artifact is damaged, or compiled for another machine.
        """
        if threads is not None and threads < 1:
            raise ValueError(f"expected at least 1 thread, got {threads}")
        self._executable = _repro.LoadedArtifact(artifact, threads or os.cpu_count() or 1)
        if self._executable.threads > 1:
            _LOADED.add(self)
        self.states = _types(self._executable.states)
        self.inputs = _types(self._executable.inputs)
        self.outputs = _types(self._executable.outputs)

    @property
    def threads(self) -> int:
        """The number of threads that a step uses."""
        return self._executable.threads

    @property
    def launches(self) -> list[str]:
        """The kernel names of the launches of a step, in order."""
        return list(self._executable.launches)

    @property
    def arena_bytes(self) -> int:
        """The total size of all temporary buffers in bytes."""
        return self._executable.arena_bytes

    def run(
        self,
        states: Sequence[np.ndarray],
        inputs: Sequence[np.ndarray] = (),
        outputs: Sequence[np.ndarray] | None = None,
    ) -> Sequence[np.ndarray]:
        """Runs one step, see `Backend.run`.

        Args:
            states, inputs: arrays with the types and shapes of `self.states` and `self.inputs`, which are not checked.
            outputs: arrays with the types and shapes of `self.outputs`; new arrays by default.

        Returns:
            The outputs.

        Raises:
            StepFailed: a check of the program failed; the states are unchanged.
        """
        if outputs is None:
            outputs = [kind.empty() for kind in self.outputs]
        self.run_at([start_of(array) for array in (*states, *inputs, *outputs)])
        return outputs

    def run_at(self, addresses: Sequence[int]) -> None:
        """Runs one step on states, inputs and outputs, in this order, at the given addresses, which are not checked.

        Raises:
            StepFailed: see `run`.
        """
        try:
            self._executable.run(addresses)
        except RuntimeError as error:
            raise StepFailed(str(error)) from None

    @property
    def completed(self) -> int:
        """The number of completed steps. No exception can come between the end of a step and the update of this
        number."""
        count: int = self._executable.completed
        return count

    def bind(self, states: Sequence[np.ndarray]) -> list[int]:
        """Returns the addresses of states for `run_bound`, which are valid until the memory moves."""
        return [start_of(array) for array in states]

    def run_bound(
        self, states: Sequence[int], inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> Sequence[np.ndarray]:
        """Runs one step like `run`, on states from `bind`; inputs and outputs must share no memory with the states."""
        self.run_at([*states, *map(start_of, inputs), *map(start_of, outputs)])
        return outputs

    def profile(
        self,
        states: Sequence[np.ndarray],
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        counters: Sequence[int] = (),
    ) -> list[tuple[str, float, tuple[int | None, ...]]]:
        """Runs one step on the arguments of `run` and measures each launch.

        Args:
          counters: file descriptors from which a read returns a value of eight bytes, like those of perf_event_open.
        Returns:
          For each launch in order: the kernel, the seconds, and the increment of each counter, or None for a counter
          that could not be read.
        """
        addresses = [start_of(array) for array in (*states, *inputs, *outputs)]
        times, counts = self._executable.profile(addresses, list(counters))
        known = [None if count == _NOT_COUNTED else count for count in counts]
        return [
            (name, time * 1e-9, tuple(known[i * len(counters) : (i + 1) * len(counters)]))
            for i, (name, time) in enumerate(zip(self.launches, times, strict=True))
        ]
