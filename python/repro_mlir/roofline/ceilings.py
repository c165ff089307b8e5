# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The upper limits of a machine's performance."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ceilings:
    """The horizontal and the slanted lines of a roofline.

    Attributes:
      arithmetic: the operations per second of each arithmetic unit.
      bandwidth: the bytes per second that each memory level supplies.
    """

    arithmetic: dict[str, float]
    bandwidth: dict[str, float]
