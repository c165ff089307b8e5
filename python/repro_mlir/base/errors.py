# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The exceptions that every user mistake becomes."""

import errno

SHORTAGES = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
)
"""Numbers of an OSError that says something about this machine, and nothing about what somebody else has written."""


class ReproError(Exception):
    """A mistake in what the user gave: one line that names what was expected and what was found."""


class StepFailed(ReproError):
    """(E1) A step whose check failed, such as an index out of range: no result, and the state is unchanged."""


class RankLost(ReproError):
    """Another rank of the run cannot be reached any more; the state is that before the step."""


class ProgramError(ReproError):
    """A program that is not canonical, or arguments that do not fit it, as the reference interpreter finds it."""


class CompileError(ReproError):
    """A program that cannot be compiled; the message names the place and what was expected."""


class BatchesEnded(ReproError):
    """An iterator that gave too few batches.

    Attributes:
      losses: those of the steps that were run.
    """

    def __init__(self, message: str, losses: list[float]) -> None:
        super().__init__(message, losses)
        self.losses = losses

    def __str__(self) -> str:
        return str(self.args[0])


class NonFiniteLoss(ReproError):
    """A step whose loss is NaN or infinite, in a run that stops there: the state is that after the step."""


class ReceiptWrong(ReproError):
    """A receipt that contradicts itself or what was computed again.

    Attributes:
      place: the file or tensor that is wrong, such as "steps.jsonl" or "state fc.weight".
      step: the step at which it shows, or None.
      expected: what the receipt says, where that is a hash; else None.
      actual: what was found instead.
    """

    def __init__(
        self, place: str, message: str, step: int | None = None, expected: str | None = None, actual: str | None = None
    ) -> None:
        super().__init__(f"{place}: {message}" if step is None else f"step {step}: {place}: {message}")
        self.place = place
        self.step = step
        self.expected = expected
        self.actual = actual
