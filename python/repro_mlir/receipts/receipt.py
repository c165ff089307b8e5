# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Receipts as they lie on disk, read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import blake3
import numpy as np

from .. import tensor_record
from ..arrays import TensorType
from ..canonical import examine
from ..errors import ReceiptWrong, ReproError
from ..files import read_regular
from ..hashing import tensor_digests
from ..limits import limits
from ..program import Program, read_untrusted
from ..untrusted import NoProgram
from . import canonical_json, checkpoints
from .commitments import Commitment
from .form import HEADER, INPUTS, PROGRAM, SEAL, STEPS, Header, Seal
from .step_log import StepLog, StoredInputs


def digests_of(kinds: Sequence[TensorType], arrays: Sequence[np.ndarray]) -> tuple[bytes, ...]:
    """(H1) of each array."""
    return tuple(tensor_digests([(array, kind.element) for array, kind in zip(arrays, kinds, strict=True)]))


def _check_memory(header: Header, where: str) -> None:
    """ReproError where a state or the inputs of a step are more than is read; a file may have holes for all of it."""
    most = limits().archive_bytes
    for what, kinds in (("a state", header.signature.state), ("inputs", header.signature.inputs)):
        if (size := tensor_record.size_of(kinds)) > most:
            raise ReproError(f"{where}: {what} of {size:,} bytes, expected at most {most:,}")


class Receipt:
    """A receipt directory, of a run that has ended or not.

    Each part is read when it is first asked for and then has the form that docs/receipts.md gives it. Whether the parts
    agree with each other and with what the program computes is for `verify`.

    Attributes:
      path: the directory.
      header: receipt.json.
      seal: seal.json, None while the run has not ended.
    """

    def __init__(self, path: str | Path) -> None:
        """Opens a receipt.

        Raises:
          ReproError: no receipt, or one of another version of format or numerics.
        """
        self.path = Path(path)
        if not self.path.is_dir():
            raise ReproError(f"{self.path}: expected a receipt, which is a directory with a file {HEADER}")
        self.header = Header.load(read_regular(self.path / HEADER, canonical_json.LIMIT), str(self.path / HEADER))
        _check_memory(self.header, str(self.path / HEADER))
        seal = self.path / SEAL
        # A link to nothing, say, is there too.
        there = os.path.lexists(seal)
        self.seal = Seal.load(read_regular(seal, canonical_json.LIMIT), str(seal)) if there else None

    @cached_property
    def log(self) -> StepLog:
        """The records of the steps."""
        return StepLog(self.path / STEPS, self.header.signature)

    @cached_property
    def stored_inputs(self) -> StoredInputs:
        """The form of inputs.bin."""
        return StoredInputs(self.header.stored_inputs)

    @property
    def inputs_path(self) -> Path:
        """inputs.bin."""
        return self.path / INPUTS

    def inputs(self, step: int) -> list[np.ndarray]:
        """The inputs of a step that the receipt has: all, or the hyper-parameters alone."""
        return self.stored_inputs.read(self.inputs_path, step)

    @cached_property
    def program(self) -> Program:
        """The program with its initial state.

        Raises:
          ReceiptWrong: program.mlir is not the program that the header names.
        """
        header, signature = self.header, self.header.signature
        data = read_regular(self.path / PROGRAM, limits().text_bytes)
        found = blake3.blake3(data).hexdigest()
        if found != header.text_hash:
            raise ReceiptWrong(PROGRAM, "not the file that receipt.json names", None, header.text_hash, found)
        try:
            data = read_untrusted(data, self.path / PROGRAM, is_text=True)
        except NoProgram:
            raise ReceiptWrong(PROGRAM, "expected a canonical program") from None
        examined = examine(data)
        if not examined.is_named(header.program):
            raise ReceiptWrong(
                PROGRAM, "another program than receipt.json names", None, header.program, examined.identity
            )
        kinds = signature.state, signature.inputs, signature.outputs
        try:
            examined.check(*kinds)
        except ReproError as error:
            raise ReceiptWrong(HEADER, f"the signature is not that of the program: {error}") from None
        return Program(data, *kinds, signature.num_hyper_parameters, self._initial, untrusted=True)

    @cached_property
    def _initial(self) -> tuple[np.ndarray, ...]:
        arrays = checkpoints.read(self.path, 0, self.header.signature.state)
        root = Commitment(0, digests_of(self.header.signature.state, arrays)).root.hex()
        if root != self.header.initial:
            place = str(checkpoints.path_of(self.path, 0).relative_to(self.path))
            raise ReceiptWrong(place, "not the initial state that receipt.json names", None, self.header.initial, root)
        return tuple(arrays)

    def state_after(self, step: int) -> dict[str, np.ndarray]:
        """New arrays with a kept state, by name.

        Raises:
          ReceiptWrong: not the state that the step's record names.
        """
        kinds = self.header.signature.state
        if step == 0:
            return self.program.initial_state()
        arrays = checkpoints.read(self.path, step, kinds)
        place = str(checkpoints.path_of(self.path, step).relative_to(self.path))
        found = digests_of(kinds, arrays)
        for kind, expected, actual in zip(kinds, self.log[step].commitment.state, found, strict=True):
            if expected != actual:
                message = f"tensor {kind.name} is not that of the step's record"
                raise ReceiptWrong(place, message, step, expected.hex(), actual.hex())
        return {kind.name: array for kind, array in zip(kinds, arrays, strict=True)}
