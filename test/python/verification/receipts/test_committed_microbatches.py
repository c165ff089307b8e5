# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Steps that commit to their microbatches (C8): one microbatch can be verified without the rest of its step."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
from forgery import edit, forge
from repro_mlir import Receipt, ReceiptOptions
from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.base.numerics.hashing import combine_digests, tensor_digest
from repro_mlir.cli.main import main
from repro_mlir.execute.microbatches import compile_step
from repro_mlir.verification.dispute import LocalChannel, Prover, ReceiptRun, settle
from test_microbatch_receipts import X, Y, trainer_of


def write(path: Path, every: int | None = 2, steps: int = 4, **options: Any) -> Path:
    receipt = ReceiptOptions(path, checkpoint_every=1, microbatches_every=every)
    with trainer_of(path, receipt=receipt, **options) as trainer:
        trainer.fit([(X, Y), (X.flip(0), Y.flip(0))], steps)
    return path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("committed") / "run.receipt")


def test_C8_the_hash_of_the_results_of_a_microbatch(recorded: Path) -> None:
    receipt = Receipt(recorded)
    program = receipt.program
    assert [len(receipt.log[step].commitment.microbatches) for step in (1, 2, 3, 4)] == [0, 4, 0, 4]
    state, inputs = receipt.state_after(1), receipt.inputs(2)
    part = compile_step(program.part, "reference", 1)
    for number, due in enumerate(receipt.log[2].commitment.microbatches):
        given = [array.copy() for array in state.values()]
        given[program.random] = given[program.random] + number
        rows = [array[6 * number : 6 * number + 6] if i in program.cut else array for i, array in enumerate(inputs)]
        _, sums = part({}, *given, *rows)
        digests = [tensor_digest(array, kind.element) for array, kind in zip(sums.values(), program.sums, strict=True)]
        assert combine_digests(digests) == due.hex()


@pytest.mark.parametrize("target", ["reference", "cpu:x86-64-v2", "ptx-emulator"])
def test_microbatches_are_run_alone(recorded: Path, target: str) -> None:
    found = repro_mlir.verify(recorded, target=target, microbatches="all")
    assert (found.chosen, found.executed, found.microbatches) == ((2, 4), (), 8)
    found = repro_mlir.verify(recorded, "sample:1", target, microbatches="sample:1", draw=random.Random(1))
    assert len(found.chosen) == 1 and found.executed == () and found.microbatches == 1
    assert (found.in_part, found.not_checked[0][:39]) == (1, "3 other microbatches of 1 chosen step, ")
    found = repro_mlir.verify(recorded, target=target)
    assert (found.executed, found.microbatches) == ((1, 2, 3, 4), 0)


def test_the_way_to_a_state_that_is_not_kept_is_run(recorded: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.receipt"
    with trainer_of(path, receipt=ReceiptOptions(path, microbatches_every=2)) as trainer:
        trainer.fit([(X, Y)], 5)
    found = repro_mlir.verify(path, microbatches="0-1")
    # Only microbatches of steps 2 and 4 are checked. Steps 1 to 3 run because step 4 needs the state after them.
    assert (found.chosen, found.executed, found.microbatches) == ((2, 4), (1, 2, 3), 2)


def test_a_wrong_microbatch_is_named(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "forged.receipt"
    shutil.copytree(recorded, path)

    def change(steps: list[Any]) -> None:
        commitment = steps[1][0]
        wrong = (*commitment.microbatches[:3], b"\1" * 32)
        steps[1] = (replace(commitment, microbatches=wrong), *steps[1][1:])

    forge(path, steps=change)
    for asked in ("all", "3", "1-3"):
        with pytest.raises(ReceiptWrong, match="does not have the result of cpu") as wrong:
            repro_mlir.verify(path, microbatches=asked)
        assert (wrong.value.place, wrong.value.step) == ("microbatch 3", 2)
    assert repro_mlir.verify(path, "1-4", microbatches="0-2").microbatches == 6
    with pytest.raises(ReceiptWrong) as wrong:
        repro_mlir.verify(path, "2", "reference")
    assert (wrong.value.place, wrong.value.step) == ("microbatch 3", 2)
    assert main(["verify", str(path), "--microbatches", "sample:4"]) == 1
    assert main(["verify", str(recorded), "--microbatches", "sample:2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    names = ("executed_microbatches", "executed_steps", "verified_steps", "steps_verified_in_part")
    assert [told[name] for name in names] == [4, 0, 0, 2]


def test_inputs_are_compared_before_a_microbatch_is_run(recorded: Path) -> None:
    def other(number: int) -> list[Any]:
        given = Receipt(recorded).inputs(number)
        return [given[0] * 2, *given[1:]]

    with pytest.raises(ReceiptWrong) as wrong:
        repro_mlir.verify(recorded, microbatches="0", inputs=other)
    assert (wrong.value.place, wrong.value.step) == ("input lr", 2)


def test_a_bad_choice_is_noticed_before_anything_is_run(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from repro_mlir.verification.receipts import verification

    monkeypatch.setattr(verification, "Replay", None)
    for asked in ("garbage", "4", "2-9"):
        with pytest.raises(ReproError, match="expected"):
            repro_mlir.verify(recorded, microbatches=asked)
    with pytest.raises(ReproError, match="no steps that commit to their microbatches among the steps 3"):
        repro_mlir.verify(recorded, "3", microbatches="all")


def test_more_or_fewer_than_due_are_wrong(recorded: Path, tmp_path: Path) -> None:
    for number, count in ((0, 4), (1, 0), (1, 3), (3, 5)):
        path = tmp_path / f"{number}-{count}.receipt"
        shutil.copytree(recorded, path)

        def change(steps: list[Any], number: int = number, count: int = count) -> None:
            steps[number] = (replace(steps[number][0], microbatches=(b"\1" * 32,) * count), *steps[number][1:])

        forge(path, steps=change)
        with pytest.raises(ReceiptWrong, match=f"microbatches, got {count}"):
            repro_mlir.verify(path)
    path = tmp_path / "empty.receipt"
    shutil.copytree(recorded, path)
    edit(path / "steps.jsonl", lambda value: value.update(microbatches=[]))
    with pytest.raises(ReproError, match="expected at least one digest in the list of microbatches"):
        repro_mlir.verify(path)


def test_runs_that_commit_otherwise_are_others(recorded: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.receipt"
    shutil.copytree(recorded, path)
    options = ReceiptOptions(path, resume=True, checkpoint_every=1)
    for every in (None, 1):
        with pytest.raises(ReproError, match=f"with microbatches_every={every}, as in this run, got 2"):
            trainer_of(path, receipt=replace(options, microbatches_every=every)).fit([(X, Y)], 5)
    for wrong in (0, True, 2.0, "4", 1 << 60):
        new: Any = replace(options, path=tmp_path / "new.receipt", microbatches_every=wrong)
        with pytest.raises(ReproError, match="expected at least 1 step between committed microbatches"):
            trainer_of(path, receipt=new).fit([(X, Y)], 5)
        assert not (tmp_path / "new.receipt").exists()
    plain = write(tmp_path / "plain.receipt", None)
    with pytest.raises(ReproError, match="no steps that commit to their microbatches"):
        repro_mlir.verify(plain, microbatches="all")
    assert Receipt(plain).log[2].commitment == replace(Receipt(recorded).log[2].commitment, microbatches=())


def test_whole_batches_have_none(tmp_path: Path) -> None:
    path = tmp_path / "whole.receipt"
    receipt = ReceiptOptions(path, microbatches_every=1)
    with trainer_of(path, receipt=receipt, microbatches=None, accumulate=1) as trainer:
        trainer.fit([(X, Y)], 2)
    assert repro_mlir.verify(path).steps == 2
    with pytest.raises(ReproError, match="no steps that commit"):
        repro_mlir.verify(path, microbatches="all")


def test_a_lie_about_a_microbatch_loses_a_dispute(recorded: Path, tmp_path: Path) -> None:
    path = tmp_path / "forged.receipt"
    shutil.copytree(recorded, path)

    def change(steps: list[Any]) -> None:
        commitment = steps[3][0]
        steps[3] = (replace(commitment, microbatches=commitment.microbatches[::-1]), *steps[3][1:])

    forge(path, steps=change)
    runs = [ReceiptRun(path), ReceiptRun(recorded)]
    for order in (runs, runs[::-1]):
        verdict = settle(*(LocalChannel(Prover(run)) for run in order))
        assert (verdict.outcome, verdict.wrong) == ("commitment", ("AB"[order.index(runs[0])],))
        assert (verdict.step, verdict.subject) == (4, "microbatch 0")
    found = repro_mlir.diff(path, recorded)
    assert found is not None and "the receipts differ in microbatch 0" in found.note


def test_a_party_with_another_number_of_them_is_at_fault(recorded: Path, tmp_path: Path) -> None:
    path = tmp_path / "forged.receipt"
    shutil.copytree(recorded, path)
    forge(path, steps=lambda steps: steps.__setitem__(3, (replace(steps[3][0], microbatches=()), *steps[3][1:])))
    verdict = settle(*(LocalChannel(Prover(ReceiptRun(each))) for each in (path, recorded)))
    assert (verdict.outcome, verdict.wrong) == ("conduct", ("A",))
    assert "expected the hashes of 4 microbatches, got 0" in verdict.reasons["A"]
