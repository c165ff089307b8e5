# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The options with which a run writes its receipt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.storage import check_can_write
from repro_mlir.base.output_paths import RECEIPT_FILES

CHECKPOINT_EVERY = 100
"""The number of steps from one kept state to the next, if the user passes none."""

NONFINITE_LOSS = ("warn", "stop", "ignore")
"""The reactions of a run to a loss that is NaN or infinite: warn once, end the run, or continue."""


@dataclass(frozen=True)
class ReceiptOptions:
    """The options with which a run writes its receipt.

    Attributes:
      path: the directory of the receipt.
      checkpoint_every: the number of steps from one kept state to the next; None for 100, or in a resumed receipt for
        the number with which the receipt began. A resumed receipt refuses another number.
      store_batches: whether the receipt contains the batches; otherwise a verifier must have them.
      resume: whether to continue an existing receipt; otherwise, an existing receipt is an error.
      script: the script that yields the batches, which the receipt names.
      microbatches_every: every step whose number is a multiple of this commits to each of its microbatches (C8), for
        `verify(microbatches=)`; None if no step does.
      sign: a file with the ed25519 private key (PEM) that signs the finished receipt.
    """

    path: str | Path
    checkpoint_every: int | None = None
    store_batches: bool = True
    resume: bool = False
    script: str | Path | None = None
    sign: str | Path | None = None
    microbatches_every: int | None = None

    def check_begins(self) -> None:
        """Checks that a run can begin or resume this receipt, which a `Trainer` does before its first step.

        Raises:
          ReproError: the path has no name, no folder can be created there, or it exists and is not to be resumed or is
            not a receipt.
        """
        if not str(self.path):
            raise ReproError("expected the path of a folder as receipt, got an empty name")
        if not Path(self.path).exists():
            check_can_write(self.path)
        elif not self.resume or not self._is_receipt():
            raise self.exists()

    def _is_receipt(self) -> bool:
        return any((Path(self.path) / name).is_file() for name in RECEIPT_FILES)

    def exists(self) -> ReproError:
        """Returns the error for a path that exists: a receipt that is not to be resumed, or another file or folder.
        The caller raises the error."""
        if not self._is_receipt():
            return ReproError(f"{self.path} exists and is not a receipt: give the receipt another name")
        return ReproError(
            f"{self.path} exists: resume it (ReceiptOptions(path, resume=True); repro train --resume), give the "
            "receipt another name, or delete it"
        )
