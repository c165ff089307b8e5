# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Canonical JSON: each value has exactly one text, so that the text can be hashed (docs/verification/receipts.md).

The text is UTF-8 without whitespace. Keys are in code-point order, strings in Unicode normalization form C with the
shortest escapes, and numbers are integers below 2^53 in magnitude: the subset of RFC 8785 without fractions.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import foreign

LIMIT = 1 << 24
"""The default maximum size of a text in bytes."""

DEPTH = 32
"""The maximum nesting depth of lists and objects, including the outermost one."""

_NUMBER_LIMIT = 2**53
_LONGEST_NUMBER = len(str(-_NUMBER_LIMIT))
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[][{},:]')
_NO_BRACKETS = bytes(set(range(256)) - set(b'"[]{}'))


class _NotCanonical(ValueError):
    """Raised for a value without canonical JSON.

    Attributes:
      path: the keys and indices that lead to the value, outermost first.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.path: list[str | int] = []


class _Written(float):
    """A number with a point or an exponent, which is shown as the text has it."""

    def __new__(cls, text: str) -> _Written:
        return super().__new__(cls, text)

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


def dump(value: Any) -> bytes:
    """Returns the canonical text of None, booleans, integers, strings, and lists and dicts of these.

    Raises:
      ValueError: the value is not of this form.
    """
    _check(value, DEPTH)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def load(data: bytes, where: str, limit: int = LIMIT) -> Any:
    """Parses a canonical text; time and memory are proportional to its length.

    Args:
      data: the text.
      where: names the text in messages.
      limit: the maximum size of the text in bytes.
    Raises:
      ReproError: the text is too long, nested deeper than `DEPTH`, or not canonical JSON; the message names the first
        such field or byte.
    """
    check_bounds(data, where, limit)
    try:
        text = data.decode()
        # `dump` refuses the floats; a number of thousands of digits takes long to convert, and is too large anyway.
        value = json.loads(text, parse_int=_whole, parse_float=_Written, parse_constant=_Written)
        canonical = dump(value)
    except UnicodeDecodeError as error:
        reason = f"expected UTF-8, got another byte at {error.start + 1:,}"
        raise _error(where, path_at(data[: error.start].decode(), error.start), reason) from None
    except json.JSONDecodeError as error:
        said = error.msg.removesuffix(" at")
        reason = f"{said[:1].lower()}{said[1:]} at character {error.pos + 1:,}"
        raise _error(where, path_at(text, error.pos), reason) from None
    except _NotCanonical as error:
        raise _error(where, error.path, str(error)) from None
    if canonical != data:
        # The comparison with the canonical text also detects a repeated key.
        if (repeated := _repeated_key(text)) is not None:
            raise _error(where, [], f"the key '{foreign(repeated)}' is repeated in one object")
        place = _first_difference(data, canonical)
        found, due = (repr(each[place : place + 1].decode("latin-1")) for each in (data, canonical))
        reason = (
            f"expected {_or_end(due)} at byte {place + 1:,}, got {_or_end(found)} (keys are sorted, without spaces)"
        )
        raise _error(where, path_at(data[:place].decode(errors="replace"), place), reason)
    return value


def path_at(text: str, end: int) -> list[str | int]:
    """Returns the keys and indices that lead to a position of a JSON text, which need not be valid, outermost first."""
    path: list[str | int] = []
    last = ""
    for found in _TOKENS.finditer(text, 0, end):
        token = found[0]
        if token in "{[":
            path.append("" if token == "{" else 0)
        elif token in "}]":
            path[-1:] = []
        elif token == "," and path:
            before = path[-1]
            path[-1] = before + 1 if isinstance(before, int) else ""
        elif token == ":" and path and path[-1] == "":
            path[-1] = last[1:-1]
        last = token
    return [each for each in path if each != ""]


def _error(where: str, path: list[str | int], reason: str) -> ReproError:
    texts = (f"[{each}]" if isinstance(each, int) else f".{foreign(each)}" for each in path)
    place = "".join(texts).removeprefix(".")
    return ReproError(f"{where}: {place}{': ' if place else ''}expected canonical JSON: {reason}")


def _repeated_key(text: str) -> str | None:
    """Returns a key that occurs twice in one object of a JSON text; None if there is none."""
    found: list[str] = []

    def check(pairs: list[tuple[str, Any]]) -> None:
        seen = set[str]()
        for key, _ in pairs:
            if key in seen and not found:
                found.append(key)
            seen.add(key)

    json.loads(text, parse_int=_whole, object_pairs_hook=check)
    return found[0] if found else None


def _first_difference(first: bytes, second: bytes) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))


def _or_end(shown: str) -> str:
    return "the end" if shown == "''" else shown


def check_bounds(data: bytes, where: str, limit: int = LIMIT) -> None:
    """Raises ReproError if a JSON text, canonical or not, exceeds `limit` bytes or is nested deeper than `DEPTH`."""
    if len(data) > limit:
        raise ReproError(f"{where}: expected at most {limit:,} bytes of JSON, got {len(data):,}")
    if _is_too_deep(data):
        raise ReproError(f"{where}: expected JSON nested at most {DEPTH} levels deep")


def _is_too_deep(data: bytes) -> bool:
    """Returns whether brackets outside of strings are nested deeper than `DEPTH`, without parsing the text."""
    quotes_and_brackets = data.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, _NO_BRACKETS)
    depth = 0
    for bracket in b"".join(quotes_and_brackets.split(b'"')[::2]):
        depth += 1 if bracket in b"[{" else -1
        if depth > DEPTH:
            return True
    return False


def _whole(text: str) -> int:
    return int(text) if len(text) <= _LONGEST_NUMBER else _NUMBER_LIMIT


def _check(value: Any, depth: int) -> None:
    if isinstance(value, str):
        if not value.isascii() and not _is_canonical(value):
            raise _NotCanonical(f"expected text in Unicode normalization form C, got {value!a:.60}")
    elif isinstance(value, dict | list):
        if depth == 0:
            raise _NotCanonical(f"expected at most {DEPTH} nested levels")
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(value, dict):
                if not isinstance(key, str):
                    raise _NotCanonical(f"expected a string as key, got {key!r:.60}")
                _check(key, depth)
            try:
                _check(item, depth - 1)
            except _NotCanonical as error:
                error.path.insert(0, key)
                raise
    elif isinstance(value, int) and not -_NUMBER_LIMIT < value < _NUMBER_LIMIT:
        raise _NotCanonical("expected a whole number below 2^53, got a larger one")
    elif isinstance(value, float):
        raise _NotCanonical(f"expected a whole number without a point or an exponent, got {value!s:.40}")
    elif value is not None and not isinstance(value, bool | int):
        raise _NotCanonical(f"expected a JSON value, got a {type(value).__name__}")


def _is_canonical(text: str) -> bool:
    # A lone surrogate, which only an escape sequence can write, has no UTF-8.
    return unicodedata.is_normalized("NFC", text) and not any("\ud800" <= each <= "\udfff" for each in text)
