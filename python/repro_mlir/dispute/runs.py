# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a prover has to defend: a run with its commitments and a way back to any step."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ..hashing import tensor_digest
from ..operators import OperatorGraph, Tracer
from ..program import Program
from ..receipts.commitments import Commitment, first_link, next_link

Arrays = list[np.ndarray]


class Run(Protocol):
    """A run as its prover knows it. Steps count from 1; step 0 is the initial state."""

    @property
    def graph(self) -> OperatorGraph:
        """The operators of the program."""

    @property
    def header(self) -> bytes:
        """What was to be run and from where: canonical JSON (C4)."""

    @property
    def steps(self) -> int:
        """How many steps were run."""

    def link(self, step: int) -> bytes:
        """The link of the chain after a step."""

    def commitment(self, step: int) -> Commitment:
        """The commitment of a step."""

    def arrays(self, step: int) -> Arrays:
        """The state before step `step` (from 1) and the inputs of that step, as arrays.py holds them."""

    def tracer(self, step: int) -> Tracer:
        """What runs step `step` operator by operator."""


class RecordedRun:
    """A run of a few steps in memory: it executes them, keeps every state and commits to all."""

    def __init__(
        self,
        program: Program,
        inputs: Sequence[Sequence[np.ndarray]],
        execute: Callable[[int, Arrays], Arrays],
        *,
        tracer: Callable[[int], Tracer] | None = None,
        header: dict[str, Any] | None = None,
        graph: OperatorGraph | None = None,
    ) -> None:
        """
        Args:
          program: the program; the run begins in its initial state.
          inputs: the inputs of each step.
          execute: execute(step, state and inputs) gives the new state and the outputs.
          tracer: runs a step operator by operator; by default the reference interpreter.
          header: fields of the header beside those of `make_header`.
          graph: the operators of the program, where they are known already.
        """
        self.graph = graph or OperatorGraph(program)
        self.inputs = [list(step) for step in inputs]
        self._tracer = tracer
        self.states: list[Arrays] = [[value.copy() for value in program.initial]]
        initial = Commitment(0, _digests(program.state, self.states[0]))
        self.header = make_header(program, initial.root, header)
        self.commitments = [initial]
        self.links = [first_link(self.header)]
        for step, given in enumerate(self.inputs, 1):
            results = execute(step, [*self.states[-1], *given])
            self.record(step, given, results)

    def record(self, step: int, given: Sequence[np.ndarray], results: Arrays) -> None:
        """Commits to the results of the next step."""
        program = self.graph.program
        count = len(program.state)
        self.states.append(results[:count])
        commitment = Commitment(
            step,
            _digests(program.state, results[:count]),
            _digests(program.inputs, given),
            _digests(program.outputs, results[count:]),
        )
        self.commitments.append(commitment)
        self.links.append(next_link(self.links[-1], step, commitment.root))

    @property
    def steps(self) -> int:
        return len(self.inputs)

    def link(self, step: int) -> bytes:
        return self.links[step]

    def commitment(self, step: int) -> Commitment:
        return self.commitments[step]

    def arrays(self, step: int) -> Arrays:
        return [*self.states[step - 1], *self.inputs[step - 1]]

    def tracer(self, step: int) -> Tracer:
        return self._tracer(step) if self._tracer else Tracer(self.graph)


def make_header(program: Program, initial: bytes, more: dict[str, Any] | None = None) -> bytes:
    """The header of a run: program, numerics and the root of its initial state, as canonical JSON."""
    fields = {"initial": initial.hex(), "numerics": 1, "program": program.hash, **(more or {})}
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _digests(kinds: Sequence[Any], arrays: Sequence[np.ndarray]) -> tuple[bytes, ...]:
    return tuple(tensor_digest(array, kind.element) for kind, array in zip(kinds, arrays, strict=True))
