# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Terms: what two parties agreed on before either ran, by which a referee judges data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

DueInputs = Callable[[int], tuple[int, tuple[bytes, ...]] | None]
"""Gives the data cursor after a step, from 1, and the hash (H1) of each of its inputs; None where it does not know."""


@dataclass(frozen=True)
class Terms:
    """What was to be run.

    Attributes:
      header: fields that a header must have; fields that are not named here are free.
      inputs: what each step was to be given.
    """

    header: Mapping[str, Any]
    inputs: DueInputs = lambda step: None

    def first_breach(self, header: Mapping[str, Any]) -> tuple[str, str, str] | None:
        """The first field of a header that breaks the terms: its path, its value and what was agreed."""
        return first_different_field({name: header.get(name) for name in self.header}, self.header)


def first_different_field(first: Any, second: Any, path: str = "header") -> tuple[str, str, str] | None:
    """The path of the first field, in the order of names, in which two JSON values differ, and both values as text."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for name in sorted({*first, *second}):
            found = first_different_field(first.get(name), second.get(name), f"{path}.{name}")
            if found is not None:
                return found
        return None
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for i, pair in enumerate(zip(first, second, strict=True)):
            found = first_different_field(*pair, f"{path}[{i}]")
            if found is not None:
                return found
        return None
    return None if first == second and type(first) is type(second) else (path, _shown(first), _shown(second))


def _shown(value: Any) -> str:
    text = "missing" if value is None else str(value)
    return text if len(text) <= 80 else text[:77] + "..."
