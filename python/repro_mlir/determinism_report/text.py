# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A report on determinism as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repro_mlir.determinism_report.report import Report

_MOST_LINES = 20
"""The largest number of operators that a text lists; the JSON data has all."""


def lines_of(report: Report) -> list[str]:
    """Returns the lines of a report: the shares, what is refused, PyTorch's operators by cause, and the rules."""
    lines = [f"model      {report.name}"]
    if report.program is not None:
        lines += [
            f"program    {report.program}",
            f"here       {percent(report.defined)} of the operations have defined bits",
        ]
    else:
        lines += ["here       0 %: the compiler refuses the step", f"refused    {report.refusal}"]
        if report.accepted is not None:
            lines.append(
                f"accepted   each alone: {percent(report.accepted.operators)} of the operators, "
                f"{percent(report.accepted.arithmetic)} of the arithmetic"
            )
    if report.eager:
        everywhere = report.shares("cpu")["everywhere"].arithmetic
        lines += [
            f"PyTorch    {percent(everywhere)} of the arithmetic has the same bits on every machine",
            *_shares(report),
        ]
    if report.refused:
        refused = [
            (each.name, f"{each.count:,}", each.place, each.reason or "not tried: too many are refused")
            for each in report.refused
        ]
        lines += ["", *_table(("refused", "calls", "first at", "reason"), refused, right=(1,))]
    if report.eager:
        eager = [
            (each.name, f"{each.count:,}", f"{each.arithmetic:,}", each.cause, each.cpu, each.cuda, each.places[0][0])
            for each in report.eager
        ]
        head = "in PyTorch", "calls", "arithmetic", "cause", "CPU", "CUDA", "most calls at"
        lines += ["", *_table(head, eager, right=(1, 2))]
    if report.operations:
        counts: Counter[tuple[tuple[str, ...], str]] = Counter()
        for operation in report.operations:
            counts[operation.rules, operation.text] += operation.count
        groups = [(", ".join(labels) or "none", f"{count:,}", text) for (labels, text), count in counts.items()]
        lines += ["", *_table(("rules here", "operations", "what they define"), groups, right=(1,))]
    return lines


def _shares(report: Report) -> list[str]:
    cpu, cuda = report.shares("cpu"), report.shares("cuda")
    rows = [
        (grade, *(percent(value) for share in (cpu[grade], cuda[grade]) for value in share))
        for grade in cpu
        if any((*cpu[grade], *cuda[grade]))
    ]
    head = "same bits", "CPU: operators", "arithmetic", "CUDA: operators", "arithmetic"
    return [
        "",
        "PyTorch's operators by where their results are the same bits:",
        *_table(head, rows, right=(1, 2, 3, 4)),
    ]


def percent(share: float) -> str:
    """Returns a share in percent; only nothing is 0.0 %, and only everything is 100 %."""
    if share in (0.0, 1.0):
        return f"{share:.0%}".replace("%", " %")
    return f"{min(max(100 * share, 0.1), 99.9):.1f} %"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int]) -> list[str]:
    """Returns the lines of a table; `right` are the columns that end at the right."""
    left_out = len(rows) - _MOST_LINES
    shown = [head, *rows[:_MOST_LINES]]
    widths = [max(len(row[i]) for row in shown) for i in range(len(head))]
    lines = [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in shown
    ]
    return [*lines, *([f"and {left_out:,} more: --json lists all"] if left_out > 0 else [])]
