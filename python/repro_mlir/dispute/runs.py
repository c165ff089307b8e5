# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a prover has to defend: a run with its commitments and a way back to any step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..compiler import check_target
from ..operators import OperatorGraph, Tracer
from ..program import Program
from ..receipts import canonical_json
from ..receipts.commitments import Commitment, commit, first_link, next_link
from ..receipts.file_list import list_files
from ..receipts.form import NUMERICS, Header, Signature
from ..receipts.receipt import Receipt
from ..receipts.verification import InputSource, Replay, steps_to_execute

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
          header: fields of the header in place of those that the run has, or beside them.
          graph: the operators of the program, where they are known already.
        """
        self.graph = graph or OperatorGraph(program)
        self.inputs = [list(step) for step in inputs]
        self._tracer = tracer
        self.states: list[Arrays] = [[value.copy() for value in program.initial]]
        initial = commit(program, 0, self.states[0])
        signature = Signature(program.state, program.inputs, program.outputs, program.num_hyper_parameters)
        fields = Header(NUMERICS, program.hash, signature, initial.root.hex(), "", True, 1).run()
        self.header = canonical_json.dump(fields | (header or {}))
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
        commitment = commit(program, step, results[:count], given, results[count:])
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


class ReceiptRun:
    """The run of a receipt; steps are repeated from the states that it keeps."""

    def __init__(
        self,
        receipt: Receipt | str | Path,
        target: str = "cpu",
        threads: int | None = None,
        inputs: InputSource | None = None,
    ) -> None:
        """
        Args:
          receipt: a receipt or its directory.
          target, threads: see `compile`.
          inputs: gives the inputs of each step; needed where the receipt does not store the batches.
        Raises:
          ReproError: no receipt, or an unknown target.
        """
        check_target(target)
        self._receipt = receipt if isinstance(receipt, Receipt) else Receipt(receipt)
        self._target = target
        self._threads = threads
        self._inputs = inputs
        self._last: tuple[int, Arrays] | None = None

    @cached_property
    def graph(self) -> OperatorGraph:
        return OperatorGraph(self._receipt.program)

    @property
    def header(self) -> bytes:
        return canonical_json.dump(self._receipt.header.run())

    @property
    def steps(self) -> int:
        return self._receipt.log.steps

    def link(self, step: int) -> bytes:
        return self._receipt.log[step].chain if step else self._receipt.header.first_link()

    def commitment(self, step: int) -> Commitment:
        return self._receipt.log[step].commitment if step else self._initial

    def arrays(self, step: int) -> Arrays:
        # A script gives its batches in order, once.
        if self._last is None or self._last[0] != step:
            replay = self._replay
            for earlier in steps_to_execute([step], list_files(self._receipt.path).kept)[:-1]:
                replay.run(earlier)
            state, inputs = replay.before(step)
            self._last = step, [*(array.copy() for array in state.values()), *inputs]
        return self._last[1]

    def tracer(self, step: int) -> Tracer:
        return self._tracer

    @cached_property
    def _initial(self) -> Commitment:
        program = self._receipt.program
        return commit(program, 0, program.initial)

    @cached_property
    def _replay(self) -> Replay:
        return Replay(self._receipt, self._target, self._threads, self._inputs)

    @cached_property
    def _tracer(self) -> Tracer:
        return Tracer(self.graph, self._target, self._threads)
