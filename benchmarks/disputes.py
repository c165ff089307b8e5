# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Measures disputes about one wrong bit: in each type of operator, and in runs of increasing size.

    python benchmarks/disputes.py [--disputes 4] [--seed 1]

Prints the measurements that docs/verification/disputes.md summarizes. The exit status is 1 if a dispute named a wrong
operator or party, or exceeded its bound.
"""

import argparse
import datetime
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))
from repro_mlir.verification.dispute import RecordedRun, Verdict
from repro_mlir.verification.operators import OperatorGraph
from repro_mlir.verification.receipts.form import VERSION
from support.dispute_runs import STEPS, bounds, chain, dispute, effective_fault, faulty, graph, honest, run

CHAINS = ((16, 4), (16, 64), (16, 1024), (256, 4), (256, 64), (4096, 4))
"""Pairs of a number of operators and a number of steps."""


@dataclass
class Row:
    """The disputes in a row of a table: their number, and how many of them named the right operator and party; then,
    for each party of each dispute, the number of questions and of bytes, each with its bound."""

    disputes: int = 0
    named: int = 0
    questions: list[tuple[int, int]] = field(default_factory=list)
    bytes: list[tuple[int, int]] = field(default_factory=list)

    def add(self, verdict: Verdict, graph: OperatorGraph, runs: tuple[RecordedRun, RecordedRun], right: bool) -> None:
        """Adds a dispute to the row. `right` is whether the dispute named the right operator and the right party."""
        self.disputes += 1
        self.named += right
        if verdict.operator is None:
            return
        limits = bounds(graph, runs, verdict.operator.index)
        for name, traffic in verdict.traffic.items():
            self.questions.append((traffic.questions, limits[name].questions))
            self.bytes.append((traffic.narrowing, limits[name].bytes))

    @property
    def within(self) -> bool:
        """Returns whether all disputes named the right operator and party, and stayed within their bounds."""
        return self.named == self.disputes and all(a <= b for a, b in (*self.questions, *self.bytes))

    def cells(self) -> str:
        """Returns the table cells: the largest number of questions in a dispute and its bound, then the same for
        bytes."""
        (asked, most_asked), (size, most_size) = max(self.questions), max(self.bytes)
        return f"{asked} | {most_asked} | {size:,} | {most_size:,}"


def each_kind(disputes: int, seed: int) -> dict[str, Row]:
    """Runs `disputes` disputes about each type of operator that computes values. The parties A and B take turns being
    wrong. Returns a row per type."""
    draw = np.random.default_rng(seed)
    kinds: dict[str, list[int]] = {}
    for operator in graph().operators:
        if operator.outputs and not operator.inline:
            kinds.setdefault(operator.name, []).append(operator.index)
    rows = {}
    for name in sorted(kinds):
        row = rows[name] = Row()
        for number in range(disputes):
            step = int(draw.integers(1, STEPS + 1))
            # Skips an operator if every fault in its results either has no effect or makes a check of the program (E1)
            # fail.
            faults = ((index, effective_fault(step, index, draw)) for index in np.roll(kinds[name], -number).tolist())
            index, cheat = next((index, cheat) for index, cheat in faults if cheat is not None)
            wrong = "AB"[number % 2]
            pair = (cheat, honest()) if wrong == "A" else (honest(), cheat)
            verdict = dispute(*pair)
            found = verdict.operator.index if verdict.operator else None
            right = (verdict.outcome, verdict.wrong, verdict.step, found) == ("operator", (wrong,), step, index)
            row.add(verdict, graph(), pair, right)
    return rows


def larger_runs(seed: int) -> dict[tuple[int, int], Row]:
    """Runs one dispute for each entry of `CHAINS`, which is a number of operators and a number of steps. Returns a row
    per entry."""
    draw = np.random.default_rng(seed)
    rows = {}
    for operators, steps in CHAINS:
        program = chain(operators)
        right = run(program, [[]] * steps)
        step, index = int(draw.integers(1, steps + 1)), int(draw.integers(1, operators)) | 1
        wrong = faulty(program, right.inputs, step, index, 5)
        verdict = dispute(right, wrong)
        row = rows[operators, steps] = Row()
        found = verdict.operator.index if verdict.operator else None
        row.add(verdict, program, (right, wrong), (verdict.wrong, verdict.step, found) == (("B",), step, index))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--disputes", type=int, default=4, help="per kind of operator (4)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    kinds = each_kind(options.disputes, options.seed)
    runs = larger_runs(options.seed)
    total, named = (sum(getattr(row, name) for row in kinds.values()) for name in ("disputes", "named"))
    print(
        f"Measured on {datetime.date.today()} by `python benchmarks/disputes.py --disputes {options.disputes} "
        f"--seed {options.seed}`:\n{STEPS} steps of a program of {len(graph().operators)} operators with receipts of "
        f"version {VERSION}, {total} disputes, {named} of which named step, operator and party rightly.\nShown is the "
        "party that was asked most, and the most bytes, each beside its bound.\n"
    )
    print("| wrong operator | disputes | right | questions | bound | bytes | bound |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, row in kinds.items():
        print(f"| {name} | {row.disputes} | {row.named} | {row.cells()} |")
    print("\nRuns of more steps and operators (element-wise operators, one after the other):\n")
    print("| operators | steps | right | questions | bound | bytes | bound |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for (operators, steps), row in runs.items():
        print(f"| {operators:,} | {steps:,} | {'yes' if row.named else 'no'} | {row.cells()} |")
    return 0 if all(row.within for row in (*kinds.values(), *runs.values())) else 1


if __name__ == "__main__":
    sys.exit(main())
