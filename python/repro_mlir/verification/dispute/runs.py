# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The run that a prover defends: its commitments, and a method of executing any step again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.base.files import canonical_json
from repro_mlir.base.printing import foreign
from repro_mlir.base.progress import Progress
from repro_mlir.program.microbatches import StepProgram
from repro_mlir.verification.executors import check_target
from repro_mlir.verification.operators import OperatorGraph, Tracer
from repro_mlir.verification.receipts.commitments import Commitment, commit, first_link, next_link
from repro_mlir.verification.receipts.file_list import list_files
from repro_mlir.verification.receipts.form import NUMERICS, Header, ListedProgram, Signature
from repro_mlir.verification.receipts.receipt import Receipt
from repro_mlir.verification.receipts.verification import InputSource, Replay, records_to_execute

Arrays = list[np.ndarray]


class Run(Protocol):
    """A run as its prover knows it. Record 0 is the initial state; records from 1 on are steps and state changes by the
    user."""

    @property
    def graphs(self) -> Sequence[OperatorGraph]:
        """The operators of each program of the run."""

    @property
    def header(self) -> bytes:
        """The declarations before the run, such as that of its initial state, in canonical JSON (C4)."""

    @property
    def records(self) -> int:
        """The number of records, without record 0."""

    @property
    def steps(self) -> int:
        """The number of records that are steps."""

    def link(self, record: int) -> bytes:
        """Returns the link of the chain after a record."""

    def commitment(self, record: int) -> Commitment:
        """Returns the commitment of a record."""

    def graph_of(self, record: int) -> OperatorGraph | None:
        """Returns the operators of a step's program; None for a state change."""

    def arrays(self, record: int) -> Arrays:
        """Returns the state before a step and the step's inputs, in the representation of base/numerics/tensors.py."""

    def tracer(self, record: int) -> Tracer:
        """Returns a tracer that runs a step operator by operator."""


class RecordedRun:
    """Implements `Run` in memory for a few steps of one program: executes them, keeps every state and commits to each
    step."""

    def __init__(
        self,
        program: StepProgram,
        inputs: Sequence[Sequence[np.ndarray]],
        execute: Callable[[int, Arrays], Arrays],
        *,
        tracer: Callable[[int], Tracer] | None = None,
        header: dict[str, Any] | None = None,
        graph: OperatorGraph | None = None,
    ) -> None:
        """
        Args:
          program: the program; the run starts from its initial state.
          inputs: the inputs of each step.
          execute: runs a step, given its number and its arguments (state and inputs); returns the new state and the
            outputs.
          tracer: returns the tracer that runs a step operator by operator; by default the reference interpreter.
          header: fields that replace or extend those of the run's header.
          graph: the operators of the program, if already known.
        """
        self.graph = graph or OperatorGraph(program)
        self.inputs = [list(step) for step in inputs]
        self._tracer = tracer
        self.states: list[Arrays] = [[value.copy() for value in program.initial]]
        initial = commit(program, 0, self.states[0])
        programs = (ListedProgram.of(program),)
        fields = Header(NUMERICS, program.state, initial.root.hex(), programs, True, 1).run()
        self.header = canonical_json.dump(fields | (header or {}))
        self.commitments = [initial]
        self.links = [first_link(self.header)]
        for step, given in enumerate(self.inputs, 1):
            results = execute(step, [*self.states[-1], *given])
            self.record(step, given, results)

    def record(self, step: int, given: Sequence[np.ndarray], results: Arrays) -> None:
        """Keeps the new state of the next step and commits to the step, given its inputs and its results."""
        program = self.graph.step
        count = len(program.state)
        self.states.append(results[:count])
        signature = Signature.of(program).digest
        commitment = commit(program, step, results[:count], given, results[count:], steps=step, signature=signature)
        self.commitments.append(commitment)
        self.links.append(next_link(self.links[-1], step, commitment.root))

    @property
    def graphs(self) -> Sequence[OperatorGraph]:
        return (self.graph,)

    @property
    def records(self) -> int:
        return len(self.inputs)

    @property
    def steps(self) -> int:
        return len(self.inputs)

    def link(self, record: int) -> bytes:
        return self.links[record]

    def commitment(self, record: int) -> Commitment:
        return self.commitments[record]

    def graph_of(self, record: int) -> OperatorGraph:
        return self.graph

    def arrays(self, record: int) -> Arrays:
        return [*self.states[record - 1], *self.inputs[record - 1]]

    def tracer(self, record: int) -> Tracer:
        return self._tracer(record) if self._tracer else Tracer(self.graph)


class ReceiptRun:
    """Implements `Run` for a receipt: executes steps again from the states that the receipt keeps."""

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
          inputs: returns the inputs of each step; required if the receipt does not store the batches.
        Raises:
          ReproError: if there is no valid receipt, or the target is unknown.
        """
        check_target(target)
        self._receipt = receipt if isinstance(receipt, Receipt) else Receipt(receipt)
        self._target = target
        self._threads = threads
        self._inputs = inputs
        self._last: tuple[int, Arrays] | None = None
        self._tracers: dict[int, Tracer] = {}

    @cached_property
    def graphs(self) -> Sequence[OperatorGraph]:
        with self._named():
            return [OperatorGraph(self._receipt.program_at(i)) for i in range(len(self._receipt.header.programs))]

    @property
    def header(self) -> bytes:
        return canonical_json.dump(self._receipt.header.run())

    @property
    def records(self) -> int:
        return self._receipt.log.records

    @property
    def steps(self) -> int:
        return self._receipt.log.steps

    def link(self, record: int) -> bytes:
        return self._receipt.log[record].chain if record else self._receipt.header.first_link()

    def commitment(self, record: int) -> Commitment:
        return self._receipt.log[record].commitment if record else self._initial

    def graph_of(self, record: int) -> OperatorGraph | None:
        program = self._receipt.log[record].program if record else None
        return None if program is None else self.graphs[program]

    def state_after(self, record: int) -> Arrays:
        """Returns the state after a record, in the representation of base/numerics/tensors.py; executes the records
        since the last kept state."""
        with self._named(), closing(self._replay()) as replay:
            self._run(
                replay, records_to_execute([record] if record else [], list_files(self._receipt.path).kept), record
            )
            return [array.copy() for array in replay.state_before(record + 1).values()]

    def arrays(self, record: int) -> Arrays:
        # The arrays are cached because a script yields its batches in order and only once.
        if self._last is None or self._last[0] != record:
            with self._named(), closing(self._replay()) as replay:
                self._run(replay, records_to_execute([record], list_files(self._receipt.path).kept)[:-1], record)
                state = [array.copy() for array in replay.state_before(record).values()]
                self._last = record, [*state, *replay.inputs(record)]
        return self._last[1]

    def tracer(self, record: int) -> Tracer:
        program = self._receipt.log[record].program
        assert program is not None
        if program not in self._tracers:
            self._tracers[program] = Tracer(self.graphs[program], self._target, self._threads)
        return self._tracers[program]

    def _run(self, replay: Replay, records: Sequence[int], explained: int) -> None:
        """Executes records, with a progress bar. Those before `explained`, on which both runs agree, must have the
        results that the receipt records."""
        if not records:
            return
        with Progress(len(records), f"{foreign(str(self._receipt.path))}: running on {self._target}") as progress:
            for record in records:
                (replay.check if record < explained else replay.run)(record)
                progress.advance(self._receipt.log[record].shown)

    @cached_property
    def _initial(self) -> Commitment:
        with self._named():
            return Commitment(0, self._receipt.state_digests(0))

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Names the receipt in an error about its contents, because there is another receipt."""
        try:
            yield
        except ReceiptWrong as wrong:
            raise ReproError(f"{self._receipt.path}: {wrong}") from None

    def _replay(self) -> Replay:
        return Replay(self._receipt, self._target, self._threads, self._inputs)
