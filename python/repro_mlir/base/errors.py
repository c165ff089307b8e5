# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The exceptions that report user errors."""

import errno

SHORTAGES = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
)
"""The `errno` values that indicate a resource shortage of this machine rather than a defect of a file."""


class ReproError(Exception):
    """A user error; its message is one line that states what was expected and what was found."""


class StepFailed(ReproError):
    """(E1) A check in a step failed, such as a bounds check; the step has no result and leaves the state unchanged."""


class RankLost(ReproError):
    """Another rank of the run is no longer reachable; the state is the one before the step."""


class ProgramError(ReproError):
    """The reference interpreter rejected a program that is not canonical, or arguments that do not match it."""


class CompileError(ReproError):
    """A program cannot be compiled; the message names the location and what was expected."""


class BatchesEnded(ReproError):
    """An iterator ended before it returned enough batches.

    Attributes:
      losses: the losses of the steps that ran.
    """

    def __init__(self, message: str, losses: list[float]) -> None:
        super().__init__(message, losses)
        self.losses = losses

    def __str__(self) -> str:
        return str(self.args[0])


class NonFiniteLoss(ReproError):
    """Raised when the loss of a step is NaN or infinite and the run is configured to stop then. The state already
    contains the step's update."""


class ReceiptWrong(ReproError):
    """A receipt contradicts itself or the recomputed values.

    Attributes:
      place: the name of the wrong file or tensor, such as "steps.jsonl" or "state fc.weight".
      step: the step at which the error appears, or None.
      expected: the value in the receipt if it is a hash, else None.
      actual: the value that was found instead.
    """

    def __init__(
        self, place: str, message: str, step: int | None = None, expected: str | None = None, actual: str | None = None
    ) -> None:
        super().__init__(f"{place}: {message}" if step is None else f"step {step}: {place}: {message}")
        self.place = place
        self.step = step
        self.expected = expected
        self.actual = actual
