# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Text for terminals: nothing in it can move the cursor, change the direction of the line or begin another line."""

from __future__ import annotations

import sys
from typing import TextIO

_LONGEST = 200


def printable(text: str) -> str:
    """The text with every character that is not to be seen as its number: controls, line ends, direction marks."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def foreign(text: str, longest: int = _LONGEST) -> str:
    """Text of somebody else as part of a line of ours: printable, each run of spaces one space, cut where it is long.

    Spaces could fill the rest of the line, so that what follows looks like a line of ours.
    """
    shown = printable(" ".join(text[: longest + 1].split()))
    return shown if len(shown) <= longest else f"{shown[:longest]}..."


def tell(*lines: str, stream: TextIO | None = None) -> None:
    """Prints each line, with all that comes from others in it, as one line."""
    stream = stream or sys.stdout
    encoding = stream.encoding or "utf-8"
    for line in lines:
        print(printable(line).encode(encoding, "backslashreplace").decode(encoding), file=stream)


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
