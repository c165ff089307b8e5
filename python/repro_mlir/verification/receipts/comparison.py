# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares two records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from repro_mlir.verification.receipts.form import Header, Record, Signature


def differences(header: Header, expected: Record, actual: Record) -> Iterator[tuple[str, str, str]]:
    """Yields the location, expected value and actual value of each difference, causes before consequences.

    Locations are "program", "signature", "cursor", "input NAME", "microbatch P", "microbatches", "output NAME" and
    "state NAME"; values are hashes (H1), (C7), (C8), identities (H2) or numbers. If the programs or their signatures
    differ, or only one record is a step, nothing else is compared.

    Args:
      header: the header with the programs of `expected`.
    """
    ours, theirs = expected.commitment, actual.commitment
    if (expected.program is None) != (actual.program is None) or ours.program != theirs.program:
        yield "program", ran(expected), ran(actual)
        return
    if ours.signature != theirs.signature:
        signed = [each.hex() if each else "missing" for each in (ours.signature, theirs.signature)]
        yield "signature", signed[0], signed[1]
        return
    if ours.cursor != theirs.cursor:
        yield "cursor", str(ours.cursor), str(theirs.cursor)
    signature = Signature(header.state, (), (), 0)
    if expected.program is not None:
        signature = header.programs[expected.program].signature
    roles = (
        ("input", signature.inputs, ours.inputs, theirs.inputs),
        ("output", signature.outputs, ours.outputs, theirs.outputs),
        ("state", signature.state, ours.state, theirs.state),
    )
    for role, kinds, one, other in roles:
        for kind, a, b in zip(kinds, one, other, strict=True):
            if a != b:
                yield f"{role} {kind.name}", a.hex(), b.hex()
        if role == "input" and len(ours.microbatches) != len(theirs.microbatches):
            yield "microbatches", str(len(ours.microbatches)), str(len(theirs.microbatches))
        elif role == "input":
            pairs = enumerate(zip(ours.microbatches, theirs.microbatches, strict=True))
            yield from ((f"microbatch {number}", a.hex(), b.hex()) for number, (a, b) in pairs if a != b)


def different_input(first: Signature, second: Signature) -> tuple[str, str, str] | None:
    """Returns the name of the first input whose type differs between two programs, and both types, such as
    "f32 [32, 20]" ("none" for a missing input); None if there is no such input."""
    known = {kind.name: f"{kind.element} {[*kind.shape]}" for kind in first.inputs}
    others = {kind.name: f"{kind.element} {[*kind.shape]}" for kind in second.inputs}
    for name in {**known, **others}:
        types = known.get(name, "none"), others.get(name, "none")
        if types[0] != types[1]:
            return name, *types
    return None


def ran(record: Record) -> str:
    """Describes the program of a record, or states that the record is a state change."""
    if record.program is None:
        return "a change of the state by the user"
    return record.commitment.program.hex() if record.commitment.program else "a step"


def first_different_field(first: Any, second: Any, path: str = "header") -> tuple[str, str, str] | None:
    """Returns the path of the first field, sorted by name, in which two JSON values differ, and both values as text;
    None if they are equal."""
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
