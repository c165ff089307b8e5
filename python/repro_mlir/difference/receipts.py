# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Where two receipts part.

A receipt has hashes of every step but tensors only of some. What differs is shown from tensors where both receipts have
or give them: stored batches and kept states, and what follows from them when the step is run again here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ..dispute.runs import ReceiptRun
from ..errors import ReproError
from ..operators import Operator
from ..receipts.commitments import commit
from ..receipts.comparison import differences, first_different_field
from ..receipts.receipt import Receipt
from .report import Difference
from .sides import Arrays, compare_tensors, explain


class _Repeated:
    """A receipt whose steps are run again here."""

    def __init__(self, path: str | Path, target: str, threads: int | None) -> None:
        self.name = str(path)
        self.receipt = Receipt(path)
        self.run = ReceiptRun(self.receipt, target, threads)

    def results(self, arrays: Sequence[np.ndarray]) -> Arrays:
        return self.run.tracer(1).results(arrays)

    def values(self, arrays: Sequence[np.ndarray]) -> Iterator[tuple[Operator, tuple[np.ndarray, ...] | None]]:
        yield from self.run.tracer(1).run(arrays)

    def recorded(self, step: int, results: Arrays) -> bool:
        """Whether these results of a step are what the receipt has."""
        commitment = self.run.commitment(step)
        program = self.run.graph.program
        count = len(program.state)
        again = commit(program, commitment.cursor, results[:count], (), results[count:])
        return (again.state, again.outputs) == (commitment.state, commitment.outputs)


def diff_receipts(
    first: str | Path, second: str | Path, target: str = "cpu", threads: int | None = None
) -> Difference | None:
    """The first difference of two receipts of one program; None where one goes on as the other does.

    Args:
      target, threads: where steps are run again, see `compile`.
    Raises:
      ReproError: no receipts, receipts of different programs, or a step that cannot be run again.
    """
    sides = _Repeated(first, target, threads), _Repeated(second, target, threads)
    headers = sides[0].receipt.header, sides[1].receipt.header
    runs = [header.run() | {"initial": ""} for header in headers]
    different = first_different_field(runs[0], runs[1], "run")
    if different is not None:
        raise ReproError(f"the receipts are of different programs: {different[0]} is {different[1]} and {different[2]}")
    steps = min(side.run.steps for side in sides)
    same_start = headers[0].initial == headers[1].initial
    if same_start and steps == 0:
        raise ReproError(f"{first} or {second} is a run without steps: there is nothing to compare")
    step = 1
    if same_start:
        commitments = ((n, [side.run.commitment(n) for side in sides]) for n in range(1, steps + 1))
        step = next((n for n, (a, b) in commitments if a.root != b.root), 0)
        if step == 0:
            return None
    elif steps == 0:
        kinds = sides[0].run.graph.program.state
        given = compare_tensors(kinds, sides[0].receipt.program.initial, sides[1].receipt.program.initial, 0)
        return Difference((sides[0].name, sides[1].name), 0, given)
    return _explain(sides, step)


def _explain(sides: tuple[_Repeated, _Repeated], step: int) -> Difference:
    graph = sides[0].run.graph
    program = graph.program
    arguments = [side.run.arrays(step) for side in sides]
    found = [side.results(arrays) for side, arrays in zip(sides, arguments, strict=True)]
    results = compare_tensors((*program.state, *program.outputs), found[0], found[1], 0)
    difference = explain(graph, sides, arguments, step, results, 0)
    notes = [
        f"what {side.name} has of step {step} is not what it gives here"
        for side, computed in zip(sides, found, strict=True)
        if not side.recorded(step, computed)
    ]
    if notes:
        commitments = [side.run.commitment(step) for side in sides]
        places = [place for place, _, _ in differences(sides[0].receipt.header.signature, *commitments)]
        notes.append(f"the receipts differ in {', '.join(places[:3])}" + (" and more" if len(places) > 3 else ""))
    note = "; ".join(notes)
    return Difference(
        difference.names, step, difference.given, difference.operators, results, difference.compared, note, graph
    )
