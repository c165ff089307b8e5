# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a dispute may take of time and connections; bounds.py has what follows from the program."""

from __future__ import annotations

from repro_mlir.base.limits import limits

ANSWER_SECONDS = 600.0
"""For one answer."""

TOTAL_SECONDS = 3600.0
"""For all answers of a party together: what one takes is not the other's."""

LONGEST_SECONDS = 1_000_000.0
"""The most that a user may set either to."""

HANDSHAKE_SECONDS = 10.0
"""For a referee to show that it is one."""

CONNECTIONS = 32
"""That a prover holds at a time."""

HEADER_BYTES = 1 << 24

RECORD_BYTES = 1 << 24
"""Of the answer with the hashes of a record whose program is not known yet."""

OPERATOR_BYTES = 3_000_000_000
"""Of the tensors of the operator in dispute: the answer with one of them must be a message, of less than 4 GiB."""

SKIPPED_BATCHES = 10_000
"""That a run may take from the data between two steps, because a step failed with each of them."""

REASON_CHARACTERS = 300
"""Of what is told of another's message."""


def program_bytes() -> int:
    """Of the answer with the program, whose bytes are in base64."""
    return base64_bytes(limits().text_bytes)


def base64_bytes(size: int) -> int:
    """Of so many bytes in base64."""
    return (size + 2) // 3 * 4


def operator_bytes() -> int:
    """Of all tensors that the operator in dispute takes and gives: a child process has them several times over."""
    return min(OPERATOR_BYTES, limits().memory_bytes // 4)


def patience(total: float) -> float:
    """Seconds that a prover waits for the next question: meanwhile the other party may take all of its time."""
    return 2 * total
