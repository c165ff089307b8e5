# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Detection of buffers that share memory."""

from __future__ import annotations

from collections.abc import Iterable


def find_overlap(spans: Iterable[tuple[int, int, bool]]) -> tuple[int, int] | None:
    """Returns the indices of two overlapping buffers, at least one of which is written; None if there are none.

    Args:
      spans: the address of each buffer, its size in bytes and whether it is written.
    """
    ordered = sorted((start, start + size, i, written) for i, (start, size, written) in enumerate(spans) if size)
    # The greatest end address among the buffers visited so far, with the index of that buffer. `last_written` is the
    # same among the written buffers.
    last: tuple[int, int] = (0, 0)
    last_written = last
    for start, end, i, written in ordered:
        before, j = last if written else last_written
        if start < before:
            return j, i
        last = max(last, (end, i))
        if written:
            last_written = (end, i)
    return None
