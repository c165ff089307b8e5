# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs the committed inputs of every fuzzer and a sample of its mutations; tests forked.py, which runs them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import core_mutations
import core_plans
import forked
import in_process
import pytest
import readers
import semantic
from journal import Journal
from repro_mlir.sandbox import import_module
from support.kit import EVERYTHING

COUNT = 60 if EVERYTHING else 15
"""The number of mutations for each reader; each command gets a third of it."""


@pytest.mark.parametrize("reader", readers.READERS)
def test_reader(reader: str) -> None:
    if reader == "attest-command":
        pytest.importorskip("cryptography")
    assert not readers.replay(reader)
    journal = Journal(Path(os.devnull))
    readers.run(reader, range(COUNT // 3 if reader.endswith("-command") else COUNT), journal)
    assert not journal.findings()
    assert any(outcome != "read" for outcome in journal.outcomes.values())


def test_canonical_programs() -> None:
    for result in forked.run(range(8 if EVERYTHING else 4), semantic.valid, semantic.LIMITS):
        assert not result.is_finding, result


def test_programs_on_many_cores() -> None:
    # The numbers stand for programs that were wrong or refused once, for one whose check fails, and for multicasts.
    numbers = (18, 52, 106, 619, 640, *(core_plans.PRODUCTS + number for number in (4, 12, 24)))
    for result in forked.run(numbers, core_plans.outcome, core_plans.LIMITS):
        assert not result.is_finding, result


def test_changed_plans_of_many_cores() -> None:
    outcomes = dict(enumerate(r.outcome for r in forked.run(range(24), core_mutations.outcome, core_mutations.LIMITS)))
    assert not [outcome for outcome in outcomes.values() if outcome.startswith("finding")], outcomes
    for found in ("repro-verify-cores", "repro-verify-core-mapping", "same bits"):
        assert any(found in outcome for outcome in outcomes.values()), outcomes


def test_changed_bytes_of_plans_of_many_cores() -> None:
    results = forked.run(range(9), core_mutations.outcome_of_byte, core_mutations.LIMITS)
    outcomes = {result.outcome for result in results}
    assert not [outcome for outcome in outcomes if outcome.startswith("finding")], outcomes
    assert f"{core_mutations.BYTES[0]}: refused by the dialect" in outcomes
    assert f"{core_mutations.BYTES[1]}: refused by the reader" in outcomes


@pytest.mark.parametrize("door", ["Trainer", "compile", "torch.compile"])
@pytest.mark.diagonal(door=["torch.compile"])
@pytest.mark.exhaustive("torch.compile")
def test_corpus_of_pytorch(door: str) -> None:
    pytest.importorskip("torch_mlir")
    import torch_modules

    assert not torch_modules.replay(door)


def test_functions_of_pytorch() -> None:
    pytest.importorskip("torch_mlir")
    import torch_modules

    programs = [torch_modules.torch_programs.program(number) for number in range(4)]
    found = torch_modules.outcomes(programs, 0, "torch.compile")
    assert not [outcome for outcome in found if outcome.startswith("finding")]


def test_a_right_receipt_is_read(tmp_path: Path) -> None:
    for name in ("artifact", "bundle", "plan", "program", "receipt", "stored", "tensors", "text"):
        (tmp_path / name).mkdir()
        reader = readers.READERS[name](tmp_path / name)
        assert reader.read(reader.seeds[0]) == "read"


def test_outcomes_of_children() -> None:
    def work(number: int) -> str:
        if number == 2:
            os.kill(os.getpid(), signal.SIGSEGV)
        if number == 4:
            raise ValueError("five")
        if number == 6:
            time.sleep(60)
        return "ok"

    results = list(forked.run(range(8), work, forked.Limits(seconds=2, batch=5)))
    assert [result.number for result in results] == list(range(8))
    found = {result.number: result.outcome for result in results if result.is_finding}
    assert sorted(found) == [2, 4, 6]
    assert "SIGSEGV" in found[2] and "ValueError: five" in found[4] and "more than 2 seconds" in found[6]


def test_an_item_that_ends_its_process_is_retried() -> None:
    """If a text ends the fuzzer's child that parses it, the item is repeated as in normal use, where a sandbox child
    parses the text. The death of the sandbox child is an ordinary error, which is then the item's outcome."""
    text = (readers.CORPUS / "text" / "negative-group.mlir").read_bytes()

    def quickly(number: int) -> str:
        in_process.begin()
        return as_in_use(number)

    def as_in_use(number: int) -> str:
        return readers.attempt(lambda: import_module(text, is_text=True))

    (ended,) = forked.run(range(1), quickly, readers.LIMITS)
    assert ended.is_finding and "SIGABRT" in ended.outcome
    (again,) = forked.run(range(1), quickly, readers.LIMITS, as_in_use)
    assert again.outcome == "refused"


def test_a_journal_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    Journal(path).add(forked.Result(1, "ok"))
    with open(path, "a") as file:
        file.write('[2, "o')
    again = Journal(path)
    assert list(again.missing(range(3))) == [0, 2] and again.summary() == "1 ok"
