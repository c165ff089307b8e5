# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The targets "cores:<machine>": simulates a machine of many cores in this process."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from repro_mlir._mlir_libs import _repro
from repro_mlir.base.errors import CompileError, ReproError, StepFailed
from repro_mlir.base.numerics.tensors import TensorType, start_of
from repro_mlir.base.printing import printable
from repro_mlir.base.progress import working
from repro_mlir.base.signals import deferred_signals
from repro_mlir.compilation.cores import Machine, cached_compile
from repro_mlir.compilation.cpu import native_level
from repro_mlir.execute.backend import Backend
from repro_mlir.execute.signature import check_signature
from repro_mlir.program import Program, debugging


class CoresBackend(Backend):
    """A core plan in a simulator."""

    def __init__(self, plan: bytes) -> None:
        """
        Args:
          plan: the result of `compilation.cores.compile`.
        Raises:
          ValueError: the plan is damaged, or does not fit its machine.
        """
        self._loaded = _repro.LoadedCorePlan(plan)
        self.states, self.inputs, self.outputs = (
            [TensorType(name, element, tuple(shape)) for name, element, shape in tensors]
            for tensors in (self._loaded.states, self._loaded.inputs, self._loaded.outputs)
        )
        self.timeline = False
        """Whether the reports of further steps contain a timeline."""
        self._report = ""
        self._thread: int | None = None
        """The thread that runs a step."""

    @property
    def report(self) -> dict[str, Any]:
        """The measurements of the last completed step (docs/guides/many-cores.md). Raises ReproError if no step has
        been completed."""
        if not self._report:
            raise ReproError("expected a completed step, whose measurements the report contains: run a step first")
        report: dict[str, Any] = json.loads(self._report)
        return report

    def run(self, states: Sequence[np.ndarray], inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        if self._thread == threading.get_ident():
            raise ReproError("expected no other step of this executable: a handler of a signal has interrupted one")
        # A signal can interrupt the simulation, which then leaves undefined values in its DRAM.
        results = [array.copy() for array in states]
        addresses = [start_of(array) for array in (*results, *inputs, *outputs)]
        self._thread = threading.get_ident()
        try:
            self._report = self._loaded.run(addresses, self.timeline)
        except RuntimeError as error:
            raise StepFailed(str(error)) from None
        except ValueError as error:
            raise ReproError(f"the core plan is wrong: {error}") from None
        finally:
            self._thread = None
        with deferred_signals():
            for array, value in zip(states, results, strict=True):
                array[...] = value


def compile_for(program: Program, machine: Machine) -> CoresBackend:
    """Maps a program onto a machine, and loads the core plan into a simulator.

    Raises:
      ReproError: the program cannot be mapped onto the machine, or the simulator cannot load the plan.
    """
    target = f"cores:{machine.name}"
    if debugging.is_dumping() and not program.untrusted:
        _dump(program, machine)
    try:
        with working(f"mapping onto {machine.name}"):
            plan = cached_compile(program.data, machine, untrusted=program.untrusted)
    except CompileError as error:
        raise ReproError(f"cannot compile the program for {target}: {printable(str(error))}") from None
    try:
        backend = CoresBackend(plan)
    except ValueError as error:
        raise ReproError(f"cannot run {target} on this machine: {printable(str(error))}") from None
    found = {"state": backend.states, "input": backend.inputs, "output": backend.outputs}
    check_signature(target, found.__getitem__, program)
    return backend


def _dump(program: Program, machine: Machine) -> None:
    with tempfile.TemporaryDirectory(prefix="repro-") as folder:
        # The path of the machine's own file may contain characters that end an option of a pass.
        file = Path(folder) / "machine.json"
        file.write_text(machine.text, encoding="utf-8")
        pipeline = f"builtin.module(cores-map{{machine={file}}},cores-lower{{level={native_level()}}})"
        debugging.dump_pipeline(program.data, pipeline, Path(machine.name).stem)
