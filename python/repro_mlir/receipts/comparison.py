# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What differs between two commitments to the same step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .commitments import Commitment
from .form import Signature


def differences(signature: Signature, expected: Commitment, actual: Commitment) -> Iterator[tuple[str, str, str]]:
    """Place, expected and actual value of each difference: causes before consequences.

    Places are "cursor", "input NAME", "output NAME" and "state NAME"; values are hashes (H1) in hexadecimal or numbers.
    """
    if expected.cursor != actual.cursor:
        yield "cursor", str(expected.cursor), str(actual.cursor)
    roles = (
        ("input", signature.inputs, expected.inputs, actual.inputs),
        ("output", signature.outputs, expected.outputs, actual.outputs),
        ("state", signature.state, expected.state, actual.state),
    )
    for role, kinds, ours, theirs in roles:
        for kind, one, other in zip(kinds, ours, theirs, strict=True):
            if one != other:
                yield f"{role} {kind.name}", one.hex(), other.hex()


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
