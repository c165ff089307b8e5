# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What stands in place of a receipt's files on the ranks that do not write it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from repro_mlir.audit.receipts.commitments import Commitment
from repro_mlir.audit.receipts.form import Header
from repro_mlir.audit.receipts.signing import PrivateKey
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.program.microbatches import StepProgram


class FollowingWriter:
    """The peer of `ReceiptWriter` where rank 0 writes the receipt: it writes nothing.

    Attributes:
      header: what is run.
      kept, recorded: the record at which the run goes on.
      state: the state there, by name.
    """

    def __init__(self, header: Header, record: int, state: dict[str, np.ndarray]) -> None:
        self.header = header
        self.kept = self.recorded = record
        self.state = state

    def check_program(self, program: StepProgram) -> None:
        """Rank 0 says what a receipt cannot list."""

    def list_program(self, program: StepProgram) -> int:
        """Nobody reads the position."""
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
        """There is nothing to close."""
