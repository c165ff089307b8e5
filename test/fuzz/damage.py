# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Deterministic mutations of bytes, and of JSON in bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

_NUMBERS = [0, 1, -1, 7, 8, 127, 255, 2**16, 2**31 - 1, 2**31, 2**32, 2**53 - 1, 2**53, 2**63 - 1, 2**63, 2**64, 10**30]
_TEXTS = ["", "x", "0" * 64, "f" * 63, "\u00e9", "e\u0301", "\x1b[2J", "\u202e", "../..", "a" * 5000, "NaN", "\ud800"]
_VALUES: list[Any] = [None, True, False, 0.5, 1e308, float("nan"), float("inf"), [], {}, [[]], {"a": 1}]
_PIECES = [
    b"[" * 2000,
    b'{"a":' * 1000,
    b"\xff",
    b"\x00",
    b"\n",
    b" ",
    b'"',
    b"\\u0000",
    b"-0",
    b"1e999",
    b"\xef\xbb\xbf",
]


def mutate(data: bytes, corpus: Sequence[bytes], draw: random.Random) -> bytes:
    """Applies one, two or four changes, which modify bytes. If the data is JSON, half of the changes modify, add or
    remove a value instead."""
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        changed = _json(data, draw) if draw.random() < 0.5 else None
        data = _bytes(data, corpus, draw) if changed is None else changed
    return data


def _bytes(data: bytes, corpus: Sequence[bytes], draw: random.Random) -> bytes:
    changed = bytearray(data)
    at = draw.randrange(len(changed) + 1)
    size = draw.choice([1, 1, 2, 4, 8, 64])
    kind = draw.randrange(8)
    if kind == 0 and changed:
        changed[min(at, len(changed) - 1)] ^= 1 << draw.randrange(8)
    elif kind == 1:
        del changed[at : at + size]
    elif kind == 2:
        changed[at:at] = changed[at : at + size]
    elif kind == 3:
        changed[at:at] = draw.randbytes(size)
    elif kind == 4:
        del changed[at:]
    elif kind == 5:
        number = draw.choice(_NUMBERS) & (2**64 - 1)
        size = draw.choice([1, 2, 4, 8])
        changed[at : at + size] = (number & (2 ** (8 * size) - 1)).to_bytes(size, "little")
    elif kind == 6:
        changed[at:at] = draw.choice(_PIECES)
    else:
        other = draw.choice(corpus)
        start = draw.randrange(len(other) + 1)
        changed[at:] = other[start:]
    return bytes(changed)


def _json(data: bytes, draw: random.Random) -> bytes | None:
    """Returns the data with a value changed, added or removed in a random line of JSON, or None if the line is not JSON
    or contains no values."""
    lines = data.split(b"\n")
    index = draw.randrange(len(lines))
    try:
        value = json.loads(lines[index])
    except (ValueError, RecursionError):
        return None
    places = _places(value)
    if not places:
        return None
    container, key = draw.choice(places)
    kind = draw.randrange(6)
    if kind == 0:
        del container[key]
    elif kind == 1 and isinstance(container, dict):
        container[draw.choice(_TEXTS[1:])] = container[key]
    elif kind == 2 and isinstance(container, list):
        container.insert(key, container[key])
    elif kind == 3 and isinstance(container[key], int):
        container[key] += draw.choice([-1, 1, 2**32])
    elif kind == 4 and isinstance(container[key], str):
        text = container[key]
        at = draw.randrange(len(text) + 1)
        container[key] = text[:at] + draw.choice([*_TEXTS, "0", "A"]) + text[at + 1 :]
    else:
        container[key] = draw.choice([*_NUMBERS, *_TEXTS, *_VALUES])
    separators = draw.choice([(",", ":"), (",", ":"), (",", ":"), (", ", ": ")])
    lines[index] = json.dumps(value, separators=separators, sort_keys=draw.random() < 0.9).encode()
    return b"\n".join(lines)


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    left = [value]
    while left:
        container = left.pop()
        if isinstance(container, dict | list):
            keys = list(container) if isinstance(container, dict) else range(len(container))
            found += [(container, key) for key in keys]
            left += [container[key] for key in keys]
    return found
