# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Records the receipts of runs by `Trainer`, and resumes interrupted runs."""

from __future__ import annotations

import math
import os
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import blake3
import numpy as np

from repro_mlir.base.calling_line import calling_line
from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.base.files import canonical_json
from repro_mlir.base.numerics.hashing import tensor_bytes, tensor_digests
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.signals import deferred_signals
from repro_mlir.distributed.beginning import Position, begin_together
from repro_mlir.distributed.ranks import Ranks
from repro_mlir.program.microbatches import StepProgram
from repro_mlir.verification.executors import executor
from repro_mlir.verification.receipts import writer
from repro_mlir.verification.receipts.commitments import Commitment, commit
from repro_mlir.verification.receipts.comparison import differences
from repro_mlir.verification.receipts.following import FollowingWriter
from repro_mlir.verification.receipts.form import (
    NUMERICS,
    STEPS,
    Header,
    ListedProgram,
    Record,
    Seal,
    Signature,
    committed_microbatches,
)
from repro_mlir.verification.receipts.options import CHECKPOINT_EVERY, ReceiptOptions
from repro_mlir.verification.receipts.receipt import Receipt
from repro_mlir.verification.receipts.signing import PrivateKey
from repro_mlir.verification.receipts.step_log import StoredInputs, loss_of


class Recorder:
    """Writes the receipt of one run.

    To record a step, call `take`, run the step, then call `commit`. The state is also hashed before each step: if the
    user has written to it since the previous step, this is recorded as a change.

    With several ranks, each rank has a recorder, and only rank 0 writes the files.

    Attributes:
      state: the state tensors by name; the run continues from them and updates them in place.
      records: the number of records so far: steps, and state changes by the user. A resumed run starts from its last
        checkpoint; the receipt's later records are computed again and compared.
      steps: the number of records that are steps.
      cursor: the number of batches taken from the data, including those of failed steps.
      known_digests: returns the digests (H1) of the state if this process has only a part of it; None if this process
        has the whole state.
    """

    def __init__(
        self,
        options: ReceiptOptions,
        program: StepProgram,
        target: str,
        threads: int,
        nonfinite_loss: str = "warn",
        ranks: Ranks | None = None,
        made_at: tuple[str, int] | None = None,
    ) -> None:
        """Creates a receipt, or resumes an existing one.

        Args:
          program: the program of the run, with the initial state of the run.
          target, threads: recorded in the receipt for information.
          nonfinite_loss: see `Header`.
          ranks: the ranks of a distributed run; rank 0 writes the receipt, and the others start from the same record.
          made_at: the file and the line that made the trainer, for a warning; None: those that call this package.
        Raises:
          ReproError: if the receipt exists already, belongs to another run or to a run that has stopped, or cannot be
            written. If there are ranks, rank 0 raises this error.
        """
        self._path = Path(options.path)
        self._kinds = program.state
        self._program = program
        self._key: PrivateKey | None = None
        self._writer: writer.ReceiptWriter | FollowingWriter
        if ranks is None:
            header = self._prepare(options, target, threads, nonfinite_loss, writes=True)
            begin = self._open(options, header)
        else:
            begin = self._open_together(options, target, threads, nonfinite_loss, ranks)
        self.state = self._writer.state
        self.known_digests: Callable[[], tuple[bytes, ...]] | None = None
        self.records, self.steps, self.cursor = begin.records, begin.steps, begin.cursor
        self._inputs = b""
        # The commitment of a step that has been computed and hashed but not yet recorded.
        self._computed: Commitment | None = None
        # A forked child inherits the open files and must not write to them.
        self._owner = os.getpid()
        # Hashing may use all threads because no step runs at the same time.
        self._hashers = ThreadPoolExecutor(threads, "repro-hash")
        self._last = self._digests()
        # Only rank 0 writes a receipt. The function is called at the latest when the process ends.
        self._unsealed = weakref.finalize(self, _warn_unsealed, self._path, self._owner, *(made_at or calling_line()))
        if isinstance(self._writer, FollowingWriter):
            self._unsealed.detach()

    def _prepare(
        self, options: ReceiptOptions, target: str, threads: int, nonfinite_loss: str, *, writes: bool
    ) -> Header:
        """Returns the header of the receipt. Raises ReproError for invalid options."""
        every = options.microbatches_every
        checkpoints = CHECKPOINT_EVERY if options.checkpoint_every is None else options.checkpoint_every
        if type(checkpoints) is not int or checkpoints < 1:
            raise ReproError(f"expected at least 1 step between checkpoints, got {checkpoints!r}")
        if every is not None and (type(every) is not int or not 1 <= every < 1 << 53):
            raise ReproError(f"expected at least 1 step between committed microbatches, got {every!r}")
        if writes and options.sign is not None:
            self._key = PrivateKey(options.sign)
        program = self._program
        header = Header(
            NUMERICS,
            program.state,
            commit(program, 0, program.initial).root.hex(),
            (ListedProgram.of(program),),
            options.store_batches,
            checkpoints,
            executor("recording a receipt").describe(target, threads),
            _script(options.script),
            nonfinite_loss,
            microbatches_every=every,
        )
        try:
            header.dump()
        except ValueError as error:
            raise ReproError(f"the receipt cannot name the program's tensors: {error}") from None
        return header

    def _open(self, options: ReceiptOptions, header: Header) -> Position:
        """Opens the receipt, and returns the position from which the run starts."""
        try:
            if not self._path.exists():
                writer.create(self._path, header, self._program)
            elif not options.resume:
                raise options.exists()
            opened = self._writer = writer.ReceiptWriter(
                self._path, header, program=self._program, any_interval=options.checkpoint_every is None
            )
        except OSError as error:
            raise self._cannot_write(error) from None
        log, kept = opened.log, opened.kept
        last = log[kept] if kept else None
        if last is not None and last.step and header.nonfinite_loss == "stop":
            loss = loss_of(log[log.record_of(last.step)], opened.header)
            if loss is not None and not math.isfinite(loss):
                opened.close()
                raise ReproError(f"{self._path}: the run has stopped, as the loss of step {last.step} is {loss}")
        cursor = last.commitment.cursor if last else 0
        return Position(kept, last.step if last else 0, cursor, opened.header.checkpoint_every)

    def _open_together(
        self, options: ReceiptOptions, target: str, threads: int, nonfinite_loss: str, ranks: Ranks
    ) -> Position:
        """Calls `_open` on rank 0; all ranks start from the position that it returns."""
        headers: list[Header] = []
        state = {} if ranks.rank == 0 else self._program.initial_state()

        def prepare() -> bytes:
            header = self._prepare(options, target, threads, nonfinite_loss, writes=ranks.rank == 0)
            headers.append(header)
            kept = options.checkpoint_every, options.store_batches, options.resume
            return blake3.blake3(canonical_json.dump([header.run(), self._program.hash, *map(str, kept)])).digest()

        try:
            begin = begin_together(
                ranks,
                prepare,
                lambda: self._open(options, headers[0]),
                lambda: self._writer.state if ranks.rank == 0 else state,
            )
        except BaseException:
            if hasattr(self, "_writer"):
                self._writer.close()
            raise
        if ranks.rank > 0:
            header = replace(headers[0], checkpoint_every=begin.checkpoint_every)
            self._writer = FollowingWriter(header, begin.records, state)
        return begin

    def work_on(self, state: dict[str, np.ndarray]) -> None:
        """Copies the values of the state into the given arrays, and uses these arrays as the state from now on."""
        for name, array in state.items():
            array[...] = self.state[name]
        self.state = state

    def restore(self) -> None:
        """Resets the state to the last kept state, before the first step of a resumed run."""
        for name, array in self.state.items():
            array[...] = self._writer.state[name]

    @cached_property
    def _skipped(self) -> dict[int, int]:
        """The numbers of the records of the steps before the one that runs first, by the numbers of their batches,
        counted from 1."""
        if not isinstance(self._writer, writer.ReceiptWriter):
            return {}
        log, records = self._writer.log, range(1, self._writer.kept + 1)
        return {log.cursor_of(record): record for record in records if log.program_of(record) is not None}

    def has_skipped(self, batch: int) -> bool:
        """Whether this rank reads the receipt, and a skipped step of it has used the batch of this number, counted from
        1. A failed step has used a batch without a record."""
        return batch in self._skipped

    def compare_skipped(
        self, batch: int, program: StepProgram, inputs: Sequence[np.ndarray], hyper_parameters: bool
    ) -> None:
        """Compares the inputs of a skipped step with its record.

        Args:
          batch: the number of the step's batch, counted from 1.
          program, inputs: the program and the inputs that the step would have now. Inputs with other names than in the
            record are not compared.
          hyper_parameters: whether to compare the hyper-parameters, too.
        Raises:
          ReceiptWrong: an input differs.
        """
        assert isinstance(self._writer, writer.ReceiptWriter)
        record = self._writer.log[self._skipped[batch]]
        assert record.program is not None
        signature = self._writer.header.programs[record.program].signature
        known = {kind.name: place for place, kind in enumerate(signature.inputs)}
        form = StoredInputs(program.inputs)
        arrays = form.decode(form.encode(inputs), f"step {record.step}")
        for place, (kind, array) in enumerate(zip(program.inputs, arrays, strict=True)):
            is_hyper_parameter = place < program.num_hyper_parameters
            at = known.get(kind.name)
            if at is None or (is_hyper_parameter and not hyper_parameters):
                continue
            expected, (actual,) = record.commitment.inputs[at], tensor_digests([(array, kind.element)])
            if actual == expected:
                continue
            told = "this run has other values"
            if is_hyper_parameter and at < signature.num_hyper_parameters and not kind.shape:
                stored = Receipt(self._path).inputs(self._writer.log.record_of(record.step))
                told = f"expected {stored[at]!s}, this run has {array!s}"
            raise ReceiptWrong(
                f"input {kind.name}",
                f"{self._path} cannot be resumed, because the input differs from its record: {told}: change the script "
                "and its data back, or begin another receipt",
                record.step,
                expected.hex(),
                actual.hex(),
            )

    def take(self, program: StepProgram, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Begins a step: records a state change by the user since the last step.

        Args:
          program: the program of the step, with the same state tensors as the first program.
          inputs: the inputs of the step, in the order of the program.
        Returns:
          the inputs that the step must use: copies with canonical NaNs (V4), as the receipt stores them.
        Raises:
          ReproError: if the receipt cannot represent the change or the program, or cannot be written.
          ReceiptWrong: if a resumed run makes a change that differs from the one in the receipt.
        """
        self._require_owner()
        self._writer.check_program(program)
        most = canonical_json.LIMIT // 128
        if committed_microbatches(self._writer.header.microbatches_every, self.steps + 1, program) > most:
            raise ReproError(f"expected a step of at most {most:,} microbatches with microbatches_every, got more")
        self._note_change()
        self._program = program
        form = StoredInputs(program.inputs)
        self._inputs = form.encode(inputs)
        return form.decode(self._inputs, f"step {self.steps + 1}")

    def skip(self) -> None:
        """Ends a step that has failed after `take`: the receipt counts its batch but has no record of it."""
        self.cursor += 1

    @property
    def commits_microbatches(self) -> bool:
        """(C8) Whether the step that `take` began commits to its microbatches."""
        return committed_microbatches(self._writer.header.microbatches_every, self.steps + 1, self._program) > 0

    def commit(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], microbatches: tuple[bytes, ...] = ()
    ) -> None:
        """Records the step that has run with the inputs that `take` returned; may be called again if an exception
        interrupts it.

        Args:
          inputs, outputs: the step's inputs and outputs, in the order of the program.
          microbatches: the hash of each microbatch (C8), if the step commits to them.
        Raises:
          ReproError: if the receipt cannot be written.
          ReceiptWrong: if a resumed run computes results that differ from those in the receipt.
        """
        if self._computed is None:
            self._computed = commit(
                self._program,
                self.cursor + 1,
                self._arrays(),
                inputs,
                outputs,
                self._hashers,
                steps=self.steps + 1,
                signature=Signature.of(self._program).digest,
                microbatches=microbatches,
                digests=None if self.known_digests is None else self.known_digests(),
            )
        self.finish(outputs)

    @property
    def kinds(self) -> tuple[TensorType, ...]:
        """The names and types of the state tensors, which are the same for all programs of the run."""
        return self._kinds

    @property
    def last(self) -> tuple[bytes, ...]:
        """The hashes (H1) of the state after the last record. Each record creates a new tuple, so a caller can detect a
        new record by identity."""
        return self._last

    @property
    def keeps_next(self) -> bool:
        """Whether the receipt keeps the state after the next step."""
        return (self.steps + 1) % self._writer.header.checkpoint_every == 0

    @property
    def can_finish(self) -> bool:
        """Whether an interrupted step has already been hashed, so that `finish` can still record it."""
        return self._computed is not None

    def finish(self, outputs: Sequence[np.ndarray]) -> None:
        """Writes the record of a step that has been hashed; raises the same exceptions as `commit`."""
        computed = self._computed
        if computed is None:
            return
        record, step = self.records + 1, self.steps + 1
        if record <= self._writer.recorded:
            self._compare(record, Record(step, computed, b"", b"", 0))
        else:
            with self._writing():
                program = self._writer.list_program(self._program)
                self._writer.append_step(record, step, program, computed, self._inputs, self._loss(outputs))
        if step % self._writer.header.checkpoint_every == 0:
            self._keep(record, computed.state)
        self._last, self.cursor = computed.state, computed.cursor
        self.records, self.steps, self._computed = record, step, None

    def seal(self) -> Seal | None:
        """Ends the run: records a state change since the last step, keeps the last state and writes seal.json.

        Returns:
          the seal; None on a rank that does not write the receipt.
        Raises:
          ReproError: if the receipt has more steps than this run, or cannot be written.
        """
        self._require_owner()
        recorded = self._writer.recorded
        if self.records < recorded and (steps := self._recorded(recorded).step) > self.steps:
            raise ReproError(f"{self._path}: expected {steps} steps, as in the receipt, got {self.steps}")
        self._note_change()
        if self.records < recorded:
            raise ReproError(f"{self._path}: expected a change of the state at the end, as in the receipt, got none")
        self._keep(self.records, self._last)
        with self._writing():
            return self._writer.seal(self.steps, self._last, self._key)

    def end(self) -> None:
        """Calls `seal`, then `close` even if `seal` raises an exception."""
        try:
            self.seal()
        finally:
            self.close()

    def close(self) -> None:
        """Ends the threads and closes the files; a receipt without a seal can be resumed."""
        self._unsealed.detach()
        if os.getpid() == self._owner:
            self._hashers.shutdown()
            self._writer.close()

    def _require_owner(self) -> None:
        """Raises ReproError in a process that was forked from the one that opened the receipt."""
        if os.getpid() != self._owner:
            raise ReproError(
                f"{self._path}: process {self._owner} writes this receipt, and this process was forked from it: "
                "run steps only in that process"
            )

    def _arrays(self) -> list[np.ndarray]:
        return [self.state[kind.name] for kind in self._kinds]

    def _digests(self) -> tuple[bytes, ...]:
        if self.known_digests is not None:
            return self.known_digests()
        pairs = zip(self._arrays(), self._kinds, strict=True)
        # A signal handler may close the receipt, and closing hashes the state too. This would deadlock if the signal
        # arrived while the thread pool's `submit` holds its lock, which is not reentrant.
        with deferred_signals():
            return tuple(tensor_digests([(array, kind.element) for array, kind in pairs], self._hashers))

    def _note_change(self) -> None:
        """Records a change if the state has been written to since the last record."""
        digests = self._digests()
        if digests == self._last:
            return
        triples = zip(self._kinds, self._last, digests, strict=True)
        kinds = [kind for kind, before, after in triples if before != after]
        record, commitment = self.records + 1, Commitment(self.cursor, digests, steps=self.steps)
        if record <= self._writer.recorded:
            self._compare(record, Record(self.steps, commitment, b"", b"", None))
        else:
            with self._writing():
                arrays = [self.state[kind.name] for kind in kinds]
                self._writer.append_change(record, self.steps, commitment, kinds, arrays)
        self.records, self._last = record, digests

    def _keep(self, record: int, digests: Sequence[bytes]) -> None:
        """Keeps the state; raises ReproError if it no longer has these digests."""
        for kind, expected, actual in zip(self._kinds, digests, self._digests(), strict=True):
            if expected != actual:
                raise ReproError(f"state {kind.name} was changed while step {self.steps + 1} was recorded")
        with self._writing():
            self._writer.keep(record, self._arrays())

    def _compare(self, number: int, record: Record) -> None:
        """Raises ReceiptWrong if a record that a resumed run has computed again differs from the receipt's record."""
        for place, expected, actual in differences(self._writer.header, self._recorded(number), record):
            raise ReceiptWrong(
                place,
                f"the repeated step differs from {self._path / STEPS}: change the script and its data back, or begin "
                "another receipt",
                record.step,
                expected,
                actual,
                is_change=record.is_change,
            )

    def _recorded(self, number: int) -> Record:
        """Returns a record that the receipt had when it was opened; called only on the rank that writes the receipt."""
        assert isinstance(self._writer, writer.ReceiptWriter)
        return self._writer.log[number]

    def _loss(self, outputs: Sequence[np.ndarray]) -> bytes | None:
        for kind, array in zip(self._program.outputs, outputs, strict=True):
            if kind.name == "loss" and not kind.shape:
                return tensor_bytes(array, kind.element)
        return None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._cannot_write(error) from None

    def _cannot_write(self, error: OSError) -> ReproError:
        return ReproError(f"cannot write {error.filename or self._path}: {error.strerror}")


def _script(path: str | Path | None) -> tuple[str, str] | None:
    if path is None:
        return None
    try:
        return Path(path).name, blake3.blake3(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise ReproError(f"cannot read {path}: {error.strerror}") from None


def _warn_unsealed(path: Path, owner: int, file: str, line: int) -> None:
    """Warns that a receipt was left without a seal, unless this process was forked from the one that writes it."""
    if os.getpid() == owner:
        message = (
            f"{path} has no seal, so repro verify takes it for the receipt of a run that has not ended: use the "
            "trainer in a with statement, or call its method close() at the end"
        )
        warnings.warn_explicit(message, RuntimeWarning, file, line)
