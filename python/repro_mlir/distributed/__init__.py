# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Divides the work of a training run among ranks, and exchanges bytes between them (docs/guides/distributed.md).

This package does no arithmetic on tensors, and results do not depend on the number of ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro_mlir.base.lazy_imports import load_on_first_use

if TYPE_CHECKING:
    from repro_mlir.distributed.ranks import Ranks
    from repro_mlir.distributed.transport import Transport

_HOMES = {
    "Ranks": "ranks",
    "Transport": "transport",
}

__all__ = ["Ranks", "Transport"]

__getattr__, __dir__ = load_on_first_use(__name__, _HOMES)
