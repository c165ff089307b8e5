# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What launches, or parts of a step, take their time for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def added_causes(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Seconds by cause of all parts, as launches, of the seconds by cause of each."""
    found: dict[str, float] = {}
    for part in parts:
        for cause, seconds in part.items():
            found[cause] = found.get(cause, 0.0) + seconds
    return found
