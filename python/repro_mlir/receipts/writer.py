# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The files of a receipt while its run goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..errors import ReproError
from ..hashing import combine_digests
from ..program import Program
from . import checkpoints, storage
from .commitments import Commitment, next_link
from .file_list import describe_files, leftovers, list_files
from .form import CHECKPOINTS, HEADER, INPUTS, PROGRAM, SEAL, STEPS, Header, Seal, StepRecord
from .receipt import Receipt
from .signing import PrivateKey


def create(path: Path, header: Header, program: Program) -> None:
    """Writes a receipt without steps: whole, or not at all."""
    folder = storage.begin_directory(path)
    (folder / CHECKPOINTS).mkdir()
    storage.write_whole(folder / PROGRAM, [program.text.encode()])
    checkpoints.write(folder, 0, program.state, program.initial)
    for name in (STEPS, INPUTS):
        storage.write_whole(folder / name, [])
    storage.write_whole(folder / HEADER, [header.dump()])
    storage.finish_directory(folder, path)


class ReceiptWriter:
    """Appends to a receipt and seals it.

    Attributes:
      header: of the receipt.
      recorded: how many steps the receipt had when it was opened.
      kept: the last of them after which the state is kept.
      log: their records.
    """

    def __init__(self, path: Path, header: Header) -> None:
        """Opens a receipt and removes what a cut-off write left behind.

        Args:
          header: what is run now.
        Raises:
          ReproError: a receipt of something else, or one that another process writes.
        """
        self._path = path
        self._lock = storage.Lock(path / HEADER)
        try:
            self._open(header)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, header: Header) -> None:
        path = self._path
        receipt = Receipt(path)
        self.header = _same_run(receipt.header, header, path)
        self.log = receipt.log
        size = self._record_size = receipt.stored_inputs.size
        inputs = receipt.inputs_path.stat().st_size // size if size else self.log.steps
        # The records up to a kept state have been stored before it; after a power failure the files may lack the rest,
        # or have something else in its place.
        files = list_files(path)
        for name in leftovers(files):
            (path / name).unlink()
        self.kept = max(step for step in files.kept if step <= min(self.log.steps, inputs))
        self.recorded = self._whole_records(self.kept, min(self.log.steps, inputs))
        self.state = receipt.state_after(self.kept)
        self._sealed = receipt.seal is not None
        begin = self.log.bytes_of(self.recorded)
        self._steps = storage.AppendOnly(path / STEPS, begin)
        self._inputs = storage.AppendOnly(path / INPUTS, size * self.recorded)
        # The last step, its link, and the bytes of steps.jsonl up to it.
        self._end = self.recorded, self.log[self.recorded].chain if self.recorded else self.header.first_link(), begin

    def _whole_records(self, kept: int, last: int) -> int:
        """The last step up to which the records after step `kept` go on from each other."""
        link = self.log[kept].chain if kept else self.header.first_link()
        for step in range(kept + 1, last + 1):
            try:
                record = self.log[step]
            except ReproError:
                return step - 1
            link = next_link(link, step, record.commitment.root)
            if record.chain != link:
                return step - 1
        return last

    def append(self, step: int, commitment: Commitment, inputs: bytes, loss: bytes | None) -> None:
        """Records the next step; may be called again for a step whose record an exception cut short.

        Args:
          inputs: the bytes of all inputs, hyper-parameters first.
          loss: for `StepRecord`.
        """
        if self._sealed:
            (self._path / SEAL).unlink(missing_ok=True)
            self._sealed = False
        last, previous, begin = self._end
        if step == last:
            return
        link = next_link(previous, step, commitment.root)
        record = StepRecord(step, commitment, commitment.root, link, loss).dump()
        self._inputs.rewind(self._record_size * (step - 1))
        self._inputs.append(inputs[: self._record_size])
        self._steps.rewind(begin)
        self._steps.append(record)
        self._end = step, link, begin + len(record)

    def keep(self, step: int, state: Sequence[np.ndarray]) -> None:
        """Keeps the state after a step, unless it is kept already."""
        if checkpoints.path_of(self._path, step).exists():
            return
        # A kept state without the records before it would be of no use.
        self._inputs.sync()
        self._steps.sync()
        checkpoints.write(self._path, step, self.header.signature.state, state)

    def seal(self, steps: int, state: Sequence[bytes], key: PrivateKey | None) -> Seal:
        """Writes seal.json.

        Args:
          steps: how many the run has.
          state: the hash (H1) of each state tensor after the last one.
          key: signs the seal.
        """
        self._inputs.sync()
        self._steps.sync()
        seal = Seal(steps, self._end[1], combine_digests(state), describe_files(self._path))
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


def _same_run(found: Header, wanted: Header, path: Path) -> Header:
    if found.program != wanted.program:
        raise ReproError(f"{path}: a receipt of program {found.program}, expected this run's, {wanted.program}")
    if found.initial != wanted.initial:
        raise ReproError(f"{path}: a receipt of initial state {found.initial}, expected this run's, {wanted.initial}")
    if found.signature != wanted.signature:
        raise ReproError(f"{path}: a receipt whose tensors have other names than this run's")
    if found.nonfinite_loss != wanted.nonfinite_loss:
        raise ReproError(
            f"{path}: a receipt with nonfinite_loss={found.nonfinite_loss!r}, "
            f"this run asks for {wanted.nonfinite_loss!r}"
        )
    if found.stored != wanted.stored:
        raise ReproError(f"{path}: a receipt {'with' if found.stored else 'without'} batches, this run asks otherwise")
    return found
