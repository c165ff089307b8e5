# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A loaded program and its steps."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence

import numpy as np

from repro_mlir._mlir_libs import _repro
from repro_mlir.base.errors import StepFailed
from repro_mlir.execute.buffers import Tensor, address, check_disjoint

_LOADED: weakref.WeakSet[CpuBackend] = weakref.WeakSet()


def _keep_loaded() -> None:
    """A forked process has the executables without their threads: steps run on its own thread, and the destructors,
    which would wait for the others, must not run."""
    for each in _LOADED:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each._executable))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_loaded)

# What the runtime gives for a counter that it could not read.
_NOT_COUNTED = 2**64 - 1


def _describe(role: str, tensors: list) -> list[Tensor]:
    return [Tensor(role, i, name, element, tuple(shape)) for i, (name, element, shape) in enumerate(tensors)]


class CpuBackend:
    """A program that this process can run."""

    def __init__(self, artifact: bytes, threads: int | None = None):
        """Loads an artifact.

        Args:
            artifact: what `compile` returned.
            threads: how many threads a step uses; the default is one per processor. The bits do not depend on it.

        Raises:
            ValueError: the artifact is damaged, or made for another machine.
        """
        if threads is not None and threads < 1:
            raise ValueError(f"expected at least 1 thread, got {threads}")
        self._executable = _repro.LoadedArtifact(artifact, threads or os.cpu_count() or 1)
        if self._executable.threads > 1:
            _LOADED.add(self)
        self.states = _describe("state", self._executable.states)
        self.inputs = _describe("input", self._executable.inputs)
        self.outputs = _describe("output", self._executable.outputs)

    @property
    def threads(self) -> int:
        """Threads that a step uses."""
        return self._executable.threads

    @property
    def launches(self) -> list[str]:
        """The kernel of each launch of a step."""
        return list(self._executable.launches)

    @property
    def arena_bytes(self) -> int:
        """Bytes of all temporary buffers together."""
        return self._executable.arena_bytes

    def run(
        self,
        states: Sequence[np.ndarray],
        inputs: Sequence[np.ndarray] = (),
        outputs: Sequence[np.ndarray] | None = None,
    ) -> Sequence[np.ndarray]:
        """One step.

        Args:
            states: NumPy arrays with the types and shapes of `self.states`; updated in place.
            inputs: likewise for `self.inputs`; only read.
            outputs: likewise for `self.outputs`; new arrays by default.

        Returns:
            The outputs.

        Raises:
            TypeError, ValueError: a buffer does not fit.
            StepFailed: a check of the program failed; the states are as before.
        """
        outputs, addresses = self._bind(states, inputs, outputs)
        self.run_at(addresses)
        return outputs

    def run_at(self, addresses: Sequence[int]) -> None:
        """One step on the memory of states, inputs and outputs at these addresses, without a check of them.

        Raises:
            StepFailed: as `run`.
        """
        try:
            self._executable.run(addresses)
        except RuntimeError as error:
            raise StepFailed(str(error)) from None

    @property
    def completed(self) -> int:
        """How many steps have run to their end; no exception separates a step from its count."""
        count: int = self._executable.completed
        return count

    def bind(self, states: Sequence[np.ndarray]) -> list[int]:
        """The addresses of states after the checks of `run`, for `run_bound`; they hold as long as the memory stays."""
        if len(states) != len(self.states):
            raise ValueError(f"expected {len(self.states)} states, got {len(states)}")
        addresses = [address(tensor, value, writable=True) for tensor, value in zip(self.states, states, strict=True)]
        check_disjoint(self.states, addresses)
        return addresses

    def run_bound(
        self, states: Sequence[int], inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> Sequence[np.ndarray]:
        """One step as `run`, on states of `bind`; inputs and outputs must share no memory with them."""
        given = zip((*self.inputs, *self.outputs), (*inputs, *outputs), strict=True)
        addresses = [address(tensor, value, writable=tensor.role != "input") for tensor, value in given]
        self.run_at([*states, *addresses])
        return outputs

    def profile(
        self,
        states: Sequence[np.ndarray],
        inputs: Sequence[np.ndarray] = (),
        outputs: Sequence[np.ndarray] | None = None,
        counters: Sequence[int] = (),
    ) -> list[tuple[str, float, tuple[int | None, ...]]]:
        """One step on the arguments of `run`.

        Args:
          counters: file descriptors whose reads give a value as eight bytes, as those of perf_event_open.
        Returns:
          of each launch in order the kernel, the seconds, and how far each counter went on, None if it cannot be read.
        """
        _, addresses = self._bind(states, inputs, outputs)
        times, counts = self._executable.profile(addresses, list(counters))
        known = [None if count == _NOT_COUNTED else count for count in counts]
        return [
            (name, time * 1e-9, tuple(known[i * len(counters) : (i + 1) * len(counters)]))
            for i, (name, time) in enumerate(zip(self.launches, times, strict=True))
        ]

    def _bind(
        self,
        states: Sequence[np.ndarray],
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray] | None,
    ) -> tuple[Sequence[np.ndarray], list[int]]:
        """The outputs, and the addresses of all buffers after their checks."""
        if outputs is None:
            outputs = [tensor.empty() for tensor in self.outputs]
        tensors = [*self.states, *self.inputs, *self.outputs]
        for role, expected, got in (
            ("states", self.states, states),
            ("inputs", self.inputs, inputs),
            ("outputs", self.outputs, outputs),
        ):
            if len(got) != len(expected):
                raise ValueError(f"expected {len(expected)} {role}, got {len(got)}")
        addresses = [
            address(tensor, value, writable=tensor.role != "input")
            for tensor, value in zip(tensors, [*states, *inputs, *outputs], strict=True)
        ]
        check_disjoint(tensors, addresses)
        return outputs, addresses
