# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Parses the options of a trainer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, Unpack

from repro_mlir.base.errors import ReproError
from repro_mlir.base.threads import check_threads
from repro_mlir.distributed import Ranks
from repro_mlir.execute.executable import check_target
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.scripts import ScriptKeywords
from repro_mlir.verification.receipts.options import NONFINITE_LOSS, ReceiptOptions


class TrainKeywords(ScriptKeywords, total=False):
    """Keywords of `Trainer`."""

    target: str
    threads: int | None
    ranks: Ranks | None
    receipt: str | Path | ReceiptOptions | None


@dataclass(frozen=True)
class TrainOptions(CaptureOptions):
    """The options of a trainer, parsed.

    Attributes:
      target, threads, nonfinite_loss, ranks: see `Trainer`.
      receipt: the options of the receipt; None if the run is not recorded.
    Raises:
      ReproError: see `Trainer`.
    """

    target: str = "cpu"
    threads: int | None = None
    nonfinite_loss: str = "warn"
    ranks: Ranks | None = None
    receipt: ReceiptOptions | None = None

    @classmethod
    def parsed(cls, **given: Unpack[TrainKeywords]) -> Self:
        values: dict[str, Any] = {**given}
        if isinstance(values.get("receipt"), str | Path):
            values["receipt"] = ReceiptOptions(values["receipt"])
        return super().parsed(**values)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_target(self.target)
        if self.threads is not None:
            check_threads(self.threads)
        if self.receipt is not None and not isinstance(self.receipt, ReceiptOptions):
            raise ReproError(f"expected a path or ReceiptOptions as receipt, got {self.receipt!r}")
        if self.nonfinite_loss not in NONFINITE_LOSS:
            raise ReproError(f"expected nonfinite_loss among {', '.join(NONFINITE_LOSS)}, got {self.nonfinite_loss!r}")
        if self.ranks is not None and not isinstance(self.ranks, Ranks):
            raise ReproError(f"expected ranks that connect() returns, got a {type(self.ranks).__name__}")
        if self.ranks is not None and self.microbatches is None:
            raise ReproError("ranks share microbatches: expected microbatches=N")
        if self.precision is not None and self.precision.is_delayed and self.microbatches is not None:
            raise ReproError("(Q6) expected no microbatches with delayed scaling: none has the amax of its batch")
