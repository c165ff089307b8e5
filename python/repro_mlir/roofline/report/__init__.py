# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Formats predictions and sweeps as text, JSON and HTML pages."""

from repro_mlir.roofline.report.data import Case, as_json, case_as_json, sweep_as_json
from repro_mlir.roofline.report.page import prediction_page, sweep_page
from repro_mlir.roofline.report.text import comparison_lines, lines_of, sweep_lines

__all__ = [
    "Case",
    "as_json",
    "case_as_json",
    "comparison_lines",
    "lines_of",
    "prediction_page",
    "sweep_as_json",
    "sweep_lines",
    "sweep_page",
]
