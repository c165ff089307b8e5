# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What no code of a machine exceeds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ceilings:
    """The horizontal and the slanted lines of a roofline.

    Attributes:
      arithmetic: operations per second by what makes them.
      bandwidth: bytes per second by the level of memory that they come from.
    """

    arithmetic: dict[str, float]
    bandwidth: dict[str, float]
