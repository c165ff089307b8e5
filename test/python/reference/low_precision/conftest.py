# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Prints after a test run which elements were compared with recorded outputs, and which were skipped and why."""

from __future__ import annotations

import pytest
from recorded import PROPERTY


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = [
        value
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        for name, value in report.user_properties
        if name == PROPERTY
    ]
    if lines:
        terminalreporter.section("recorded outputs")
        for line in sorted(lines):
            terminalreporter.write_line(line)
