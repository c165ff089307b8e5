# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The one exception of the PyTorch frontend, and how others are named in it."""

from repro_mlir.base.errors import ReproError


class CaptureError(ReproError):
    """A model, optimizer or batch that the frontend cannot turn into a program.

    The message is one line that names what was found (an operator, an argument), what was expected,
    and, where it is known, the user's Python line as `file:line`, else the module or the phase of the step.

    Attributes:
      is_located: whether the message begins with that line, module or phase.
    """

    is_located = False


def located(origin: str | None, reason: str) -> CaptureError:
    """The error of this reason; `origin` is the user's line, the module or the phase, where one is known."""
    error = CaptureError(f"{origin}: {reason}" if origin else reason)
    error.is_located = origin is not None
    return error


def one_line(error: Exception) -> str:
    """The class of an exception and the first line of its message."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
