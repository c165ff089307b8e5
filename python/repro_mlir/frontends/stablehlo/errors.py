# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The exception of programs that come as StableHLO, and the user's line in it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ...errors import ReproError


class CaptureError(ReproError):
    """A function or module that the frontend cannot turn into a program.

    The message is one line that names what was found, what was expected, and, where it is known, the user's Python line
    as `file:line`.
    """


_PLACE = re.compile(r'"([^"]+)":(\d+):(\d+)')
_LIBRARY = re.compile(r"[/\\](site|dist)-packages[/\\]")
_PACKAGE = f"{Path(__file__).parents[2]}{os.sep}"


def place_of(location: object) -> tuple[str, int, int] | None:
    """File, line and column of the innermost Python line that is no library's, else of the innermost; none is ours."""
    found = [each for each in _PLACE.findall(str(location)) if not each[0].startswith(_PACKAGE)]
    if not found:
        return None
    file, line, column = next((each for each in found if not _LIBRARY.search(each[0])), found[0])
    return file, int(line), int(column)


def error_at(location: object, message: str) -> CaptureError:
    """The error with the line of a location before it."""
    place = place_of(location)
    return CaptureError(f"{place[0]}:{place[1]}: {message}" if place else message)
