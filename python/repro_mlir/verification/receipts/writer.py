# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes the files of a receipt during the run that it records."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import canonical_json, storage
from repro_mlir.base.numerics.hashing import combine_digests
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.program.microbatches import StepProgram
from repro_mlir.verification.operators.graph import OperatorGraph, different_operators
from repro_mlir.verification.receipts.commitments import Commitment, next_link
from repro_mlir.verification.receipts.comparison import different_input
from repro_mlir.verification.receipts.consistency import check_step
from repro_mlir.verification.receipts.file_list import FileList, describe_files, leftovers, list_files
from repro_mlir.verification.receipts.form import (
    CHECKPOINTS,
    HEADER,
    INPUTS,
    MOST_PROGRAMS,
    PROGRAMS,
    SEAL,
    STEPS,
    Header,
    ListedProgram,
    Record,
    Seal,
    Signature,
    program_file,
)
from repro_mlir.verification.receipts.kept_tensors import changes, checkpoints
from repro_mlir.verification.receipts.receipt import Receipt
from repro_mlir.verification.receipts.signing import PrivateKey
from repro_mlir.verification.receipts.step_log import StoredInputs


def create(path: Path, header: Header, program: StepProgram) -> None:
    """Atomically creates a receipt without steps."""
    folder = storage.begin_directory(path)
    for name in (CHECKPOINTS, PROGRAMS):
        (folder / name).mkdir()
    storage.write_whole(folder / header.program_file(0), [program.data])
    checkpoints.write(folder, 0, program.state, program.initial)
    for name in (STEPS, INPUTS):
        storage.write_whole(folder / name, [])
    storage.write_whole(folder / HEADER, [header.dump()])
    storage.finish_directory(folder, path)


@dataclass(frozen=True)
class _End:
    """The end of the written part of a receipt: a record, its link, the numbers of bytes of steps.jsonl and inputs.bin
    up to the record, and the number of listed programs that have a step."""

    record: int
    link: bytes
    lines: int
    inputs: int
    programs: int


class ReceiptWriter:
    """Appends to a receipt and seals it.

    Attributes:
      header: the header of the receipt.
      recorded: the number of records that the receipt had when it was opened.
      kept: the last of these records after which the state is kept.
      state: the state after record `kept`, by name.
      log: the records that the receipt had when it was opened.
    """

    def __init__(
        self, path: Path, header: Header, *, program: StepProgram | None = None, any_interval: bool = False
    ) -> None:
        """Opens a receipt and removes the remains of interrupted writes.

        Args:
          header: the header for the current run.
          program: the first program of the current run, to describe how a receipt with another program differs.
          any_interval: whether the receipt may have another `checkpoint_every` than `header`.
        Raises:
          ReproError: if the receipt is of another run, or another process writes it.
        """
        self._path = path
        self._lock = storage.Lock(path)
        try:
            self._open(header, program, any_interval)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, header: Header, program: StepProgram | None, any_interval: bool) -> None:
        path = self._path
        receipt = Receipt(path)
        self.header = _same_run(receipt, header, program, any_interval)
        log = self.log = receipt.log
        # Records up to a kept state are synced to disk before the state is written. After a power failure, later
        # records may be missing or contain garbage.
        size, last = receipt.inputs_path.stat().st_size, log.whole()
        while log.inputs_end(last) > size:
            last -= 1
        files = list_files(path)
        self.kept = max(record for record in files.kept if record <= last)
        self.recorded = self._whole_records(receipt, last)
        self.state = receipt.state_after(self.kept)
        self._sealed = receipt.seal is not None
        link = log[self.recorded].chain if self.recorded else self.header.first_link()
        ran = (log.program_of(number) for number in range(1, self.recorded + 1))
        used = max((program for program in ran if program is not None), default=0) + 1
        self._end = _End(self.recorded, link, log.bytes_of(self.recorded), log.inputs_end(self.recorded), used)
        self._before = self._end
        self._drop(files)
        # The last record for which this object has written a file with the user's changes.
        self._changed: int | None = None
        self._steps = storage.AppendOnly(path / STEPS, self._end.lines)
        self._inputs = storage.AppendOnly(path / INPUTS, self._end.inputs)

    def _whole_records(self, receipt: Receipt, last: int) -> int:
        """Returns the last record such that all records from the kept state up to it are valid and form a chain."""
        log = self.log
        link = log[self.kept].chain if self.kept else self.header.first_link()
        for number in range(self.kept + 1, last + 1):
            try:
                record = log[number]
                if record.program is None:
                    receipt.change(number)
                else:
                    check_step(receipt, number, record)
            except ReproError:
                return number - 1
            link = next_link(link, number, record.commitment.root)
            if record.root != record.commitment.root or record.chain != link:
                return number - 1
        return last

    def _drop(self, files: FileList) -> None:
        """Removes the files that no remaining record needs."""
        self._drop_programs()
        kept = [checkpoints.name_of(record) for record in files.kept if record > self.recorded]
        for name in (*kept, *leftovers(files, self.header, self.recorded)):
            (self._path / name).unlink(missing_ok=True)

    def _drop_programs(self) -> None:
        """Removes the listed programs that no step uses."""
        unused = self.header.programs[self._end.programs :]
        if unused:
            self._unseal()
            self._list(self.header.programs[: self._end.programs])
        for program in unused:
            (self._path / program_file(program.identity)).unlink(missing_ok=True)

    def _unseal(self) -> None:
        if self._sealed:
            (self._path / SEAL).unlink(missing_ok=True)
            self._sealed = False

    def _list(self, programs: tuple[ListedProgram, ...]) -> None:
        header = replace(self.header, programs=programs)
        storage.write_whole(self._path / HEADER, [header.dump()])
        self.header = header

    def check_program(self, program: StepProgram) -> None:
        """Raises ReproError for a program that the receipt cannot list."""
        programs = self.header.programs
        found = next((each for each in programs if each.identity == program.hash), None)
        if found is not None:
            # The comparison uses JSON because the equality of types ignores which integers are unsigned.
            if found.signature.as_json() != Signature.of(program).as_json():
                raise ReproError(
                    f"{self._path}: expected the same names and unsigned integers of tensors as in an earlier step of "
                    "the same program: change them back, or begin another receipt"
                )
        elif len(programs) == MOST_PROGRAMS:
            raise ReproError(
                f"{self._path}: expected at most {MOST_PROGRAMS} programs in a run: the step changes again and again; "
                "change it back, or begin another receipt"
            )
        else:
            size = len(replace(self.header, programs=(*programs, ListedProgram.of(program))).dump())
            if size > canonical_json.LIMIT:
                raise ReproError(
                    f"{self._path}: with the program of this step {HEADER} would have {size:,} bytes, expected at most "
                    f"{canonical_json.LIMIT:,}: change the step back, or begin another receipt"
                )

    def list_program(self, program: StepProgram) -> int:
        """Returns the position of a program in the run's list of programs; appends the program if it is not listed."""
        programs = self.header.programs
        found = next((i for i, each in enumerate(programs) if each.identity == program.hash), None)
        if found is not None:
            return found
        listed = ListedProgram.of(program)
        self._unseal()
        # Drop unused programs first, so that at most one listed program, the last one, has no step.
        self._drop_programs()
        programs = self.header.programs
        self.sync()
        storage.write_whole(self._path / program_file(listed.identity), [program.data])
        self._list((*programs, listed))
        return len(programs)

    def append_step(
        self, record: int, step: int, program: int, commitment: Commitment, inputs: bytes, loss: bytes | None
    ) -> None:
        """Appends the record of the next step; may be called again for a record if an exception interrupts it.

        Args:
          record, step: the numbers of the record and of the step.
          program: the position of the program in the list.
          inputs: the bytes of all inputs, hyper-parameters first.
          loss: see `Record`.
        """
        size = StoredInputs(self.header.programs[program].stored_inputs(self.header.stored)).size
        self._append(record, step, program, commitment, inputs[:size], loss)

    def append_change(
        self,
        record: int,
        step: int,
        commitment: Commitment,
        kinds: Sequence[TensorType],
        arrays: Sequence[np.ndarray],
    ) -> None:
        """Appends the record of a state change; may be called again for a record if an exception interrupts it.

        Args:
          record: the number of the record.
          step: the number of steps so far.
          kinds, arrays: the tensors that have changed.
        """
        self._unseal()
        # After all records are synced, a change file without a record can only belong to the next record.
        self.sync()
        self._changed = record
        changes.write(self._path, record, kinds, arrays)
        self._append(record, step, None, commitment, b"", None)

    def _append(
        self, number: int, step: int, program: int | None, commitment: Commitment, inputs: bytes, loss: bytes | None
    ) -> None:
        self._unseal()
        if program is not None and number == self._changed:
            # The write of a change was interrupted, and the user has since reverted the change.
            changes.path_of(self._path, number).unlink(missing_ok=True)
        before = self._before if number == self._end.record else self._end
        link = next_link(before.link, number, commitment.root)
        line = Record(step, commitment, commitment.root, link, program, loss).dump()
        self._inputs.rewind(before.inputs)
        self._inputs.append(inputs)
        self._steps.rewind(before.lines)
        self._steps.append(line)
        programs = before.programs if program is None else max(before.programs, program + 1)
        size = before.lines + len(line), before.inputs + len(inputs)
        self._before, self._end = before, _End(number, link, *size, programs)

    def sync(self) -> None:
        """Syncs all records to disk."""
        self._inputs.sync()
        self._steps.sync()

    def keep(self, record: int, state: Sequence[np.ndarray]) -> None:
        """Keeps the state after a record, unless it is already kept."""
        if checkpoints.path_of(self._path, record).exists():
            return
        # Sync the records first: a kept state is useless without the records before it.
        self.sync()
        checkpoints.write(self._path, record, self.header.state, state)

    def seal(self, steps: int, state: Sequence[bytes], key: PrivateKey | None) -> Seal:
        """Writes seal.json.

        Args:
          steps: the number of steps of the run.
          state: the hash (H1) of each state tensor at the end of the run.
          key: the key that signs the seal; None for no signature.
        """
        self._drop_programs()
        self.sync()
        seal = Seal(steps, self._end.link, combine_digests(state), describe_files(self._path))
        if key is not None:
            seal = replace(seal, signature=key.sign(seal.signed_bytes()))
        storage.write_whole(self._path / SEAL, [seal.dump()])
        self._sealed = True
        return seal

    def close(self) -> None:
        """Closes the files."""
        self._inputs.close()
        self._steps.close()
        self._lock.release()


_CHANGE_BACK = "change the option back, or begin another receipt"


def _same_run(receipt: Receipt, wanted: Header, program: StepProgram | None, any_interval: bool) -> Header:
    """Returns the header of a receipt; raises ReproError unless it is of the run that `wanted` describes."""
    found, path = receipt.header, receipt.path
    # A renamed script is the same script.
    if (found.script and found.script[1]) != (wanted.script and wanted.script[1]):
        stated, given = (" of BLAKE3 ".join(each.script) if each.script else "no script" for each in (found, wanted))
        raise ReproError(
            f"{path}: a receipt states the one script of its whole run: expected {stated}, as in the receipt, got "
            f"{given}: change the script back, or begin another receipt"
        )
    ours, theirs = wanted.programs[0], found.programs[0]
    if ours.identity != theirs.identity:
        different = different_input(theirs.signature, ours.signature)
        told = f"{different[0]}: {different[1]} in the receipt, {different[2]} in this run" if different else ""
        if program is not None and not told:
            # The receipt need not be readable to be of another run.
            with suppress(ReproError):
                graphs = OperatorGraph(receipt.program_at(0)), OperatorGraph(program)
                told = different_operators((graphs[0], "the receipt"), (graphs[1], "this run"))
        told = f" ({told})" if told else ""
        raise ReproError(
            f"{path}: expected a receipt of this run's program {ours.identity}, got {theirs.identity}{told}: "
            "change the model, the options and the shapes of the batches back, or begin another receipt"
        )
    if found.initial != wanted.initial:
        raise ReproError(
            f"{path}: expected this run's initial state {wanted.initial}, got {found.initial}: the run must begin with "
            "the same weights, so set the same seed, or begin another receipt"
        )
    if theirs.signature.as_json() != ours.signature.as_json():
        raise ReproError(f"{path}: expected a receipt of this run's names and unsigned integers of tensors, got others")
    for name in ("nonfinite_loss", "microbatches_every"):
        ours, theirs = getattr(wanted, name), getattr(found, name)
        if ours != theirs:
            raise ReproError(
                f"{path}: expected a receipt with {name}={ours!r}, as in this run, got {theirs!r}: {_CHANGE_BACK}"
            )
    if not any_interval and found.checkpoint_every != wanted.checkpoint_every:
        raise ReproError(
            f"{path}: expected a receipt with checkpoint_every={wanted.checkpoint_every}, as in this run, got "
            f"{found.checkpoint_every}: {_CHANGE_BACK}"
        )
    if found.stored != wanted.stored:
        kept = "with" if wanted.stored else "without"
        raise ReproError(f"{path}: expected a receipt {kept} batches, as in this run: {_CHANGE_BACK}")
    return found
