# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares precision recipes by the same training under each of them. The result is data and an HTML page.

Names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro_mlir.base.lazy_imports import load_on_first_use

if TYPE_CHECKING:
    from repro_mlir.precision_report.compare import compare_recipes
    from repro_mlir.precision_report.results import Report, Run, Sample

_HOMES = {"Report": "results", "Run": "results", "Sample": "results", "compare_recipes": "compare"}

__all__ = ["Report", "Run", "Sample", "compare_recipes"]

__getattr__, __dir__ = load_on_first_use(__name__, _HOMES)
