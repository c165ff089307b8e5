# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The check of the number of threads that a caller requests."""

from __future__ import annotations

import os

from repro_mlir.base.errors import ReproError


def check_threads(threads: int | None) -> int:
    """Returns the number of threads, by default one per available processor. Raises ReproError unless the number is
    from 1 to 1024."""
    if threads is None:
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= 1024:
        raise ReproError(f"expected a number of threads from 1 to 1024, got {threads!r}")
    return threads
