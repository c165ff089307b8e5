# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Limits on the time, memory and connections of a dispute; bounds.py has the limits that depend on the program."""

from __future__ import annotations

from repro_mlir.base.limits import limits

ANSWER_SECONDS = 600.0
"""The number of seconds that a party has for one answer."""

TOTAL_SECONDS = 3600.0
"""The number of seconds that a party has for all its answers together."""

LONGEST_SECONDS = 1_000_000.0
"""The largest value to which a user may set ANSWER_SECONDS or TOTAL_SECONDS."""

HANDSHAKE_SECONDS = 10.0
"""The number of seconds in which a referee must prove that it knows the token."""

CONNECTIONS = 32
"""The maximum number of simultaneous connections of a prover."""

HEADER_BYTES = 1 << 24

RECORD_BYTES = 1 << 24
"""The maximum number of bytes of an answer with the hashes of a record whose program is not yet known."""

OPERATOR_BYTES = 3_000_000_000
"""The maximum number of bytes of the tensors of the operator in dispute; a message with one of them must be below 4
GiB."""

SKIPPED_BATCHES = 10_000
"""The maximum number of batches in sequence with which the step of a run may fail."""

REASON_CHARACTERS = 300
"""The maximum number of characters of a reason that quotes another party's message."""


def program_bytes() -> int:
    """Returns the maximum number of bytes of the program in an answer, which encodes the program in base64."""
    return base64_bytes(limits().text_bytes)


def base64_bytes(size: int) -> int:
    """Returns the number of characters that encode `size` bytes in base64."""
    return (size + 2) // 3 * 4


def operator_bytes() -> int:
    """Returns the maximum number of bytes of all operands and results of the operator in dispute; a child process keeps
    several copies of these tensors."""
    return min(OPERATOR_BYTES, limits().memory_bytes // 4)


def patience(total: float) -> float:
    """Returns the number of seconds that a prover waits for the next question. Meanwhile, the other party may use all
    of its `total` seconds."""
    return 2 * total
