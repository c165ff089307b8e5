# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The exceptions that report user errors."""

import errno
from collections.abc import Callable
from contextvars import ContextVar

SHORTAGES = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
)
"""The `errno` values that indicate a resource shortage of this machine rather than a defect of a file."""


OBSERVER: ContextVar[Callable[[Exception], None] | None] = ContextVar("observer", default=None)
"""A function that is called with each new ReproError; a trace sets it, because the user's code may catch the error."""


class ReproError(Exception):
    """A user error; its message is one line that states what was expected and what was found."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        observe = OBSERVER.get()
        if observe is not None:
            observe(self)


class StepFailed(ReproError):
    """(E1) Raised when a check in a step fails, such as a bounds check. The step has no result and leaves the state
    unchanged."""


class RankLost(ReproError):
    """Raised when another rank of the run is no longer reachable. The state is still the one before the step."""


class ProgramError(ReproError):
    """Raised when the reference interpreter rejects a program that is not canonical, or arguments that do not match
    it."""


class CompileError(ReproError):
    """Raised when a program cannot be compiled. The message names the source location and what was expected there."""


class BatchesEnded(ReproError):
    """Raised when an iterator ends before it has returned enough batches.

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
    """Raised when a receipt contradicts itself or the recomputed values.

    Attributes:
      place: the name of the wrong file or tensor, such as "steps.jsonl" or "state fc.weight".
      step: the step at which the error appears, or None; if `is_change`, the step before the change.
      expected: the value in the receipt if it is a hash, else None; if `is_given`, the value that the caller required.
      actual: the value that was found instead; if `is_given`, the value in the receipt.
      is_given: whether the receipt was compared with a value that the caller required.
      is_change: whether the error appears in a change of the state by the user, after step `step`.
    """

    def __init__(
        self,
        place: str,
        message: str,
        step: int | None = None,
        expected: str | None = None,
        actual: str | None = None,
        *,
        is_given: bool = False,
        is_change: bool = False,
    ) -> None:
        where = "" if step is None else f"after step {step}: " if is_change else f"step {step}: "
        super().__init__(f"{where}{place}: {message}")
        self.place = place
        self.step = step
        self.expected = expected
        self.actual = actual
        self.is_given = is_given
        self.is_change = is_change
