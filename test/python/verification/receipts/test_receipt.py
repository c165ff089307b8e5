# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Honest receipts are written, read, verified on other targets, and resumed."""

import json
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import repro_mlir
import torch
from receipt_runs import EVERY, STEPS, same_files, train, training
from repro_mlir import ReceiptOptions, ReproError
from repro_mlir.base.errors import ReceiptWrong
from repro_mlir.base.numerics.hashing import state_hash
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.cli.main import main
from repro_mlir.program import Program
from repro_mlir.program.canonical import to_bytes
from repro_mlir.verification.difference.receipts import diff_receipts
from repro_mlir.verification.receipts.choice import choose
from repro_mlir.verification.receipts.recorder import Recorder
from repro_mlir.verification.receipts.step_log import StoredInputs
from repro_mlir.verification.receipts.verification import records_before, records_to_execute


def test_an_honest_receipt_is_right(finished: Path) -> None:
    verified = repro_mlir.verify(finished)
    assert verified.steps == STEPS and verified.executed == tuple(range(1, STEPS + 1))
    receipt = repro_mlir.Receipt(finished)
    assert receipt.seal is not None
    assert {name for name in receipt.seal.files if name.startswith("checkpoints/")} == {
        f"checkpoints/{step}.safetensors" for step in (0, 3, 6, 8)
    }
    assert verified.state_hash == receipt.seal.state_hash
    assert {"seed", "step"} <= {kind.name for kind in receipt.header.programs[0].signature.state}


def test_the_receipt_records_the_run_of_the_trainer(finished: Path, tmp_path: Path) -> None:
    model, loss_fn, optimizer, batches, options = training()
    trainer = repro_mlir.Trainer(model, loss_fn, optimizer, **options)
    losses = trainer.fit(batches, STEPS)
    receipt = repro_mlir.Receipt(finished)
    assert receipt.header.programs[0].identity == trainer.program.hash
    assert [np.frombuffer(receipt.log[i + 1].loss, np.float32)[0] for i in range(STEPS)] == losses
    state = receipt.state_after(STEPS)
    assert state_hash([(state[kind.name], kind.element) for kind in trainer.program.state]) == trainer.state_hash()


@pytest.mark.parametrize("target", ["cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:aarch64", "reference"])
def test_other_targets_agree(finished: Path, target: str) -> None:
    steps = "7" if target in ("cpu:aarch64", "reference") else "all"
    try:
        verified = repro_mlir.verify(finished, steps, target, 1)
    except ReceiptWrong:
        raise
    except ReproError as error:
        pytest.skip(str(error))
    assert verified.executed == ((7,) if steps == "7" else tuple(range(1, STEPS + 1)))


def test_the_same_run_gives_the_same_receipt(finished: Path, tmp_path: Path) -> None:
    train(ReceiptOptions(tmp_path / "again", checkpoint_every=EVERY))
    assert same_files(finished, tmp_path / "again")


def test_a_run_on_a_device_gives_the_same_receipt(finished: Path, tmp_path: Path) -> None:
    options = ReceiptOptions(tmp_path / "device", checkpoint_every=EVERY, resume=True)
    model, loss_fn, optimizer, batches, extra = training()
    with pytest.raises(KeyboardInterrupt):
        with repro_mlir.Trainer(
            model, loss_fn, optimizer, target="ptx-emulator", threads=2, receipt=options, **extra
        ) as trainer:
            trainer.fit(batches, EVERY + 1)
            raise KeyboardInterrupt
    train(options, target="ptx-emulator")
    for name in ("steps.jsonl", "inputs.bin", *(f"checkpoints/{step}.safetensors" for step in (0, 3, 6, 8))):
        assert (finished / name).read_bytes() == (tmp_path / "device" / name).read_bytes(), name
    assert repro_mlir.verify(tmp_path / "device").sealed


def test_the_chain_does_not_depend_on_how_the_receipt_is_kept(finished: Path, tmp_path: Path) -> None:
    train(ReceiptOptions(tmp_path / "other", checkpoint_every=1, store_batches=False), target="reference")
    seals = [repro_mlir.Receipt(path).seal for path in (finished, tmp_path / "other")]
    assert seals[0] is not None and seals[1] is not None
    assert seals[0].chain == seals[1].chain and seals[0].files != seals[1].files


def test_resumed_runs_end_with_the_same_receipt(finished: Path, tmp_path: Path) -> None:
    for cut in (0, 2, 3, 7, STEPS):
        path = tmp_path / str(cut)
        options = ReceiptOptions(path, checkpoint_every=EVERY, resume=True)
        model, loss_fn, optimizer, batches, extra = training()
        with pytest.raises(KeyboardInterrupt):
            with repro_mlir.Trainer(model, loss_fn, optimizer, threads=2, receipt=options, **extra) as trainer:
                trainer.fit(batches, cut)
                raise KeyboardInterrupt
        trainer = train(options)
        assert trainer.steps == STEPS
        assert same_files(finished, path)


def test_a_finished_run_goes_on(finished: Path, copy: Callable[[], Path]) -> None:
    path = copy()
    train(ReceiptOptions(path, checkpoint_every=EVERY, resume=True), STEPS + 2)
    assert repro_mlir.verify(path).steps == STEPS + 2
    with pytest.raises(ReproError, match=r"expected at least 10 steps, the number .* has, got 8: give"):
        train(ReceiptOptions(path, resume=True))
    assert repro_mlir.Receipt(path).header.checkpoint_every == EVERY


def test_a_comparison_says_how_programs_differ(finished: Path, tmp_path: Path) -> None:
    def note(name: str, change: Callable[[list], None]) -> str:
        model, loss_fn, optimizer, batches, options = training()
        made = [model, loss_fn, batches]
        change(made)
        receipt = ReceiptOptions(tmp_path / name)
        with repro_mlir.Trainer(made[0], made[1], optimizer, receipt=receipt, target="reference", **options) as trainer:
            trainer.fit(made[2], 1)
        difference = diff_receipts(finished, tmp_path / name, ["reference"])
        assert difference is not None and difference.step == 1
        return difference.note

    def batches_of_three(made: list) -> None:
        made[2] = [(torch.ones(3, 4), torch.zeros(3, dtype=torch.int64))]

    def tanh(made: list) -> None:
        made[0][2] = torch.nn.Tanh()

    shapes = f"input batch[0] is f32 [5, 4] in {finished}, and f32 [3, 4] in {tmp_path / 'three'}"
    assert note("three", batches_of_three).endswith(shapes)
    told = note("tanh", tanh)
    assert "the first different operators are operator " in told and f"f32 [5, 6] in {tmp_path / 'tanh'}" in told


def test_resuming_another_run(finished: Path, copy: Callable[[], Path]) -> None:
    path = copy()
    with pytest.raises(ReproError, match="exists: resume it"):
        train(ReceiptOptions(path))
    back = "change the option back, or begin another receipt"
    with pytest.raises(ReproError, match=f"expected a receipt without batches, as in this run: {back}"):
        train(ReceiptOptions(path, store_batches=False, resume=True))
    with pytest.raises(ReproError, match=f"checkpoint_every=7, as in this run, got {EVERY}: {back}"):
        train(ReceiptOptions(path, checkpoint_every=7, resume=True))
    model, loss_fn, optimizer, batches, extra = training()
    next(model.parameters()).data.zero_()
    other = repro_mlir.Trainer(model, loss_fn, optimizer, receipt=ReceiptOptions(path, resume=True), **extra)
    with pytest.raises(ReproError, match=r"expected this run's initial state .* set the same seed"):
        other.fit(batches, STEPS)
    del extra["clip_norm"]
    other = repro_mlir.Trainer(*training()[:3], receipt=ReceiptOptions(path, resume=True), **extra)
    with pytest.raises(
        ReproError, match=r"expected a receipt of this run's program .* \(clip_norm: f\d+ \[\] in the rec"
    ):
        other.fit(batches, STEPS)
    model, loss_fn, optimizer, batches, extra = training()
    model[2] = torch.nn.Tanh()
    other = repro_mlir.Trainer(model, loss_fn, optimizer, receipt=ReceiptOptions(path, resume=True), **extra)
    with pytest.raises(
        ReproError, match=r"\(the first different operators are operator .* in the receipt, and .* this"
    ):
        other.fit(batches, STEPS)


def test_other_batches_when_resuming_are_noticed(copy: Callable[[], Path]) -> None:
    path = copy()
    (path / "seal.json").unlink()
    (path / "checkpoints" / "8.safetensors").unlink()
    model, loss_fn, optimizer, batches, extra = training()
    changed = ((x + (i == 6), y) for i, (x, y) in enumerate(batches))
    with pytest.raises(ReceiptWrong) as caught:
        with repro_mlir.Trainer(
            model, loss_fn, optimizer, receipt=ReceiptOptions(path, resume=True), **extra
        ) as trainer:
            trainer.fit(changed, STEPS)
    assert caught.value.step == 7 and caught.value.place.startswith("input ")


@pytest.mark.parametrize("steps", [STEPS, STEPS + 2])
@pytest.mark.parametrize(
    ("change", "place", "told"),
    [
        (lambda i, lr, x: (lr, x + (i == 1)), "input batch[0]", "this run has other values"),
        (lambda i, lr, x: (lr * (1 + (i == 2)), x), "input lr", "expected 0.01, this run has 0.02"),
    ],
)
@pytest.mark.diagonal
def test_skipped_batches_are_compared(
    finished: Path, copy: Callable[[], Path], change: Callable, place: str, told: str, steps: int
) -> None:
    path = copy()
    model, loss_fn, optimizer, batches, extra = training()

    def changed() -> Iterator[tuple]:
        (group,) = optimizer.param_groups
        for i, (x, y) in enumerate(batches):
            group["lr"], x = change(i, group["lr"], x)
            yield x, y

    with pytest.raises(ReceiptWrong, match=told) as caught:
        with repro_mlir.Trainer(
            model, loss_fn, optimizer, receipt=ReceiptOptions(path, resume=True), **extra
        ) as trainer:
            trainer.fit(changed(), steps)
    assert (caught.value.step, caught.value.place) == (2 if "batch" in place else 3, place)
    assert "begin another receipt" in str(caught.value) and same_files(finished, path)


def test_a_loop_that_would_use_batches_again(finished: Path, copy: Callable[[], Path]) -> None:
    path = copy()
    options = ReceiptOptions(path, checkpoint_every=EVERY, resume=True)
    model, loss_fn, optimizer, batches, extra = training()
    given = list(islice(batches, STEPS))
    trainer = repro_mlir.Trainer(model, loss_fn, optimizer, receipt=options, **extra)
    for name in ("steps", "cursor"):
        with pytest.raises(ReproError, match=f"the receipt says what {name} is, and is not open yet: call prepare"):
            getattr(trainer, name)
    assert trainer.state_dict()["steps"] == 0 and "steps: 0" in repr(trainer)
    with pytest.raises(ReproError, match=r"already used 8 batches, .* call prepare\(\*batch\) with the first batch"):
        trainer.step(*given[0])
    assert (trainer.steps, trainer.cursor) == (STEPS, STEPS)
    trainer.__exit__(ReproError, None, None)
    assert same_files(finished, path)


def test_a_receipt_states_one_script(tmp_path: Path, copy: Callable[[], Path]) -> None:
    script, path = tmp_path / "train.py", tmp_path / "run"
    script.write_text("first")
    train(ReceiptOptions(path, script=script), 1)
    again = script.rename(tmp_path / "renamed.py")
    train(ReceiptOptions(path, script=again, resume=True), 2)
    again.write_text("second")
    for other, given in ((again, "renamed.py of BLAKE3"), (None, "no script")):
        with pytest.raises(ReproError, match=rf"expected train.py of BLAKE3 .*, as in the receipt, got {given}"):
            train(ReceiptOptions(path, script=other, resume=True), 3)
    with pytest.raises(ReproError, match=r"expected no script, as in the receipt, got renamed.py"):
        train(ReceiptOptions(copy(), script=again, resume=True), STEPS)


def test_two_writers(finished: Path, copy: Callable[[], Path]) -> None:
    options = ReceiptOptions(copy(), resume=True)
    model, loss_fn, optimizer, batches, extra = training()
    with repro_mlir.Trainer(model, loss_fn, optimizer, receipt=options, **extra) as trainer:
        trainer.fit(batches, STEPS)
        with pytest.raises(ReproError, match=r"another process or trainer is writing .*: wait for it, or end it"):
            train(options)


def test_a_step_after_close(tmp_path: Path) -> None:
    trainer = train(ReceiptOptions(tmp_path / "run"), 1)
    with pytest.raises(ReproError, match="the receipt is closed: use a new Trainer"):
        trainer.step(*next(training()[3]))


def test_a_failed_step_moves_the_cursor_alone(tmp_path: Path) -> None:
    model, loss_fn, optimizer, batches, extra = training()
    with repro_mlir.Trainer(model, loss_fn, optimizer, receipt=tmp_path / "run", **extra) as trainer:
        x, y = next(batches)
        trainer.step(x, y)
        with pytest.raises(repro_mlir.base.errors.StepFailed):
            trainer.step(x, y + 7)
        trainer.step(x, y)
    log = repro_mlir.Receipt(tmp_path / "run").log
    assert [log[i].commitment.cursor for i in (1, 2)] == [1, 3]
    assert repro_mlir.verify(tmp_path / "run").steps == 2


def test_a_run_that_has_not_ended(copy: Callable[[], Path]) -> None:
    path = copy()
    (path / "seal.json").unlink()
    with pytest.raises(ReproError, match=r"expected a run that has ended, but the receipt has no seal.json"):
        repro_mlir.verify(path)
    (path / "checkpoints" / "8.safetensors.partial").write_bytes(b"half")
    verified = repro_mlir.verify(path, unfinished=True)
    assert verified.state_hash is None and not verified.sealed
    assert verified.not_checked[0] == "how the run ends: it is not sealed"
    (path / "notes.txt").write_bytes(b"")
    with pytest.raises(ReceiptWrong, match=r"notes.txt: not a part of the receipt"):
        repro_mlir.verify(path, unfinished=True)
    (path / "notes.txt").unlink()
    # Resuming removes partial files that an interrupted run has left.
    train(ReceiptOptions(path, checkpoint_every=EVERY, resume=True))
    assert not (path / "checkpoints" / "8.safetensors.partial").exists()
    assert repro_mlir.verify(path, "8").sealed


def recorded(program: Program, path: Path, source: repro_mlir.Receipt, steps: int) -> None:
    """Records a run of `steps` steps of `program`, with the inputs of another receipt."""
    executable = repro_mlir.compile(program, "cpu", 1)
    recorder = Recorder(ReceiptOptions(path), program, "cpu", 1)
    try:
        for step in range(1, steps + 1):
            inputs = recorder.take(program, source.inputs(step))
            _, outputs = executable(recorder.state, *inputs)
            recorder.commit(inputs, list(outputs.values()))
        recorder.seal()
    finally:
        recorder.close()


def test_a_run_without_steps(finished: Path, tmp_path: Path, capsys) -> None:
    source = repro_mlir.Receipt(finished)
    recorded(source.program, tmp_path / "none", source, 0)
    for more in ([], ["--steps", "sample:3"], ["--unfinished"]):
        assert main(["verify", str(tmp_path / "none"), *more]) == 2
        assert "a run without steps: there is nothing to verify" in capsys.readouterr().err
    assert main(["diff", str(tmp_path / "none"), str(finished)]) == 2
    assert "a run without steps: there is nothing to compare" in capsys.readouterr().err
    (tmp_path / "none" / "seal.json").unlink()
    assert main(["verify", str(tmp_path / "none"), "--unfinished"]) == 2


def test_names_beyond_ascii(finished: Path, tmp_path: Path) -> None:
    source = repro_mlir.Receipt(finished)

    def renamed(name: str) -> Program:
        program = source.program
        first, *others = program.state
        state = (replace(first, name=name), *others)
        return replace(program, data=to_bytes(program.text.replace(f'"{first.name}"', f'"{name}"')), state=state)

    recorded(renamed("\u91cd\u307f \u00e9"), tmp_path / "run", source, 2)
    assert repro_mlir.verify(tmp_path / "run", threads=1).steps == 2
    with pytest.raises(ReproError, match=r"cannot name the program's tensors: .*normalization form C"):
        recorded(renamed("e\u0301"), tmp_path / "other", source, 1)


def test_choosing_steps() -> None:
    few, many = range(1, 4), range(1, 101)
    assert choose("all", few, "steps") == [1, 2, 3]
    assert choose("2-3", few, "steps") == [2, 3] and choose("2", few, "steps") == [2]
    assert choose("1,3", few, "steps") == [1, 3]
    assert choose("sample:9", few, "steps") == [1, 2, 3]
    assert len(set(choose("sample:9", many, "steps"))) == 9
    assert choose("sample:5", many, "steps", random.Random(1)) == choose("sample:5", many, "steps", random.Random(1))
    for text in ("", "none", "sample:0", "sample:", "0", "4", "3-2", "1-4", "1-", "-1", "1,", ",2", "1,4"):
        with pytest.raises(ReproError, match="expected"):
            choose(text, few, "steps")
    assert choose("3-8", [2, 4, 8], "steps") == [4, 8] and choose("0", range(4), "microbatches") == [0]
    for text, numbers in (("5", [2, 8]), ("all", [])):
        with pytest.raises(ReproError, match="steps"):
            choose(text, numbers, "steps")
    assert records_before([2, 5, 12], [0, 3, 4, 10]) == [1, 11]
    assert records_to_execute([2, 5, 12], [0, 3, 4, 10]) == [1, 2, 5, 11, 12]
    assert records_to_execute([], [0]) == []


@pytest.mark.timeout(60)
def test_choosing_many_steps() -> None:
    """Choosing steps must be fast for 200,000 steps: the time must not grow with the square of the number of steps or
    of kept states."""
    steps = range(1, 200_001)
    assert records_to_execute(steps, [0]) == list(steps)
    assert records_to_execute(steps[::2], range(200_001)) == list(steps[::2])


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
from receipt_runs import training
"""
OTHER_BATCHES = """
honest = training

def training():
    model, loss_fn, optimizer, batches, options = honest()
    return model, loss_fn, optimizer, ((x, (y + (i == 4)) % 3) for i, (x, y) in enumerate(batches)), options
"""


OTHER_RATE = """
honest = training

def training():
    model, loss_fn, optimizer, batches, options = honest()

    def changed():
        for batch in batches:
            optimizer.param_groups[0]["lr"] = 0.25
            yield batch
    return model, loss_fn, optimizer, changed(), options
"""
OTHER_WEIGHTS = """
honest = training

def training():
    made = honest()
    next(made[0].parameters()).data += 1
    return made
"""
INTERRUPTED = """
honest = training

def training():
    model, loss_fn, optimizer, batches, options = honest()

    def interrupted():
        yield next(batches)
        raise KeyboardInterrupt
    return model, loss_fn, optimizer, interrupted(), options
"""


def test_commands(capsys, monkeypatch, tmp_path: Path) -> None:
    script, path = tmp_path / "script.py", str(tmp_path / "run.receipt")
    script.write_text(SCRIPT.format(folder=str(Path(__file__).parent)))
    train_ = ["train", str(script), "--receipt", path, "--checkpoint-every", "3", "--leave-batches", "--threads", "1"]
    assert main([*train_, "--steps", "4"]) == 0
    assert f"receipt  {path}" in capsys.readouterr().out
    assert main([*train_, "--steps", "5"]) == 2
    assert "exists: resume it" in capsys.readouterr().err
    assert main([*train_, "--steps", "5", "--resume", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["steps"] == 5 and len(report["losses"]) == 1
    assert main([*train_, "--steps", "5", "--resume"]) == 0
    told = f"loss     {report['loss']:.6f} after 5 steps, all of which the receipt had"
    assert told in capsys.readouterr().out
    assert main(["verify", path]) == 2
    assert "does not store the batches: pass their script" in capsys.readouterr().err
    assert main(["verify", path, "--script", str(script), "--json"]) == 0
    verified = json.loads(capsys.readouterr().out)
    assert verified["right"] and verified["state_hash"] == report["state_hash"] and verified["verified_steps"] == 5
    assert main(["verify", path, "--script", str(script), "--steps", "5"]) == 0
    assert "right    1 of 5 steps, 1 run on cpu" in capsys.readouterr().out
    honest = script.read_text()
    script.write_text(honest + OTHER_BATCHES)
    assert main(["verify", path, "--script", str(script)]) == 1
    told = capsys.readouterr().out
    assert f"WRONG    step 5: input batch[1]: {script} gives other values than the receipt records: if they" in told
    assert "set a seed before the data is made" in told
    script.write_text(honest + OTHER_RATE)
    assert main(["verify", path, "--script", str(script)]) == 1
    assert f"step 1: input lr: the receipt records 0.005, {script} gives 0.25" in capsys.readouterr().out
    script.write_text(honest + OTHER_WEIGHTS)
    assert main(["verify", path, "--script", str(script)]) == 1
    assert f"initial: differs from that of {script}: if it differs with each run" in capsys.readouterr().out
    (tmp_path / "interrupted.py").write_text(honest + INTERRUPTED)
    with monkeypatch.context() as patch:
        words = ["train", str(tmp_path / "interrupted.py"), "--steps", "9", "--receipt", str(tmp_path / "cut")]
        patch.setattr(sys, "argv", ["repro", *words])
        assert main(words) == 130
    told = capsys.readouterr().err.splitlines()
    assert told[-2:] == [f"next     repro {' '.join(words)} --resume", "repro: interrupted"]
    assert main(["train", str(script), "--steps", "1", "--resume"]) == 2
    assert "expected --receipt DIR with --resume" in capsys.readouterr().err


def test_no_receipt(capsys, tmp_path: Path) -> None:
    assert main(["verify", str(tmp_path / "none")]) == 2
    assert "expected a receipt, but there is no such file or folder: check the path" in capsys.readouterr().err
    assert main(["verify", str(tmp_path)]) == 2
    message = (
        f"{tmp_path}: expected a receipt, which is a directory with a file receipt.json, got a directory without it"
    )
    assert message in capsys.readouterr().err


def test_arrays_of_a_record_are_aligned() -> None:
    kinds = [TensorType("rate", "f32", ()), TensorType("flag", "i1", ()), TensorType("classes", "i64", (3,))]
    arrays = [np.array(0.5, np.float32), np.array(True), np.arange(3)]
    read = StoredInputs(kinds).decode(StoredInputs(kinds).encode(arrays), "a record")
    for array, expected in zip(read, arrays, strict=True):
        assert array.flags.aligned and not array.flags.writeable and np.array_equal(array, expected)
