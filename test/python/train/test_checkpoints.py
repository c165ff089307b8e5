# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""`Trainer.state_dict` and the files that store it: a resumed run has the state of an uninterrupted run."""

import copy
import errno
import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
from repro_mlir import ReproError
from repro_mlir.verification.receipts.receipt import Receipt
from support.forked_python import run_python

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

cross_entropy = torch.nn.functional.cross_entropy


def new_trainer(seed: int = 3, width: int = 6, optimizer: Callable = torch.optim.AdamW, **options: Any) -> Any:
    layers = torch.nn.Linear(4, width), torch.nn.BatchNorm1d(width), torch.nn.Dropout(0.3), torch.nn.Linear(width, 3)
    model = repro_mlir.initialize(torch.nn.Sequential(*layers), 1)
    options = {"target": "reference"} | options
    return repro_mlir.Trainer(model, cross_entropy, optimizer(model.parameters(), lr=0.01), seed=seed, **options)


def batches(used: int = 0) -> Iterator[tuple]:
    """Yields batches of shuffled data, without the first `used` ones."""
    data = torch.arange(160, dtype=torch.float32).reshape(40, 4) / 64
    for step, chosen in enumerate(repro_mlir.batches(40, 5)):
        if step >= used:
            yield data[chosen], torch.from_numpy(chosen % 3)


def expected_hash(steps: int = 7) -> str:
    trainer = new_trainer()
    trainer.fit(batches(), steps)
    return trainer.state_hash()


ANOTHER_PROCESS = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import test_checkpoints as run

trainer = run.new_trainer(seed=99)
if sys.argv[3] == "torch":
    trainer.load_state_dict(torch.load(sys.argv[2]))
else:
    trainer.load_checkpoint(sys.argv[2])
trainer.fit(run.batches(trainer.cursor), 7 - trainer.steps)
print(trainer.steps, trainer.cursor, trainer.state_hash())
"""


@pytest.mark.parametrize("form", ["torch", "safetensors"])
@pytest.mark.diagonal(form=["safetensors"])
def test_another_process_goes_on(form: str, tmp_path: Path) -> None:
    trainer = new_trainer()
    trainer.fit(batches(), 4)
    path = tmp_path / "checkpoint"
    if form == "torch":
        torch.save(trainer.state_dict(), path)
    else:
        trainer.save_checkpoint(path)
    done = run_python(["-c", ANOTHER_PROCESS, str(Path(__file__).parent), str(path), form])
    assert done.stdout.split() == ["7", "7", expected_hash()], done.stderr


def test_a_failed_step_has_taken_its_batch() -> None:
    trainer = new_trainer()
    x, y = next(batches())
    trainer.step(x, y)
    with pytest.raises(repro_mlir.base.errors.StepFailed):
        trainer.step(x, y + 7)
    assert (trainer.steps, trainer.cursor) == (1, 2) and trainer.state_dict()["cursor"] == 2


@pytest.mark.parametrize("target", ["cpu", "ptx-emulator"])
def test_the_same_process_goes_back(target: str) -> None:
    trainer = new_trainer(target=target)
    trainer.fit(batches(), 3)
    saved = copy.deepcopy(trainer.state_dict())
    trainer.fit(batches(3), 2)
    trainer.load_state_dict(saved)
    assert (trainer.steps, trainer.cursor) == (3, 3)
    trainer.fit(batches(3), 4)
    assert trainer.state_hash() == expected_hash()


def test_before_the_first_step() -> None:
    trainer = new_trainer()
    other = new_trainer(seed=4)
    other.load_state_dict(trainer.state_dict())
    other.fit(batches(), 7)
    assert other.state_hash() == expected_hash()


def test_two_trainers_share_nothing_after_loading() -> None:
    trainer, other = new_trainer(), new_trainer()
    trainer.fit(batches(), 3)
    other.load_state_dict(trainer.state_dict())
    trainer.fit(batches(), 2)
    other.fit(batches(3), 4)
    assert other.state_hash() == expected_hash()


@pytest.mark.parametrize("target", ["reference", "ptx-emulator"])
def test_a_receipt_begins_with_the_loaded_state(target: str, tmp_path: Path) -> None:
    """A receipt counts the steps after the state that was loaded. The trainer and its next checkpoint count from the
    start of the first run."""
    trainer = new_trainer()
    trainer.fit(batches(), 3)
    state = trainer.state_dict()
    with new_trainer(receipt=tmp_path / "run", target=target) as other:
        other.load_state_dict(state)
        other.fit(batches(3), 2)
        x, y = next(batches())
        with pytest.raises(repro_mlir.base.errors.StepFailed):
            other.step(x, y + 7)
        assert (other.steps, other.cursor) == (5, 6)
        other.fit(batches(5), 2)
        saved = other.state_dict()
    assert (saved["steps"], saved["cursor"], saved["random_step"]) == (7, 8, 7)
    found = repro_mlir.verify(tmp_path / "run", target="reference")
    assert found.state_hash == expected_hash() and found.steps == 4
    receipt = Receipt(tmp_path / "run")
    assert [receipt.log[record].commitment.cursor for record in range(1, 5)] == [1, 2, 4, 5]
    assert receipt.state_after(0)["step"] == 3
    after = new_trainer(seed=5)
    after.load_state_dict(saved)
    after.fit(batches(7), 1)
    assert (after.steps, after.state_hash()) == (8, expected_hash(8))


def test_a_receipt_of_a_loaded_state_is_resumed(tmp_path: Path) -> None:
    trainer = new_trainer()
    trainer.fit(batches(), 2)

    def again(steps: int) -> Any:
        receipt = repro_mlir.ReceiptOptions(tmp_path / "run", checkpoint_every=2, resume=True)
        other = new_trainer(receipt=receipt)
        other.load_state_dict(trainer.state_dict())
        assert len(other.fit(batches(2), steps)) == 3
        return other

    # The run is interrupted after its third step, whose state is not stored.
    again(3).__exit__(KeyboardInterrupt, None, None)
    with again(5) as other:
        assert (other.steps, other.cursor, other.state_hash()) == (7, 7, expected_hash())
    assert repro_mlir.verify(tmp_path / "run", target="reference").steps == 5


def test_equal_states_give_equal_files(tmp_path: Path) -> None:
    files = []
    for name in ("one", "other"):
        trainer = new_trainer(optimizer=lambda p, lr: torch.optim.AdamW(p, lr=torch.tensor(lr), betas=(0.8, 0.9)))
        trainer.fit(batches(), 2)
        trainer.save_checkpoint(tmp_path / name)
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1]
    trainer.load_checkpoint(tmp_path / "one")
    (group,) = trainer._optimizer.param_groups
    assert group["betas"] == (0.8, 0.9) and torch.equal(group["lr"], torch.tensor(0.01))
    safetensors = pytest.importorskip("safetensors.torch", reason="only compared with")
    assert torch.equal(safetensors.load_file(tmp_path / "one")["model.0.weight"], trainer._model[0].weight)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_another_nan_in_state_that_a_step_keeps(target: str, tmp_path: Path) -> None:
    """(V4) A buffer that the step does not read contains a NaN with a payload; hashes and files contain the canonical
    NaN."""
    nans = torch.tensor([0x7FC00000, 0x7FC00001], dtype=torch.int32).view(torch.float32)
    hashes, files = [], []
    for number, nan in enumerate(nans):
        trainer = new_trainer(target=target)
        trainer._model.register_buffer("spare", torch.zeros(2))
        trainer.step(*next(batches()))
        trainer._model.spare[1] = nan
        trainer.step(*next(batches(1)))
        assert trainer.state["spare"].view("u4").tolist() == [0, nan.view(torch.int32).item()]
        hashes.append(trainer.state_hash())
        trainer.save_checkpoint(tmp_path / str(number))
        trainer.load_checkpoint(tmp_path / str(number))
        files.append((tmp_path / str(number)).read_bytes())
    assert len(set(hashes)) == len(set(files)) == 1


def without(key: str) -> Callable[[dict], None]:
    return lambda state: state.pop(key) and None


def change(*keys: Any, to: Any) -> Callable[[dict], None]:
    def apply(state: dict) -> None:
        for key in keys[:-1]:
            state = state[key]
        state[keys[-1]] = to

    return apply


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (without("seed"), "expected a state of Trainer.state_dict"),
        (change("steps", to=-1), "steps: expected a whole number of 64 bits, got -1"),
        (change("cursor", to="3"), "cursor: expected a whole number of 64 bits, got '3'"),
        (change("random_step", to=2**63), "random_step: expected a whole number of 64 bits, got 9223372036854775808"),
        (change("format", to=2), "expected format 1 of a trainer's state, got 2"),
        (change("model", to=[]), "model: expected a state_dict, got a list"),
        (change("model", "4.weight", to=torch.zeros(1)), "model: unexpected 4.weight"),
        (
            change("model", "0.bias", to=torch.zeros(5)),
            r"0.bias: expected shape \[6\] of torch.float32, got shape \[5\]",
        ),
        (change("model", "0.bias", to=torch.zeros(6).double()), "got shape .* of torch.float64"),
        (change("optimizer", to={}), "optimizer: expected a state_dict"),
        (change("optimizer", "param_groups", to=[]), "expected 1 parameter groups of the optimizer, got 0"),
        (change("optimizer", "param_groups", 0, "params", to=[0]), "parameter group 0: expected the 6 parameters"),
        (change("optimizer", "param_groups", 0, to={"params": [*range(6)]}), "the checkpoint is of another optimizer"),
        (change("optimizer", "state", 77, to={}), "optimizer: expected state of the parameters 0 to 5, got 77"),
        (change("optimizer", "state", 0, "exp_avg", to=torch.zeros(2)), "state exp_avg of parameter 0: expected shape"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(damage: Callable, message: str) -> None:
    trainer = new_trainer()
    trainer.step(*next(batches()))
    state = copy.deepcopy(trainer.state_dict())
    state["model"]["0.weight"].zero_()
    damage(state)
    before = trainer.state_hash()
    with pytest.raises(ReproError, match=message):
        trainer.load_state_dict(state)
    assert trainer.state_hash() == before and trainer.steps == 1


def test_damaged_files(tmp_path: Path) -> None:
    trainer = new_trainer()
    trainer.step(*next(batches()))
    path = tmp_path / "checkpoint"
    with pytest.raises(ReproError, match=r"cannot read .*: No such file"):
        trainer.load_checkpoint(path)
    with pytest.raises(ReproError, match=r"cannot write .*: No such file"):
        trainer.save_checkpoint(path / "deeper")
    with pytest.raises(ReproError, match=r"expected a name that ends in \.safetensors, got \.pt: give another"):
        trainer.save_checkpoint(tmp_path / "checkpoint.pt")
    torch.save(trainer.state_dict(), path)
    with pytest.raises(ReproError, match=r"load_state_dict\(torch.load\(file\)\)"):
        trainer.load_checkpoint(path)
    with pytest.raises(ReproError, match=r"cannot write \S*/none/file: No such"):
        trainer.save_checkpoint(tmp_path / "none" / "file")
    trainer.save_checkpoint(path)
    whole = path.read_bytes()
    before = trainer.state_hash()
    (size,) = struct.unpack_from("<Q", whole)
    header = json.loads(whole[8 : 8 + size])
    del header["__metadata__"]
    bare = json.dumps(header).encode()
    for data in (b"", whole[:100], whole[:-4], b"{}" + whole, struct.pack("<Q", len(bare)) + bare + whole[8 + size :]):
        path.write_bytes(data)
        with pytest.raises(ReproError, match="expected"):
            trainer.load_checkpoint(path)
    assert trainer.state_hash() == before


def test_a_file_that_cannot_be_written_replaces_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = new_trainer()
    path = tmp_path / "state.safetensors"
    trainer.save_checkpoint(path)
    former = path.read_bytes()
    trainer.step(*next(batches()))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(ReproError, match="No space left on device"):
        patch.setattr(os, "fsync", full)
        trainer.save_checkpoint(path)
    assert path.read_bytes() == former
    link = tmp_path / "link"
    link.symlink_to(path)
    trainer.save_checkpoint(link)
    assert link.is_symlink() and path.read_bytes() != former
    victim = tmp_path / "victim"
    victim.write_text("kept")
    Path(f"{path}.partial").unlink(missing_ok=True)
    Path(f"{path}.partial").symlink_to(victim)
    for place in (path, tmp_path, "/dev/null"):
        with pytest.raises(ReproError, match="expected a regular file"):
            trainer.save_checkpoint(place)
    assert victim.read_text() == "kept"


def test_loading_that_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = new_trainer()
    trainer.fit(batches(), 3)
    saved = copy.deepcopy(trainer.state_dict())
    with monkeypatch.context() as patch:
        patch.setattr(trainer._optimizer, "load_state_dict", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            trainer.load_state_dict(saved)
    with pytest.raises(ReproError, match="loading a state was interrupted: call load_state_dict again"):
        trainer.step(*next(batches()))
    trainer.load_state_dict(saved)
    trainer.fit(batches(3), 4)
    assert trainer.state_hash() == expected_hash()
