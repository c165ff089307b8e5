# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What differs between two commitments to the same step."""

from __future__ import annotations

from collections.abc import Iterator

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
