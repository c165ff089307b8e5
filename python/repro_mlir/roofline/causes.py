# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Adds up the times of launches, or of other parts of a step, by cause (such as arithmetic or memory)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def added_causes(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Returns the total seconds of several parts, such as launches, by cause."""
    found: dict[str, float] = {}
    for part in parts:
        for cause, seconds in part.items():
            found[cause] = found.get(cause, 0.0) + seconds
    return found
