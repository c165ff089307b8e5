# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads receipts from disk."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import blake3
import numpy as np

from repro_mlir.base.constant_attributes import ConstantAttributes
from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.base.files import canonical_json, tensor_record
from repro_mlir.base.files.regular import open_regular, read_regular
from repro_mlir.base.limits import VARIABLE, limits
from repro_mlir.base.numerics.hashing import tensor_digests
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.printing import count_of
from repro_mlir.program import Program, read_untrusted
from repro_mlir.program.canonical import examine_admitted
from repro_mlir.program.microbatches import (
    MicrobatchError,
    StepProgram,
    StepSignature,
    is_microbatch_data,
    programs_of,
    read_microbatches,
)
from repro_mlir.sandbox import NoProgram
from repro_mlir.verification.receipts.commitments import Commitment
from repro_mlir.verification.receipts.file_list import list_files
from repro_mlir.verification.receipts.form import HEADER, INPUTS, SEAL, STEPS, Header, ListedProgram, Seal
from repro_mlir.verification.receipts.kept_tensors import changes, checkpoints
from repro_mlir.verification.receipts.step_log import StepLog, StoredInputs


def digests_of(kinds: Sequence[TensorType], arrays: Sequence[np.ndarray]) -> tuple[bytes, ...]:
    """Returns the digest (H1) of each array."""
    return tuple(tensor_digests([(array, kind.element) for array, kind in zip(arrays, kinds, strict=True)]))


def _check_memory(header: Header, where: str) -> None:
    """Raises ReproError if a state or the inputs of a step exceed the size limit. The disk does not bound their sizes,
    because files may be sparse."""
    most = limits().archive_bytes
    inputs = (("inputs", each.signature.inputs) for each in header.programs)
    for what, kinds in (("a state", header.state), *inputs):
        if (size := tensor_record.size_of(kinds)) > most:
            raise ReproError(f"{where}: expected {what} of at most {most:,} bytes, got {size:,}")


class Receipt(ConstantAttributes):
    """The directory of a receipt, whose run may still be unfinished.

    Each part is read on first use and checked for the format of docs/verification/receipts.md. `verify` checks that the
    parts are consistent and agree with what the programs compute.

    Attributes:
      path: the directory.
      header: the contents of receipt.json.
      seal: the contents of seal.json; None for an unfinished run.
    """

    path: Path
    header: Header
    seal: Seal | None

    def __init__(self, path: str | Path) -> None:
        """Opens a receipt.

        Raises:
          ReproError: if there is no receipt, or its version of the format or of the numerics is not supported.
        """
        self.path = Path(path)
        if not os.path.lexists(self.path):
            raise ReproError(f"{self.path}: expected a receipt, but there is no such file or folder: check the path")
        if not os.path.lexists(self.path / HEADER):
            found = "a directory without it" if self.path.is_dir() else "no directory"
            raise ReproError(f"{self.path}: expected a receipt, which is a directory with a file {HEADER}, got {found}")
        self.header = Header.load(read_regular(self.path / HEADER, canonical_json.LIMIT), str(self.path / HEADER))
        _check_memory(self.header, str(self.path / HEADER))
        seal = self.path / SEAL
        # `lexists` also reports a broken symbolic link, which must not pass for a missing seal.
        there = os.path.lexists(seal)
        self._programs: dict[int, StepProgram] = {}
        self._program_bytes, self._program_seconds = 0, 0.0
        self.seal = Seal.load(read_regular(seal, canonical_json.LIMIT), str(seal)) if there else None

    @cached_property
    def log(self) -> StepLog:
        """The records of the steps and of the state changes between them."""
        return StepLog(self.path / STEPS, self.header)

    @property
    def inputs_path(self) -> Path:
        """The path of inputs.bin."""
        return self.path / INPUTS

    def stored_inputs(self, program: int) -> StoredInputs:
        """Returns the layout of the inputs of a program's steps in inputs.bin."""
        return StoredInputs(self.header.programs[program].stored_inputs(self.header.stored))

    def inputs(self, record: int) -> list[np.ndarray]:
        """Returns the inputs that the receipt stores for the step of a record: all, or only the hyper-parameters.

        Raises:
          ReceiptWrong: if an input does not match its hash in the record.
        """
        found = self.log[record]
        assert found.program is not None
        form = self.stored_inputs(found.program)
        with open_regular(self.inputs_path) as file:
            arrays = form.read(file, self.inputs_path, self.log.inputs_end(record - 1), f"step {found.step}")
        kinds = self.header.programs[found.program].stored_inputs(self.header.stored)
        self._compare(INPUTS, record, kinds, found.commitment.inputs[: len(kinds)], arrays)
        return arrays

    @property
    def program(self) -> StepProgram:
        """The program with which the run began; raises the same exceptions as `program_at`."""
        return self.program_at(0)

    def program_at(self, index: int) -> StepProgram:
        """Returns a program of the run, with the initial state of the run.

        Raises:
          ReceiptWrong: if the file is not the program that the header names.
          ReproError: if there is no such program, the programs are too large, or reading all of them takes too long.
        """
        if index not in range(len(self.header.programs)):
            known = count_of(len(self.header.programs), "program")
            raise ReproError(f"{self.path}: expected an index of its {known}, from 0, got {index}")
        if index not in self._programs:
            # The time limit covers all programs together because a verifier reads all of them.
            left = limits().read_seconds - self._program_seconds
            if left <= 0:
                raise ReproError(
                    f"{self.path}: the programs could not be read within {limits().read_seconds} s together "
                    f"(see {VARIABLE} in docs/verification/security.md)"
                )
            begin = time.monotonic()
            self._programs[index] = self._read_program(index, left)
            self._program_seconds += time.monotonic() - begin
        return self._programs[index]

    def _read_program(self, index: int, seconds: float) -> StepProgram:
        header, name = self.header, self.header.program_file(index)
        listed = header.programs[index]
        data = read_regular(self.path / name, max(limits().text_bytes - self._program_bytes, 0))
        self._program_bytes += len(data)
        found = blake3.blake3(data).hexdigest()
        if found != listed.digest:
            raise ReceiptWrong(name, f"expected the file that {HEADER} names, got another", None, listed.digest, found)
        kinds = header.state, listed.signature.inputs, listed.signature.outputs
        count = listed.signature.num_hyper_parameters
        try:
            if is_microbatch_data(data):
                begin = time.monotonic()
                for part in programs_of(data):
                    left = max(seconds - (time.monotonic() - begin), 0.0)
                    read_untrusted(part, self.path / name, seconds=left)
                step = read_microbatches(data, StepSignature(*kinds, count), self._initial)
                self._require_named(name, listed, step.hash)
                return step
            data = read_untrusted(data, self.path / name, seconds=seconds)
        except NoProgram as error:
            # The place already names the file.
            reason = str(error).removeprefix(f"{self.path / name}: ")
            raise ReceiptWrong(name, f"expected a canonical program: {reason}") from None
        except MicrobatchError as error:
            raise ReceiptWrong(name, str(error)) from None
        examined = examine_admitted(data)
        self._require_named(name, listed, examined.identity)
        try:
            examined.check(*kinds)
        except ReproError as error:
            raise ReceiptWrong(HEADER, f"programs[{index}]: expected the tensors of its file: {error}") from None
        return Program(data, *kinds, count, self._initial, untrusted=True)

    @staticmethod
    def _require_named(name: str, listed: ListedProgram, identity: str) -> None:
        if identity != listed.identity:
            raise ReceiptWrong(name, f"expected the program of {HEADER}, got another", None, listed.identity, identity)

    @cached_property
    def _initial(self) -> tuple[np.ndarray, ...]:
        arrays = checkpoints.read(self.path, 0, self.header.state)
        root = Commitment(0, digests_of(self.header.state, arrays)).root.hex()
        if root != self.header.initial:
            message = "not the initial state that receipt.json names"
            raise ReceiptWrong(checkpoints.name_of(0), message, None, self.header.initial, root)
        return tuple(arrays)

    def state_digests(self, record: int) -> tuple[bytes, ...]:
        """Returns the digest (H1) of each state tensor after a record."""
        return self.log[record].commitment.state if record else self._initial_digests

    @cached_property
    def _initial_digests(self) -> tuple[bytes, ...]:
        return digests_of(self.header.state, self._initial)

    def state_after(self, record: int) -> dict[str, np.ndarray]:
        """Reads a kept state into new arrays, by name.

        Raises:
          ReceiptWrong: if the state does not match the hashes of the record.
        """
        kinds = self.header.state
        if record == 0:
            return {kind.name: array.copy() for kind, array in zip(kinds, self._initial, strict=True)}
        if not os.path.lexists(checkpoints.path_of(self.path, record)):
            kept = ", ".join(map(str, list_files(self.path).kept))
            raise ReproError(
                f"{self.path}: expected a record after which the state is kept ({kept}), got {record}: choose one of "
                "these, and run the steps after it"
            )
        arrays = checkpoints.read(self.path, record, kinds)
        self._compare(checkpoints.name_of(record), record, kinds, self.log[record].commitment.state, arrays)
        return {kind.name: array for kind, array in zip(kinds, arrays, strict=True)}

    def change(self, record: int) -> dict[str, np.ndarray]:
        """Reads the tensors that the user changed; returns a dictionary whose keys are their names.

        Raises:
          ReceiptWrong: if the tensors do not match the hashes of the record, or the record changes no tensor.
        """
        pairs = zip(self.header.state, self.state_digests(record - 1), self.log[record].commitment.state, strict=True)
        changed = [(kind, after) for kind, before, after in pairs if before != after]
        if not changed:
            message = "expected a change of the state, got an equal state"
            raise ReceiptWrong(STEPS, message, self.log[record].step, is_change=True)
        kinds = [kind for kind, _ in changed]
        arrays = changes.read(self.path, record, kinds)
        self._compare(changes.name_of(record), record, kinds, [digest for _, digest in changed], arrays)
        return {kind.name: array for kind, array in zip(kinds, arrays, strict=True)}

    def _compare(
        self,
        place: str,
        record: int,
        kinds: Sequence[TensorType],
        digests: Sequence[bytes],
        arrays: Sequence[np.ndarray],
    ) -> None:
        for kind, expected, actual in zip(kinds, digests, digests_of(kinds, arrays), strict=True):
            if expected != actual:
                message, found = f"tensor {kind.name} is not that of the record", self.log[record]
                hashes = expected.hex(), actual.hex()
                raise ReceiptWrong(place, message, found.step, *hashes, is_change=found.is_change)
