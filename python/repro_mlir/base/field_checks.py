# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks of the values that users pass to the fields of public dataclasses."""

from __future__ import annotations

from collections.abc import Iterable

from repro_mlir.base.errors import ReproError
from repro_mlir.base.near_names import did_you_mean

_SHOWN = 60


def check_whole(name: str, value: object, least: int, most: int) -> None:
    """Raises ReproError unless `value` is an integer from `least` to `most`."""
    if type(value) is not int or not least <= value <= most:
        raise ReproError(f"expected {name} as a whole number from {least} to {most}, got {shown(value)}")


def check_among(name: str, value: object, choices: Iterable[str]) -> None:
    """Raises ReproError unless `value` is one of the strings `choices`."""
    known = tuple(choices)
    if not isinstance(value, str) or value not in known:
        raise ReproError(f"expected {name} among {', '.join(known)}, got {shown(value)}{did_you_mean(value, known)}")


def check_flag(name: str, value: object) -> None:
    """Raises ReproError unless `value` is a bool."""
    if type(value) is not bool:
        raise ReproError(f"expected {name} as true or false, got {shown(value)}")


def check_kind(name: str, value: object, kind: type | tuple[type, ...], noun: str) -> None:
    """Raises ReproError unless `value` is an instance of `kind`; in the message, `noun` says what was expected."""
    if not isinstance(value, kind):
        raise ReproError(f"expected {name} as {noun}, got {shown(value)}")


def check_text(name: str, value: object, noun: str) -> None:
    """Raises ReproError unless `value` is a string that UTF-8 can encode; in the message, `noun` says what was
    expected."""
    if not isinstance(value, str) or any("\ud800" <= each <= "\udfff" for each in value):
        raise ReproError(f"expected {name} as {noun} in Unicode, got {shown(value)}")


def shown(value: object) -> str:
    """Formats a value for a message: None, strings and numbers, shortened if they are long; any other value as the name
    of its type."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    if value is not None and not isinstance(value, str | int | float):
        return f"a {type(value).__name__}"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
