# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Receipts of runs with several programs in which the user changes the state between steps: recording, resuming,
verifying and disputing them."""

import itertools
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import repro_mlir
from forgery import edit, flip, reseal
from receipt_runs import same_files
from repro_mlir import Receipt, ReceiptOptions, ReproError
from repro_mlir.base.errors import ReceiptWrong, StepFailed
from repro_mlir.base.files import canonical_json
from repro_mlir.base.limits import VARIABLE
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.cli.main import main
from repro_mlir.frontends.torch.scripts import load_training
from repro_mlir.program import read_untrusted
from repro_mlir.script_runs.batches import ScriptBatches
from repro_mlir.verification.dispute import LocalChannel, Prover, ReceiptRun, settle
from repro_mlir.verification.receipts import form, verification
from repro_mlir.verification.receipts.commitments import next_link
from repro_mlir.verification.receipts.form import Header, Record
from repro_mlir.verification.receipts.kept_tensors import changes
from repro_mlir.verification.receipts.recorder import Recorder
from repro_mlir.verification.receipts.script_inputs import ScriptInputs
from repro_mlir.verification.receipts.writer import ReceiptWriter

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

STEPS, EVERY = 10, 4
# The numbers of the records of the user's two changes of the state: before step 7 and after the last step.
BETWEEN, AT_THE_END = 7, 12


class _Cut(Exception):
    """Raised to end a run as if its process had ended."""


def _train(
    path: Path, *, cut: int | None = None, resume: bool = False, cheat: int | None = None, factor: float = 0.5
) -> str:
    """Records a run of several programs and returns the hash of its last state.

    The run switches to evaluation mode and back, changes a constant, and changes weights before step 7 and after the
    last step. With `cut`, raises `_Cut` after this number of steps. With `cheat`, changes a weight unnoticed before
    this step.
    """
    layers = torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.ReLU(), torch.nn.Linear(6, 3)
    model = repro_mlir.initialize(torch.nn.Sequential(*layers), 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    data = torch.arange(160, dtype=torch.float32).reshape(40, 4) / 64
    options = ReceiptOptions(path, checkpoint_every=EVERY, resume=resume)
    loss_fn = torch.nn.functional.cross_entropy
    trainer = repro_mlir.Trainer(model, loss_fn, optimizer, target="reference", receipt=options)
    with trainer:
        trainer.prepare(data[:5], torch.arange(5) % 3)
        for step in range(trainer.steps, STEPS):
            if step == cut:
                raise _Cut
            optimizer.param_groups[0]["weight_decay"] = 0.0 if step in (2, 3) else 0.01
            if step == 6:
                with torch.no_grad():
                    model[3].weight.mul_(factor)
            model.train(step != 7)
            if step + 1 == cheat:
                with pytest.MonkeyPatch.context() as patch:
                    # Disables the recorder's detection of changes, so that the receipt does not show this change of the
                    # state.
                    patch.setattr(Recorder, "_note_change", lambda recorder: None)
                    model[0].bias.data[1] += 1
                    trainer.step(data[step : step + 5], torch.arange(5) % 3)
            else:
                trainer.step(data[step : step + 5], torch.arange(5) % 3)
        with torch.no_grad():
            model[3].bias.zero_()
    return trainer.state_hash()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("changed") / "run"
    _train(path)
    return path


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def test_recorded_programs_and_changes(whole: Path) -> None:
    receipt = Receipt(whole)
    log = receipt.log
    assert (log.steps, log.records, log.change_records) == (STEPS, STEPS + 2, [BETWEEN, AT_THE_END])
    assert [log[log.record_of(step)].program for step in range(1, STEPS + 1)] == [0, 0, 1, 1, 0, 0, 0, 2, 0, 0]
    assert [*receipt.change(BETWEEN)] == ["3.weight"] and [*receipt.change(AT_THE_END)] == ["3.bias"]
    assert not receipt.change(AT_THE_END)["3.bias"].any()
    verified = repro_mlir.verify(whole, target="reference")
    assert verified.executed == tuple(range(1, STEPS + 1)) and verified.state_hash == receipt.seal.state_hash
    told = "whether the change of the state after step 6, 10 is intended: the user made it, no step computed it"
    assert told in verified.not_checked
    # To verify step 7, starts from the kept state after step 4 and applies the recorded change before step 7.
    assert repro_mlir.verify(whole, "7", target="reference").executed == (5, 6, 7)


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 6, 7, 8, 9])
def test_a_run_that_is_resumed_has_the_same_bytes(whole: Path, tmp_path: Path, cut: int) -> None:
    with pytest.raises(_Cut):
        _train(tmp_path / "run", cut=cut)
    _train(tmp_path / "run", resume=True)
    assert same_files(whole, tmp_path / "run")


def test_a_run_that_is_resumed_otherwise_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(_Cut):
        _train(tmp_path / "run", cut=7)
    with pytest.raises(ReceiptWrong, match=r"after step 6: state 3.weight: the repeated step differs from "):
        _train(tmp_path / "run", resume=True, factor=0.25)


def test_leftovers_of_a_write_that_was_cut_off(whole: Path, tmp_path: Path) -> None:
    """If a process ends between two writes, a program, a change or a header to which no record refers can remain."""
    path = tmp_path / "run"
    with pytest.raises(_Cut):
        _train(path, cut=6)
    receipt = Receipt(path)
    identity = Receipt(whole).header.programs[2].identity
    shutil.copy(whole / f"programs/{identity}.repro", path / "programs")
    (path / "changes").mkdir()
    shutil.copy(whole / changes.name_of(BETWEEN), path / "changes")
    for name in ("receipt.json.partial", f"programs/{identity}.repro.partial", "changes/7.safetensors.partial"):
        (path / name).write_bytes(b"half")
    assert repro_mlir.verify(path, target="reference", unfinished=True).steps == 6
    # This header lists a program whose step has no record yet.
    (path / "receipt.json").write_bytes((whole / "receipt.json").read_bytes())
    assert repro_mlir.verify(path, target="reference", unfinished=True).steps == 6
    assert len(receipt.header.programs) == 2
    _train(path, resume=True)
    assert same_files(whole, path)


def _lines(path: Path, change: Callable[[list[bytes]], object]) -> None:
    lines = (path / "steps.jsonl").read_bytes().splitlines(keepends=True)
    change(lines)
    (path / "steps.jsonl").write_bytes(b"".join(lines))


def _chained(path: Path) -> None:
    """Recomputes the roots and links of all records, and the seal, after a record has been changed."""
    receipt = Receipt(path)
    link, lines = receipt.header.first_link(), []
    for number in range(1, receipt.log.records + 1):
        record = receipt.log[number]
        root = record.commitment.root
        link = next_link(link, number, root)
        lines.append(Record(record.step, record.commitment, root, link, record.program, record.loss).dump())
    (path / "steps.jsonl").write_bytes(b"".join(lines))
    edit(path / "seal.json", lambda value: value.update(chain=link.hex()))
    reseal(path)


def _swap_programs(path: Path) -> None:
    def swap(value: dict) -> None:
        value["programs"][1], value["programs"][2] = value["programs"][2], value["programs"][1]

    def follow(lines: list[bytes]) -> None:
        for i, line in enumerate(lines):
            value = json.loads(line)
            if value.get("program", 0):
                lines[i] = canonical_json.dump(value | {"program": 3 - value["program"]}) + b"\n"

    edit(path / "receipt.json", swap)
    _lines(path, follow)
    _chained(path)


def _other_program(path: Path) -> None:
    """Forges the record of step 8 so that it names the training program, although the step ran in evaluation mode."""
    edit(path / "steps.jsonl", lambda value: value.update(program=0), 8)
    _chained(path)


def _other_values(path: Path) -> None:
    receipt = Receipt(path)
    kinds = [kind for kind in receipt.header.state if kind.name == "3.weight"]
    changes.write(path, BETWEEN, kinds, [np.zeros(kinds[0].shape, np.float32)])
    reseal(path)


def _dropped(number: int) -> Callable[[Path], None]:
    def drop(path: Path) -> None:
        _lines(path, lambda lines: lines.pop(number - 1))
        reseal(path)

    return drop


def _swapped(path: Path) -> None:
    _lines(path, lambda lines: lines.insert(BETWEEN, lines.pop(BETWEEN - 1)))
    reseal(path)


def _no_change(path: Path) -> None:
    """Replaces the record of the user's change of the state before step 7 by a record in which nothing changes."""

    def same(lines: list[bytes]) -> None:
        before, change = json.loads(lines[BETWEEN - 2]), json.loads(lines[BETWEEN - 1])
        lines[BETWEEN - 1] = canonical_json.dump(change | {"state": before["state"]}) + b"\n"

    _lines(path, same)
    _chained(path)


def _more_steps(path: Path) -> None:
    edit(path / "steps.jsonl", lambda value: value.update(step=7), BETWEEN - 1)
    _chained(path)


def _earlier_cursor(path: Path) -> None:
    edit(path / "steps.jsonl", lambda value: value.update(cursor=1), BETWEEN - 1)
    _chained(path)


CHEATS: dict[str, tuple[Callable[[Path], None], int, str]] = {
    "programs in another order": (_swap_programs, 1, "step 3: steps.jsonl: program 2 before program 1"),
    "a step of another program": (_other_program, 1, "receipt.json: lists 3 programs, but the steps use 2"),
    "other values of a change": (_other_values, 1, "after step 6: changes/7.safetensors: tensor 3.weight is not that"),
    "a change dropped": (_dropped(BETWEEN), 1, "step 7: steps.jsonl: the chain does not continue"),
    "the last change dropped": (_dropped(AT_THE_END), 1, "seal.json: not the last link"),
    "a change after its step": (_swapped, 1, "step 7: steps.jsonl: the chain does not continue"),
    "a change of nothing": (
        _no_change,
        1,
        "after step 6: steps.jsonl: expected a change of the state, got an equal state",
    ),
    "a change of another step": (
        _more_steps,
        1,
        "after step 6: steps.jsonl: expected a change after this step, got one",
    ),
    "a change before its batches": (_earlier_cursor, 1, "after step 6: steps.jsonl: expected a cursor of at least 6"),
    "a program more": (
        lambda path: _add(path, "programs/" + "0" * 64 + ".repro"),
        1,
        "not a part of the receipt",
    ),
    "a change more": (lambda path: _add(path, "changes/8.safetensors"), 1, "not a part of the receipt"),
    "a link as changes": (lambda path: _link(path, "changes"), 2, "changes: expected a directory"),
}


def _add(path: Path, name: str) -> None:
    (path / name).write_bytes(b"x")
    reseal(path)


def _link(path: Path, name: str) -> None:
    os.rename(path / name, path.parent / "elsewhere")
    (path / name).symlink_to(path.parent / "elsewhere")


def test_a_file_removed(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A receipt with a missing file is wrong (status 1). A receipt without header or seal cannot be read (status 2)."""
    for number, name in enumerate([*Receipt(whole).seal.files, "seal.json"]):
        path = Path(shutil.copytree(whole, tmp_path / str(number)))
        (path / name).unlink()
        status = main(["verify", str(path), "--steps", "1", "--target", "reference"])
        said = capsys.readouterr()
        if name in ("receipt.json", "seal.json"):
            assert status == 2 and name in said.err, said
        else:
            assert status == 1 and said.out == f"WRONG    {name}: the receipt does not have this file\n", said
        shutil.rmtree(path)


@pytest.mark.parametrize("name", CHEATS)
def test_cheats(copied: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    cheat, status, message = CHEATS[name]
    cheat(copied)
    assert main(["verify", str(copied), "--target", "reference"]) == status
    captured = capsys.readouterr()
    said = captured.out + captured.err
    assert message in said


def test_a_flipped_bit_of_a_program_or_a_change_is_found(copied: Path) -> None:
    files = [copied / changes.name_of(BETWEEN), *(copied / "programs").iterdir()]
    for file in files:
        before, size = file.read_bytes(), file.stat().st_size
        for offset in {0, size // 3, size // 2, size - 1}:
            flip(file, offset, 2)
            with pytest.raises(ReproError):
                repro_mlir.verify(copied, "1", target="reference")
            file.write_bytes(before)
    assert repro_mlir.verify(copied, "1", target="reference").sealed


def test_a_nan_of_the_users_is_recorded_as_the_canonical_one(tmp_path: Path) -> None:
    """(V4) On x86, 0 / 0 is a NaN with a sign. The receipt must contain the canonical NaN and its hash."""
    model = repro_mlir.initialize(torch.nn.Linear(3, 2), 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.ones(4, 3), torch.tensor([0, 1, 0, 1])
    path, loss_fn = tmp_path / "run", torch.nn.functional.cross_entropy
    options = ReceiptOptions(path, checkpoint_every=1)
    with repro_mlir.Trainer(model, loss_fn, optimizer, nonfinite_loss="ignore", receipt=options) as trainer:
        trainer.step(x, y)
        with torch.no_grad():
            model.bias.view(torch.int32).fill_(-0x400000)
        assert torch.isnan(model.bias).all()
        trainer.step(x, y)
        with torch.no_grad():
            model.bias.view(torch.int32).fill_(0x7FC12345)
    assert repro_mlir.verify(path).steps == 2


def test_other_state_tensors_are_refused(tmp_path: Path) -> None:
    model = repro_mlir.initialize(torch.nn.Linear(4, 3), 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    batch = torch.ones(2, 4), torch.tensor([0, 1])
    loss_fn = torch.nn.functional.cross_entropy
    with repro_mlir.Trainer(model, loss_fn, optimizer, target="reference", receipt=tmp_path / "run") as trainer:
        trainer.step(*batch)
        model.bias.requires_grad_(False)
        with pytest.raises(ReproError, match=r"bias.requires_grad has changed, and with it the state tensors"):
            trainer.step(*batch)
        model.bias.requires_grad_(True)
        trainer.step(*batch)
    assert repro_mlir.verify(tmp_path / "run", target="reference").steps == 2


def _settled(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict]:
    status = main([str(argument) for argument in (*arguments, "--target", "reference", "--json")])
    return status, json.loads(capsys.readouterr().out)


def test_no_changes(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verify = "verify", str(whole), "--target", "reference"
    assert main([*verify]) == 0
    assert capsys.readouterr().out.startswith("right    10 of 10 steps, 10 run on reference, 2 changes of the state\n")
    status, report = _settled(capsys, "verify", whole)
    assert (status, report["changes"]) == (0, 2)
    assert main([*verify, "--no-changes"]) == 1
    assert "WRONG    after step 6: steps.jsonl: the user changed the state, expected a run" in capsys.readouterr().out


def test_the_state_is_read_once(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The description of the state in the header is read once, although several programs share it."""
    names: list[str] = []
    read = form.tensors_from_json

    def reading(value: list[dict[str, Any]], where: str) -> tuple[TensorType, ...]:
        names.extend(tensor["name"] for tensor in value)
        return read(value, where)

    monkeypatch.setattr(form, "tensors_from_json", reading)
    header = Header.load((whole / "receipt.json").read_bytes(), "here")
    assert len(header.programs) == 3 and names.count("3.weight") == 1
    assert all(program.signature.state is header.state for program in header.programs)


def test_batches_without_a_step_after_the_last_one(copied: Path) -> None:
    edit(copied / "steps.jsonl", lambda value: value.update(cursor=STEPS + 2), AT_THE_END - 1)
    _chained(copied)
    receipt = Receipt(copied)

    def inputs(batch: int) -> list[np.ndarray]:
        return receipt.inputs(receipt.log.record_of(min(batch, STEPS)))

    told = "\n".join(repro_mlir.verify(copied, "10", target="reference", inputs=inputs).not_checked)
    assert "whether the 2 batches without a step fail: the steps after them were not run" in told
    with pytest.raises(ReceiptWrong, match="batch 11 has no step, and the program does not fail on it"):
        repro_mlir.verify(copied, target="reference", inputs=inputs)


SCRIPT = """
import repro_mlir
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(5, 3)

    def forward(self, words):
        return self.words(words if self.training else words + 1)


def training():
    model = repro_mlir.initialize(Model(), 1)

    def batches():
        for word in range(5):
            model.train(word not in {evaluated})
            yield torch.tensor([word, {other}]), torch.tensor([0, 1])

    return model, torch.nn.functional.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), batches()
"""


def _train_script(script: Path, path: Path, left_out: int | None = None) -> None:
    """Records a run of the script's batches. Skips batches on which the step fails, and also batch `left_out`, as a
    cheat would."""
    given = load_training(str(script))
    parts = given.model, given.loss_fn, given.optimizer
    with repro_mlir.Trainer(*parts, target="reference", receipt=path) as trainer:
        for number, batch in enumerate(given.batches, 1):
            if number == left_out:
                trainer._recorder.skip()
                continue
            try:
                trainer.step(*batch)
            except StepFailed:
                pass


def test_a_batch_that_fails_in_a_program_without_a_step(tmp_path: Path) -> None:
    """Batch 2 fails in evaluation mode. No step succeeds in this mode, so the receipt lacks the program of the mode.
    With the script, verification still checks that the batch fails."""
    script, path = tmp_path / "script.py", tmp_path / "run"
    script.write_text(SCRIPT.format(evaluated=(2,), other=4))
    _train_script(script, path)
    receipt = Receipt(path)
    assert (receipt.log.steps, len(receipt.header.programs), receipt.log[3].commitment.cursor) == (4, 1, 4)
    inputs = ScriptInputs(receipt, ScriptBatches(str(script)))
    told = repro_mlir.verify(path, target="reference", inputs=inputs).not_checked
    assert not any("batches without a step" in line for line in told)


def test_a_batch_that_fails_in_another_program_than_its_own(tmp_path: Path) -> None:
    """Batch 4 was to be used in training mode, where it succeeds, but was skipped. Failing in evaluation mode is not a
    reason to skip it."""
    script, path = tmp_path / "script.py", tmp_path / "run"
    script.write_text(SCRIPT.format(evaluated=(1,), other="2 + 2 * (word == 3)"))
    _train_script(script, path, left_out=4)
    receipt = Receipt(path)
    assert (receipt.log.steps, len(receipt.header.programs), receipt.log[4].commitment.cursor) == (4, 2, 5)
    batches = [*_batches(script)]
    told = repro_mlir.verify(path, target="reference", inputs=lambda batch: batches[batch - 1]).not_checked
    assert any("which program fails on the batches without a step" in line for line in told)
    with pytest.raises(ReceiptWrong, match="batch 4 has no step, and the program does not fail on it"):
        repro_mlir.verify(path, target="reference", inputs=ScriptInputs(receipt, ScriptBatches(str(script))))


def _batches(script: Path) -> Iterator[list[np.ndarray]]:
    source = ScriptBatches(str(script))
    for _ in range(5):
        yield source.take()


def test_a_program_without_a_step_is_not_sealed(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"
    with pytest.raises(_Cut):
        _train(path, cut=4)
    receipt, other = Receipt(path), Receipt(whole).program_at(2)
    writer = ReceiptWriter(path, receipt.header)
    with monkeypatch.context() as patch:
        patch.setattr(canonical_json, "LIMIT", len(receipt.header.dump()) + 100)
        with pytest.raises(ReproError, match=r"with the program of this step receipt.json would have"):
            writer.check_program(other)
    writer.check_program(other)
    # The header lists a program that no record uses; sealing removes it.
    assert writer.list_program(other) == 2 and len(Receipt(path).header.programs) == 3
    writer.seal(4, receipt.log[4].commitment.state, None)
    writer.close()
    assert repro_mlir.verify(path, target="reference").steps == 4 and len(Receipt(path).header.programs) == 2


def test_programs_are_bounded_together(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(file.stat().st_size for file in (whole / "programs").iterdir())
    monkeypatch.setenv(VARIABLE, f"text_bytes={size - 1}")
    with pytest.raises(ReproError, match=r"programs/.*expected at most"):
        repro_mlir.verify(whole, "1", target="reference")
    monkeypatch.setenv(VARIABLE, f"text_bytes={size}")
    assert repro_mlir.verify(whole, "1", target="reference").sealed


def test_the_time_to_read_programs_is_bounded_together(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading all programs of a receipt has one time limit. The test's clock advances by 25 s for each program."""
    left: list[float] = []

    def read(*arguments: Any, seconds: float, **options: Any) -> bytes:
        left.append(seconds)
        return read_untrusted(*arguments, seconds=seconds, **options)

    monkeypatch.setattr(f"{Receipt.__module__}.read_untrusted", read)
    clock = itertools.count(0, 25)
    monkeypatch.setattr(f"{Receipt.__module__}.time", SimpleNamespace(monotonic=clock.__next__))
    monkeypatch.setenv(VARIABLE, "read_seconds=51")
    assert repro_mlir.verify(whole, "1", target="reference").sealed
    assert left == [51, 26, 1]
    monkeypatch.setenv(VARIABLE, "read_seconds=50")
    with pytest.raises(ReproError, match="the programs could not be read within 50 s together"):
        repro_mlir.verify(whole, "1", target="reference")


def test_a_prover_leaves_no_threads(whole: Path) -> None:
    run = ReceiptRun(whole, "reference")
    # The state before record 3 is not kept, so records 1 and 2 run to compute it.
    run.arrays(3)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("repro-hash")]


def test_few_compiled_programs_are_kept(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "MOST_EXECUTABLES", 2)
    with closing(verification.Replay(Receipt(whole), "reference")) as replay:
        # Records 1 to 9 run the programs 0, 1, 0 and 2, in this order.
        for record in range(1, 10):
            replay.check(record)
            assert len(replay._executables) <= 2
        assert [*replay._executables] == [Receipt(whole).header.programs[i].identity for i in (0, 2)]
    with pytest.raises(RuntimeError, match="shutdown"):
        replay.check(10)


def test_a_dispute_about_names(whole: Path, copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program's identity does not say which inputs are hyper-parameters, but a receipt does, and a dispute compares
    what the receipts say."""
    link = Receipt(whole).log[STEPS].chain
    edit(copied / "receipt.json", lambda value: value["programs"][0].update(num_hyper_parameters=0))
    _chained(copied)
    assert Receipt(copied).log[STEPS].chain != link
    status, verdict = _settled(capsys, "dispute", whole, copied)
    assert (status, verdict["step"], verdict["outcome"], verdict["wrong"]) == (3, 1, "data", []), verdict
    assert verdict["subject"] == "names and types of the program's inputs and outputs"
    status, verdict = _settled(capsys, "dispute", whole, copied, "--terms", whole)
    assert (status, verdict["wrong"]) == (1, ["B"]), verdict
    found = repro_mlir.diff(whole, copied, targets=["reference"])
    assert "num_hyper_parameters of step 1 is " in found.note


class _Miscounting(Prover):
    """A prover that claims to have run one step fewer than it has."""

    def _opening(self) -> dict:
        return super()._opening() | {"steps": STEPS - 1}


def test_a_dispute_about_the_number_of_steps(whole: Path) -> None:
    honest, liar = (LocalChannel(prover(ReceiptRun(whole, "reference"))) for prover in (Prover, _Miscounting))
    verdict = settle(honest, liar)
    assert (verdict.outcome, verdict.wrong) == ("conduct", ("B",)), verdict
    assert verdict.reasons["B"] == "expected 9 steps in the last record, as in the opening, got 10"


def test_disputes_and_differences(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _train(tmp_path / "cheat", cheat=9)
    _train(tmp_path / "other", factor=0.25)
    assert _settled(capsys, "dispute", whole, whole)[0] == 0
    status, verdict = _settled(capsys, "dispute", whole, tmp_path / "cheat")
    assert (status, verdict["wrong"], verdict["step"], verdict["outcome"]) == (1, ["B"], 9, "commitment"), verdict
    # Both runs are consistent. Only terms say which change of the state was agreed on.
    status, verdict = _settled(capsys, "dispute", whole, tmp_path / "other")
    assert (status, verdict["step"], verdict["outcome"], verdict["is_change"]) == (3, 6, "data", True), verdict
    assert "the user changes the state after step 6: state 3.weight is another" in verdict["reasons"]["A"]
    status, verdict = _settled(capsys, "dispute", tmp_path / "other", whole, "--terms", whole)
    assert (status, verdict["wrong"]) == (1, ["A"]), verdict
    found = repro_mlir.diff(whole, tmp_path / "other", targets=["reference"])
    assert (found.step, found.is_change) == (6, True) and [tensor.name for tensor in found.given] == ["3.weight"]
    found = repro_mlir.diff(whole, tmp_path / "cheat", targets=["reference"])
    assert found.step == 9
    assert repro_mlir.diff(whole, whole, targets=["reference"]) is None


def test_a_dispute_about_a_change_that_one_run_does_not_have(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unchanged = tmp_path / "unchanged"
    _train(unchanged, factor=1.0)
    for terms, wrong in ((whole, ["B"]), (unchanged, ["A"])):
        status, verdict = _settled(capsys, "dispute", whole, unchanged, "--terms", terms)
        assert (status, verdict["outcome"], verdict["wrong"]) == (1, "data", wrong), verdict
    assert main(["dispute", str(whole), str(unchanged), "--target", "reference"]) == 3
    assert capsys.readouterr().out.startswith("wrong    not decided: no terms say which party is right (--terms)\n")


def test_a_receipt_that_contradicts_itself_before_the_first_difference(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cheat, damaged = tmp_path / "cheat", tmp_path / "damaged"
    _train(cheat, cheat=10)
    shutil.copytree(whole, damaged)
    log = Receipt(whole).log
    for step in (9, 10):
        shutil.copy(whole / "inputs.bin", damaged)
        flip(damaged / "inputs.bin", log.inputs_end(log.record_of(step)) - 1)
        for command, option in (("dispute", "--target"), ("diff", "--targets")):
            assert main([command, str(damaged), str(cheat), option, "reference"]) == 2
            told = f"{damaged}: step {step}: inputs.bin: tensor batch[1] is not that of the record"
            assert told in capsys.readouterr().err


def test_terms_that_do_not_exist(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dispute", str(whole), str(whole), "--terms", "nowhere", "--target", "reference"]) == 2
    assert "nowhere: expected a script or a receipt, but there is no such file or folder" in capsys.readouterr().err


def test_a_program_that_the_receipt_does_not_have(whole: Path) -> None:
    receipt = Receipt(whole)
    count = len(receipt.header.programs)
    for index in (count, -1):
        with pytest.raises(ReproError, match=f"expected an index of its {count} programs, from 0, got {index}$"):
            receipt.program_at(index)
