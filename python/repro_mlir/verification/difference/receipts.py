# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Finds where two receipts diverge.

A receipt contains the hashes of all steps, but the tensors of only some steps. Differing elements are therefore shown
only for tensors that both receipts provide: stored batches, kept states, and the results of running the step again from
these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.base.printing import count_of
from repro_mlir.program import Program
from repro_mlir.verification.difference.report import Difference
from repro_mlir.verification.difference.sides import Arrays, compare_tensors, explain
from repro_mlir.verification.dispute.runs import ReceiptRun
from repro_mlir.verification.executors import default_target
from repro_mlir.verification.operators import Operator
from repro_mlir.verification.operators.graph import different_operators
from repro_mlir.verification.receipts.commitments import commit
from repro_mlir.verification.receipts.comparison import differences, different_input, first_different_field, ran
from repro_mlir.verification.receipts.file_list import always_needed, list_files
from repro_mlir.verification.receipts.form import HEADER, SEAL, STEPS
from repro_mlir.verification.receipts.kept_tensors import changes
from repro_mlir.verification.receipts.receipt import Receipt


class _Repeated:
    """Implements `Side`: runs the steps of a receipt again; `record` is the number of the record to explain."""

    def __init__(self, path: str | Path, target: str, threads: int | None) -> None:
        self.name = str(path)
        self.receipt = Receipt(path)
        needed = always_needed(self.receipt.header) | {*map(changes.name_of, self.receipt.log.change_records)}
        try:
            list_files(self.receipt.path).require(needed)
        except ReceiptWrong as wrong:
            raise ReproError(f"{path}: {wrong}") from None
        self.run = ReceiptRun(self.receipt, target, threads)
        self.record = 1

    def results(self, arrays: Sequence[np.ndarray]) -> Arrays:
        return self.run.tracer(self.record).results(arrays)

    def values(self, arrays: Sequence[np.ndarray]) -> Iterator[tuple[Operator, tuple[np.ndarray, ...] | None]]:
        yield from self.run.tracer(self.record).run(arrays)

    def source(self, operator: Operator) -> Operator:
        return operator

    def recorded(self, program: Program, results: Arrays) -> bool:
        """Returns whether the hashes of `results`, the results of the step, are those in the receipt's record."""
        commitment = self.run.commitment(self.record)
        count = len(program.state)
        again = commit(program, commitment.cursor, results[:count], (), results[count:])
        return (again.state, again.outputs) == (commitment.state, commitment.outputs)


def diff_receipts(
    first: str | Path, second: str | Path, targets: Sequence[str] | None = None, threads: int | None = None
) -> Difference | None:
    """Returns the first difference between two receipts of one program; None if their runs are equal: the declarations
    of the runs, and all records. `uncompared` describes what is not compared.

    Args:
      targets: the one target on which steps are run again; by default `default_target()`.
      threads: see `compile`.
    Raises:
      ReproError: for more than one target, a file that is not a receipt, receipts of different programs, or a step
        that cannot be run again.
    """
    if targets is not None and len(targets) != 1:
        raise ReproError(f"expected one target for the steps of the receipts, got {', '.join(targets)}: name one")
    target = targets[0] if targets else default_target()
    sides = _Repeated(first, target, threads), _Repeated(second, target, threads)
    headers = sides[0].receipt.header, sides[1].receipt.header
    runs = [header.run() | {"initial": ""} for header in headers]
    different = first_different_field(runs[0], runs[1], "run")
    if different is not None:
        raise ReproError(
            f"expected receipts of runs with equal declarations, got {different[0]} {different[1]} and {different[2]}: "
            "choose receipts of one program and of equal options"
        )
    records = min(side.run.records for side in sides)
    same_start = headers[0].initial == headers[1].initial
    if same_start and records == 0:
        raise ReproError(f"{first} or {second} is a run without steps: there is nothing to compare")
    record = 1
    if same_start:
        commitments = ((n, [side.run.commitment(n) for side in sides]) for n in range(1, records + 1))
        record = next((n for n, (a, b) in commitments if a.root != b.root), 0)
        if record == 0:
            return _compare_lengths(sides, records)
    elif records == 0:
        return _compare_states(sides, 0, 0, "")
    return _explain(sides, record)


def uncompared(first: str | Path, second: str | Path) -> str:
    """Returns a sentence for two receipts that `diff_receipts` finds equal: what it has not compared, and where the
    receipts differ in it."""
    sides = Receipt(first), Receipt(second)
    facts: dict[str, list[object]] = {
        "environment": [each.header.environment for each in sides],
        "the script's name or hash": [each.header.script for each in sides],
        "the stored batches": [each.header.stored for each in sides],
        "checkpoint_every": [each.header.checkpoint_every for each in sides],
        "the list of programs": [each.header.programs for each in sides],
        "the end of the run (seal.json is in one receipt only)": [each.seal is None for each in sides],
        "the signature": [each.seal and each.seal.signature for each in sides],
        "an incomplete last record": [each.log.torn for each in sides],
    }
    seals = [each.seal for each in sides if each.seal is not None]
    if len(seals) == 2:
        # The hash of receipt.json differs with the environment, which is named above.
        files = [[(name, file) for name, file in each.files.items() if name != HEADER] for each in seals]
        facts |= {
            "steps, chain or state_hash of seal.json": [(each.steps, each.chain, each.state_hash) for each in seals],
            "the hashes of files in seal.json": list(files),
        }
    differing = [name for name, (ours, theirs) in facts.items() if ours != theirs]
    also = f"; the receipts differ in {', '.join(differing)}" if differing else ""
    return (
        f"compared: the declarations of the runs, and the hashes that {STEPS} lists; not compared: the files with "
        f"kept states, programs, changes and inputs, and {SEAL}{also}; run repro verify on each receipt, too"
    )


def _compare_lengths(sides: tuple[_Repeated, _Repeated], records: int) -> Difference | None:
    """Returns the difference of two receipts whose first `records` records are equal, which is that one has more
    records; None if none has more."""
    if all(side.run.records == records for side in sides):
        return None
    steps = sides[0].run.steps, sides[1].run.steps
    changes = sides[0].run.records - steps[0], sides[1].run.records - steps[1]
    common = sides[0].receipt.log[records].step
    told = count_of(common, "step is", "steps are")
    counted = [
        f"{side.name} has {count_of(number, 'step')}"
        + (f" and {count_of(changed, 'change')} of the state" if changes[0] != changes[1] else "")
        for side, number, changed in zip(sides, steps, changes, strict=True)
    ]
    note = f"the first {told} equal; {counted[0]}, {counted[1]}"
    longer = max(sides, key=lambda side: side.run.records)
    is_change = longer.receipt.log[records + 1].is_change
    names = sides[0].name, sides[1].name
    return Difference(names, common + (not is_change), note=note, steps=steps, changes=changes, is_change=is_change)


def _compare_states(
    sides: tuple[_Repeated, _Repeated], record: int, step: int, note: str, is_change: bool = False
) -> Difference:
    """Returns the difference between the states of the two receipts after record number `record`, which is the initial
    state or a state change by the user."""
    states = [side.run.state_after(record) for side in sides]
    given = compare_tensors(sides[0].receipt.header.state, states[0], states[1], 0)
    return Difference((sides[0].name, sides[1].name), step, given, note=note, is_change=is_change)


def _explain(sides: tuple[_Repeated, _Repeated], number: int) -> Difference:
    records = [side.receipt.log[number] for side in sides]
    # All earlier records are equal, so a change counts one step less than a step.
    step = min(record.step for record in records)
    if all(record.is_change for record in records):
        note = f"the users changed the state after step {step} differently"
        return _compare_states(sides, number, step, note, is_change=True)
    if any(record.is_change for record in records):
        who = next(side for side, record in zip(sides, records, strict=True) if record.is_change)
        before = who.run.state_after(number - 1), who.run.state_after(number)
        given = compare_tensors(who.receipt.header.state, *before, 0)
        names = ", ".join(tensor.name for tensor in given[:3]) + (" and more" if len(given) > 3 else "")
        note = f"only {who.name} has a change of the state by the user after step {step}: of {names}"
        return Difference((sides[0].name, sides[1].name), step, note=note, is_change=True)
    if records[0].commitment.program != records[1].commitment.program:
        ours, theirs = (ran(record) for record in records)
        note = f"step {step} runs program {ours} in {sides[0].name}, and {theirs} in {sides[1].name}"
        note += _different_programs(sides, number)
        return Difference((sides[0].name, sides[1].name), step, note=note)
    if records[0].commitment.signature != records[1].commitment.signature:
        headers = [side.receipt.header for side in sides]
        fields = [
            header.programs[record.program or 0].signature.step_as_json()
            for header, record in zip(headers, records, strict=True)
        ]
        different = first_different_field(fields[0], fields[1], "")
        assert different is not None
        place, ours, theirs = different
        note = f"{place.removeprefix('.')} of step {step} is {ours} in {sides[0].name}, and {theirs} in {sides[1].name}"
        return Difference((sides[0].name, sides[1].name), step, note=note)
    return _explain_step(sides, number, step)


def _different_programs(sides: tuple[_Repeated, _Repeated], number: int) -> str:
    """Describes how the programs of a step differ: their first different input, or else their first different
    operator; empty if neither is known."""
    listed = [side.receipt.log[number].program for side in sides]
    headers = [side.receipt.header for side in sides]
    signatures = [header.programs[place or 0].signature for header, place in zip(headers, listed, strict=True)]
    different = different_input(*signatures)
    if different is not None:
        name, ours, theirs = different
        return f": input {name} is {ours} in {sides[0].name}, and {theirs} in {sides[1].name}"
    graphs = [side.run.graph_of(number) for side in sides]
    if None in graphs:
        return ""
    known = [(graph, side.name) for graph, side in zip(graphs, sides, strict=True) if graph is not None]
    return f": {different_operators(*known)}"


def _program_file(side: _Repeated, number: int) -> str:
    """Returns the hash of the file of a step's program."""
    program = side.receipt.log[number].program
    assert program is not None
    return side.receipt.header.programs[program].digest


def _explain_step(sides: tuple[_Repeated, _Repeated], number: int, step: int) -> Difference:
    for side in sides:
        side.record = number
    graph = sides[0].run.graph_of(number)
    assert graph is not None
    program = graph.program
    arguments = [side.run.arrays(number) for side in sides]
    found = [side.results(arrays) for side, arrays in zip(sides, arguments, strict=True)]
    results = compare_tensors((*program.state, *program.outputs), found[0], found[1], 0)
    difference = explain(graph, sides, arguments, step, results, 0)
    notes = []
    if len({_program_file(side, number) for side in sides}) > 1:
        notes.append(
            f"the files of the program have different names, messages or origins, which its identity does not cover; "
            f"the operator's module and line are those of {sides[0].name}"
        )
    wrong = [
        f"the results that {side.name} records for step {step} are not those that were computed here"
        for side, computed in zip(sides, found, strict=True)
        if not side.recorded(program, computed)
    ]
    notes += wrong
    if wrong or not (difference.given or results):
        ours, theirs = (side.receipt.log[number] for side in sides)
        places = [place for place, _, _ in differences(sides[0].receipt.header, ours, theirs)]
        notes.append(f"the receipts differ in {', '.join(places[:3])}" + (" and more" if len(places) > 3 else ""))
    return replace(difference, note="; ".join(notes))
