# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The exception of programs that come as StableHLO, and the user's line in it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from repro_mlir.base.errors import ReproError


class CaptureError(ReproError):
    """A function or module that the frontend cannot turn into a program.

    The message is one line that names what was found, what was expected, and, where they are known, the user's Python
    line as `file:line` and the node of the framework's graph.
    """


_PLACE = re.compile(r'"([^"]+)":(\d+):(\d+)')
_LIBRARY = re.compile(r"[/\\](site|dist)-packages[/\\]")
_PACKAGE = f"{Path(__file__).parents[2]}{os.sep}"


def place_of(location: object) -> tuple[str, int, int] | None:
    """File, line and column of a location, as `users_place` of its lines, the innermost first."""
    return users_place([(file, int(line), int(column)) for file, line, column in _PLACE.findall(str(location))])


def users_place(places: Sequence[tuple[str, int, int]]) -> tuple[str, int, int] | None:
    """The first of the Python lines that is no library's, else the first one; none is ours."""
    found = [each for each in places if not each[0].startswith(_PACKAGE)]
    return next((each for each in found if not _LIBRARY.search(each[0])), found[0] if found else None)


NODE = "node "
"""What begins the name of a location that is a node of a framework's graph."""
_NODE = re.compile(f'"{NODE}([^"]+)"')


def node_of(location: object) -> str | None:
    """The framework's node that a location names."""
    found = _NODE.search(str(location))
    return found and found[1]


def error_at(location: object, message: str) -> CaptureError:
    """The error with the line of a location, and the node, before it."""
    place, node = place_of(location), node_of(location)
    line, name = f"{place[0]}:{place[1]}" if place else None, f"node {node}" if node else None
    return CaptureError(": ".join(filter(None, [line, name, message])))
