# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Receipts of microbatched steps (B4): any verifier can run the steps again, and replaced programs are detected."""

import shutil
import struct
from pathlib import Path
from typing import Any

import blake3
import pytest
import repro_mlir
import torch
from repro_mlir import Receipt, ReceiptOptions
from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.base.files import canonical_json

ROWS = 24
X = torch.randn(ROWS, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(ROWS) % 3


def trainer_of(path: Path, resume: bool = False, **options: Any) -> repro_mlir.Trainer:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 3)
    )
    return repro_mlir.Trainer(
        model,
        torch.nn.functional.cross_entropy,
        torch.optim.AdamW(model.parameters(), lr=1e-2),
        **{
            "receipt": ReceiptOptions(path, resume=resume, checkpoint_every=2),
            "microbatches": 4,
            "accumulate": 2,
            **options,
        },
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the receipt of three steps with two batch sizes and a change of the state by the user."""
    path = tmp_path_factory.mktemp("microbatches") / "run.receipt"
    with trainer_of(path) as trainer:
        trainer.step(X, Y)
        trainer.step(X[:8], Y[:8])
        with torch.no_grad():
            trainer._model[0].bias += 1.0
        trainer.step(X, Y)
    return path


@pytest.mark.parametrize("target", ["reference", "cpu:x86-64-v2", "ptx-emulator"])
def test_steps_are_run_again(recorded: Path, target: str) -> None:
    found = repro_mlir.verify(recorded, target=target)
    assert (found.steps, found.changes, found.sealed) == (3, 1, True)
    receipt = Receipt(recorded)
    assert [each.identity for each in receipt.header.programs] == [receipt.program_at(i).hash for i in range(2)]


def test_a_run_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.receipt", tmp_path / "cut.receipt"
    batches = [(X, Y), (X.flip(0), Y.flip(0))]
    with trainer_of(whole) as trainer:
        trainer.fit(batches, 5)
        want = trainer.state_hash()
    with pytest.raises(KeyboardInterrupt), trainer_of(cut) as trainer:
        trainer.fit(batches, 5, callbacks=[lambda trainer, loss: trainer.steps == 3 and _interrupt()])
    with trainer_of(cut, resume=True) as trainer:
        trainer.fit(batches, 5)
        assert trainer.state_hash() == want
    assert (cut / "steps.jsonl").read_bytes() == (whole / "steps.jsonl").read_bytes()
    repro_mlir.verify(cut, target="reference")


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_another_division_is_another_run(recorded: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.receipt"
    shutil.copytree(recorded, path)
    (path / "seal.json").unlink()
    with pytest.raises(ReproError, match="expected a receipt of this run's"):
        trainer_of(path, resume=True, accumulate=1).fit([(X, Y)], 5)


def planted(recorded: Path, path: Path, change: Any) -> Path:
    """Copies a receipt and applies `change` to the bytes of its first program. The header has the hash of the new
    bytes."""
    shutil.copytree(recorded, path)
    header = canonical_json.load((path / "receipt.json").read_bytes(), "receipt.json")
    assert isinstance(header, dict)
    listed = header["programs"][0]
    file = path / "programs" / f"{listed['identity']}.repro"
    data = change(file.read_bytes())
    file.write_bytes(data)
    listed["blake3"] = blake3.blake3(data).hexdigest()
    (path / "receipt.json").write_bytes(canonical_json.dump(header))
    return path


BEGIN = len(b"repro-microbatches-v1\0")


def number(position: int, value: int) -> Any:
    def change(data: bytes) -> bytes:
        at = BEGIN + 8 * position
        return data[:at] + struct.pack("<Q", value) + data[at + 8 :]

    return change


PLANTED: dict[str, tuple[Any, str]] = {
    "leaves": (number(0, 4), "microbatches divide|that takes the state"),
    "no leaves": (number(0, 0), "expected microbatches"),
    "many leaves": (number(0, 2**63), "expected microbatches"),
    "order of sums": (
        lambda data: number(1, 1)(number(0, 4)(data)),
        "expected the program of receipt.json, got another",
    ),
    "random": (number(2, 1), "expected the step of random numbers"),
    "no random": (number(2, 0), "expected the program of receipt.json, got another"),
    "far": (number(2, 2**64 - 1), "expected the step of random numbers"),
    "cuts": (number(3, 2**61), "end early"),
    "cut twice": (lambda data: number(4, 9)(number(3, 2)(data)), "ascending positions"),
    "length": (number(6, 2**63), "end early"),
    "short": (lambda data: data[: BEGIN + 9], "end early"),
    "nothing": (lambda data: data[:BEGIN], "end early"),
    "no programs": (lambda data: data[: BEGIN + 48] + struct.pack("<Q", 0), "expected a canonical program"),
    "one program": (lambda data: data[:-100], "expected a canonical program"),
}


@pytest.mark.parametrize("case", PLANTED)
def test_planted_programs_are_refused(case: str, recorded: Path, tmp_path: Path) -> None:
    change, message = PLANTED[case]
    receipt = Receipt(planted(recorded, tmp_path / "planted.receipt", change))
    with pytest.raises(ReceiptWrong, match=message):
        receipt.program_at(0)


SCRIPT = """
import torch

def training():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 3))
    x, y = torch.randn(48, 6), torch.arange(48) % 3
    batches = [(x[i : i + 24], y[i : i + 24]) for i in (0, 24)]
    options = {"microbatches": 4, "accumulate": ACCUMULATE}
    return model, torch.nn.functional.cross_entropy, torch.optim.AdamW(model.parameters()), batches, options
"""


def test_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`repro train` uses the number of microbatches that the script's `training()` returns. `repro verify --script`
    compares it with the receipt's."""
    from repro_mlir.cli.main import main

    script, other = tmp_path / "script.py", tmp_path / "other.py"
    script.write_text(SCRIPT.replace("ACCUMULATE", "2"))
    other.write_text(SCRIPT.replace("ACCUMULATE", "1"))
    path = str(tmp_path / "run.receipt")
    assert main(["train", str(script), "--steps", "3", "--receipt", path]) == 0
    assert main(["verify", path, "--script", str(script), "--target", "reference"]) == 0
    assert main(["verify", path, "--script", str(other)]) == 1
    assert f"WRONG    program: differs from that of {other}" in capsys.readouterr().out
    assert main(["compile", str(script), "-o", str(tmp_path / "step.repro")]) == 2
    assert "expected a script without microbatches, whose step is one program" in capsys.readouterr().err
    assert main(["diff", str(script), "--targets", "cpu:x86-64-v2,reference", "--steps", "2"]) == 0
    assert main(["diff", str(script), "--targets", "eager,reference"]) == 2
    assert "eager has no step in microbatches" in capsys.readouterr().err
