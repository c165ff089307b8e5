# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The exception of the StableHLO frontend, with the user's source line in its message."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from repro_mlir.base.errors import ReproError


class CaptureError(ReproError):
    """Raised for a function or module that the frontend cannot turn into a program.

    The message is one line with what was found, what was expected, and, where known, the user's Python line as
    `file:line` and the node of the framework's graph.
    """


_PLACE = re.compile(r'"([^"]+)":(\d+):(\d+)')
_LIBRARY = re.compile(r"[/\\](site|dist)-packages[/\\]")
_PACKAGE = f"{Path(__file__).parents[2]}{os.sep}"


def place_of(location: object) -> tuple[str, int, int] | None:
    """Returns the file, line and column of the user's code (`users_place`) in an MLIR location; None if it has none."""
    return users_place([(file, int(line), int(column)) for file, line, column in _PLACE.findall(str(location))])


def users_place(places: Sequence[tuple[str, int, int]]) -> tuple[str, int, int] | None:
    """Returns the first line outside libraries and this package, else the first one outside this package, else None."""
    found = [each for each in places if not each[0].startswith(_PACKAGE)]
    return next((each for each in found if not _LIBRARY.search(each[0])), found[0] if found else None)


NODE = "node "
"""The prefix of a location's name if the location is a node of a framework's graph."""
_NODE = re.compile(f'"{NODE}([^"]+)"')


def node_of(location: object) -> str | None:
    """Returns the framework's node that a location names; None if it names none."""
    found = _NODE.search(str(location))
    return found and found[1]


def error_at(location: object, message: str) -> CaptureError:
    """Returns an error whose message starts with the location's source line and node."""
    place, node = place_of(location), node_of(location)
    line, name = f"{place[0]}:{place[1]}" if place else None, f"node {node}" if node else None
    return CaptureError(": ".join(filter(None, [line, name, message])))
