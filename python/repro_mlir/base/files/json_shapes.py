# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks of parsed JSON against the schema of the receipt format (docs/schemas/receipt.schema.json)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from repro_mlir.base.errors import ReproError

# A function that checks a value and raises ReproError if it does not match. Its second argument names the location of
# the value in messages, such as "receipt.json: run.program".
Shape: TypeAlias = Callable[[Any, str], None]


def record(required: dict[str, Shape], optional: dict[str, Shape] | None = None) -> Shape:
    """Returns a shape that matches an object with all required keys and any of the optional keys, but no other key."""
    optional = optional or {}

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise ReproError(f"{where}: expected an object, got {_kind(value)}")
        for key in required:
            if key not in value:
                raise ReproError(f"{where}: expected the key {key!r}, which is missing")
        for key, item in value.items():
            shape = required.get(key) or optional.get(key)
            if shape is None:
                raise ReproError(f"{where}: unknown key {key!r}")
            shape(item, _inside(where, key))

    return check


def array(item: Shape) -> Shape:
    """Returns a shape that matches a list whose items all match `item`."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, list):
            raise ReproError(f"{where}: expected an array, got {_kind(value)}")
        for i, each in enumerate(value):
            item(each, f"{where}[{i}]")

    return check


def number(least: int, most: int | None = None) -> Shape:
    """Returns a shape that matches an integer of at least `least` and, if `most` is given, at most `most`."""
    expected = f"of at least {least}" if most is None else f"from {least} to {most}"

    def check(value: Any, where: str) -> None:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or value < least or (most is not None and value > most):
            raise ReproError(f"{where}: expected a whole number {expected}, got {_shown(value)}")

    return check


def true(value: Any, where: str) -> None:
    """Matches only the value true: if a flag is false, its key is absent."""
    if value is not True:
        raise ReproError(f"{where}: expected true, got {_shown(value)}")


def choice(*texts: str) -> Shape:
    """Returns a shape that matches one of the given strings."""

    def check(value: Any, where: str) -> None:
        if value not in texts or not isinstance(value, str):
            raise ReproError(f"{where}: expected {' or '.join(map(repr, texts))}, got {_shown(value)}")

    return check


def text(value: Any, where: str) -> None:
    """Matches any string."""
    if not isinstance(value, str):
        raise ReproError(f"{where}: expected a string, got {_kind(value)}")


def hexadecimal(digits: int | None = None) -> Shape:
    """Returns a shape that matches lower-case hexadecimal text of `digits` digits; None allows any even number of
    digits."""
    pattern = re.compile(f"[0-9a-f]{{{digits}}}" if digits else "(?:[0-9a-f]{2})+")

    def check(value: Any, where: str) -> None:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ReproError(
                f"{where}: expected {digits or 'an even number of'} lower-case hexadecimal digits, got {_shown(value)}"
            )

    return check


digest = hexadecimal(64)
"""Matches the hexadecimal text of a 32-byte hash."""


def mapping(item: Shape) -> Shape:
    """Returns a shape that matches an object with arbitrary keys whose values all match `item`."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise ReproError(f"{where}: expected an object, got {_kind(value)}")
        for key, each in value.items():
            item(each, _inside(where, key))

    return check


def nullable(item: Shape) -> Shape:
    """Returns a shape that matches null or a value that matches `item`."""

    def check(value: Any, where: str) -> None:
        if value is not None:
            item(value, where)

    return check


def _inside(where: str, key: str) -> str:
    return f"{where}.{key}" if ": " in where else f"{where}: {key}"


def _kind(value: Any) -> str:
    kinds = {
        dict: "an object",
        list: "an array",
        str: "a string",
        bool: "a truth value",
        int: "a number",
        float: "a number",
    }
    return kinds.get(type(value), "null")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    shown = repr(value) if isinstance(value, str | int | float) else _kind(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}..."
