# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a dispute may take of time and connections; bounds.py has what follows from the program."""

from __future__ import annotations

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
PROGRAM_BYTES = 1 << 30

SKIPPED_BATCHES = 10_000
"""That a run may take from the data between two steps, because a step failed with each of them."""

REASON_CHARACTERS = 300
"""Of what is told of another's message."""


def patience(total: float) -> float:
    """Seconds that a prover waits for the next question: meanwhile the other party may take all of its time."""
    return 2 * total
