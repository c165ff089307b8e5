# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The exception of the PyTorch frontend, and functions that format its message."""

from repro_mlir.base.errors import ReproError


class CaptureError(ReproError):
    """The frontend cannot turn a model, optimizer or batch into a program.

    The message is one line and names what was found (an operator, an argument), what was expected, and, if known, the
    user's Python line as `file:line`, otherwise the module or the phase of the step.

    Attributes:
      is_located: whether the message begins with that line, module or phase.
    """

    is_located = False


def located(origin: str | None, reason: str) -> CaptureError:
    """Returns an error with this reason; `origin` is the user's line, the module or the phase, or None if unknown."""
    error = CaptureError(f"{origin}: {reason}" if origin else reason)
    error.is_located = origin is not None
    return error


def one_line(error: Exception) -> str:
    """Returns the class name of an exception and the first line of its message."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
