# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Canonical JSON: each value has exactly one text, so that the text can be hashed (docs/verification/receipts.md).

The text is UTF-8 without whitespace. Keys are in code-point order, strings in Unicode normalization form C with the
shortest escapes, and numbers are integers below 2^53 in magnitude: the subset of RFC 8785 without fractions.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any, NoReturn

from repro_mlir.base.errors import ReproError

LIMIT = 1 << 24
"""The default maximum size of a text in bytes."""

DEPTH = 32
"""The maximum nesting depth of lists and objects, including the outermost one."""

_NUMBER_LIMIT = 2**53
_NO_BRACKETS = bytes(set(range(256)) - set(b'"[]{}'))


def dump(value: Any) -> bytes:
    """Returns the canonical text of None, booleans, integers, strings, and lists and dicts of these.

    Raises:
      ValueError, TypeError: the value is not of this form.
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
      ReproError: the text is too long, nested deeper than `DEPTH`, or not canonical JSON.
    """
    check_bounds(data, where, limit)
    try:
        value = json.loads(data.decode(), parse_float=_refuse, parse_constant=_refuse)
        canonical = dump(value)
    except (ValueError, TypeError):
        raise ReproError(f"{where}: expected canonical JSON") from None
    if canonical != data:
        # The comparison with the canonical text also detects a duplicate key.
        raise ReproError(f"{where}: expected canonical JSON (sorted keys, no spaces), got JSON in another form")
    return value


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


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"expected a whole number, got {text}")


def _check(value: Any, depth: int) -> None:
    if isinstance(value, str):
        if not value.isascii() and not unicodedata.is_normalized("NFC", value):
            raise ValueError(f"expected text in Unicode normalization form C, got {value!a}")
    elif isinstance(value, dict | list):
        if depth == 0:
            raise ValueError(f"expected at most {DEPTH} nested levels")
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise TypeError(f"expected a string as key, got {key!r}")
                _check(key, depth)
        for item in value.values() if isinstance(value, dict) else value:
            _check(item, depth - 1)
    elif isinstance(value, int) and not -_NUMBER_LIMIT < value < _NUMBER_LIMIT:
        raise ValueError(f"expected a whole number below 2^53, got {value}")
    elif value is not None and not isinstance(value, bool | int):
        raise TypeError(f"expected a JSON value other than a fraction, got a {type(value).__name__}")
