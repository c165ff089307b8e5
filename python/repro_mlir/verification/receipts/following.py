# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Replaces the writer of a receipt on the ranks that do not write it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.program.microbatches import StepProgram
from repro_mlir.verification.receipts.commitments import Commitment
from repro_mlir.verification.receipts.form import Header
from repro_mlir.verification.receipts.signing import PrivateKey


class FollowingWriter:
    """A substitute for `ReceiptWriter` that writes nothing, on ranks other than rank 0.

    Attributes:
      header: the header of the receipt.
      kept, recorded: the record from which the run continues.
      state: the state after that record, by name.
    """

    def __init__(self, header: Header, record: int, state: dict[str, np.ndarray]) -> None:
        self.header = header
        self.kept = self.recorded = record
        self.state = state

    def check_program(self, program: StepProgram) -> None:
        """Checks nothing: rank 0 raises the error for a program that a receipt cannot list."""

    def list_program(self, program: StepProgram) -> int:
        """Returns 0: no code on this rank reads the position of the program."""
        return 0

    def append_step(
        self, record: int, step: int, program: int, commitment: Commitment, inputs: bytes, loss: bytes | None
    ) -> None:
        """Writes nothing."""

    def append_change(
        self,
        record: int,
        step: int,
        commitment: Commitment,
        kinds: Sequence[TensorType],
        arrays: Sequence[np.ndarray],
    ) -> None:
        """Writes nothing."""

    def keep(self, record: int, state: Sequence[np.ndarray]) -> None:
        """Writes nothing."""

    def seal(self, steps: int, state: Sequence[bytes], key: PrivateKey | None) -> None:
        """Writes nothing."""

    def close(self) -> None:
        """Does nothing: no file is open."""
