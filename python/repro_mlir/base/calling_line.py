# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Finds the line of the user that called this package."""

from __future__ import annotations

import sys
import types


def calling_line() -> tuple[str, int]:
    """Returns the file and the line of the code that called this package."""
    package = __name__.partition(".")[0]
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(package):
        frame = frame.f_back
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
