# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Formats text for terminals: escapes it so that it cannot move the cursor, change the text direction or begin another
line, and counts nouns."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

_LONGEST = 200

_told: TextIO | None = None
"""The stream on which `tell` prints within `only_told`."""


def printable(text: str) -> str:
    """Replaces each unprintable character (control characters, line ends, direction marks) by its escape sequence."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def foreign(text: str, longest: int = _LONGEST) -> str:
    """Sanitizes untrusted text for use within a message: escapes it, collapses runs of spaces and truncates it.

    Otherwise spaces could fill the terminal line, so that the rest of the text looks like a separate message.
    """
    shown = printable(" ".join(text[: longest + 1].split()))
    return shown if len(shown) <= longest else f"{shown[:longest]}..."


def tell(*lines: str, stream: TextIO | None = None) -> None:
    """Prints each argument as exactly one line, with unprintable characters escaped.

    Args:
      stream: the stream on which to print; None for standard output, or for the stream of `only_told`.
    """
    stream = stream or _told or sys.stdout
    encoding = stream.encoding or "utf-8"
    for line in lines:
        print(printable(line).encode(encoding, "backslashreplace").decode(encoding), file=stream)
    stream.flush()


def is_standard_output(path: str | Path) -> bool:
    """Whether a path, such as /dev/stdout, is the file, pipe or device to which this process prints."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(1))
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def only_told(stream: TextIO) -> Iterator[None]:
    """A context manager in which `tell` prints on `stream`. Everything else that Python prints on standard output, such
    as the output of a user's script, goes to standard error."""
    global _told
    _told = stream
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _told = None


def kind_of(value: object) -> str:
    """Names the kind of a value for a message, such as "a list" or "None"."""
    return "None" if value is None else f"a {type(value).__name__}"


def count_of(number: int, noun: str, plural: str | None = None) -> str:
    """Returns a number with its noun, such as "1 step" or "300 steps".

    Args:
      plural: the plural of the noun; None if it only has an s more.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
