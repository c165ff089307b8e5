# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Canonical JSON: one text for one value, so that it can be hashed.

UTF-8 without whitespace, keys in the order of their code points, strings with the shortest escapes, whole numbers below
2^53 in magnitude and no others: the part of RFC 8785 without fractions.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from ..errors import ReproError

_LIMIT = 2**53


def dump(value: Any) -> bytes:
    """The canonical text of None, truth values, whole numbers, strings, lists and dicts of these.

    Raises:
      ValueError, TypeError: anything else.
    """
    _check(value)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def load(data: bytes, where: str) -> Any:
    """The value of a canonical text.

    Raises:
      ReproError: no canonical JSON; `where` names its place in the message.
    """
    try:
        value = json.loads(data.decode(), parse_float=_refuse, parse_constant=_refuse)
        canonical = dump(value)
    except (ValueError, TypeError, RecursionError):
        raise ReproError(f"{where}: expected canonical JSON") from None
    if canonical != data:
        # Also for a key that occurs twice.
        raise ReproError(f"{where}: expected canonical JSON, got JSON in another form")
    return value


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"expected a whole number, got {text}")


def _check(value: Any) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"expected a string as key, got {key!r}")
            _check(item)
    elif isinstance(value, list):
        for item in value:
            _check(item)
    elif isinstance(value, int) and not -_LIMIT < value < _LIMIT:
        raise ValueError(f"expected a whole number below 2^53, got {value}")
    elif value is not None and not isinstance(value, bool | int | str):
        raise TypeError(f"expected a value of JSON without fractions, got a {type(value).__name__}")
