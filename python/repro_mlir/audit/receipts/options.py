# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""How a run writes its receipt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.storage import check_can_write

NONFINITE_LOSS = ("warn", "stop", "ignore")
"""What a run may do after a loss that is NaN or infinite: warn once, end, or go on."""


@dataclass(frozen=True)
class ReceiptOptions:
    """How a run writes its receipt.

    Attributes:
      path: the directory.
      checkpoint_every: steps between two kept states.
      store_batches: whether the receipt has the batches; else whoever verifies it must have them.
      resume: go on with the receipt if there is one, instead of refusing to write over it.
      script: the script that gives the batches, to be named in the receipt.
      microbatches_every: steps between two that commit to each of their microbatches (C8), for `verify(microbatches=)`;
        None: no step does.
      sign: a file with the ed25519 private key (PEM) that signs the finished receipt.
    """

    path: str | Path
    checkpoint_every: int = 100
    store_batches: bool = True
    resume: bool = False
    script: str | Path | None = None
    sign: str | Path | None = None
    microbatches_every: int | None = None

    def check_begins(self) -> None:
        """ReproError where no receipt can be begun: said before a step is captured, which takes longer."""
        if not Path(self.path).exists():
            check_can_write(self.path)
        elif not self.resume:
            raise ReproError(f"{self.path} exists: resume it, or give the receipt another name")
