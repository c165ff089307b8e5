# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""One training run on several ranks: who computes what, and how bytes move between them (docs/distributed.md).

What is computed is decided elsewhere: nothing here adds, and the number of ranks is no part of a result.
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
