# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A NaN or infinite loss: the message to the user, the entry in the receipt, and the result of verification."""

import copy
import json
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
from repro_mlir.base.errors import NonFiniteLoss, ReceiptWrong
from repro_mlir.cli.main import main

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

GOOD = torch.ones(2, 3), torch.zeros(2, 1)
BAD = torch.full((2, 3), math.inf), torch.zeros(2, 1)


def trainer(**options) -> repro_mlir.Trainer:
    model = repro_mlir.initialize(torch.nn.Linear(3, 1), 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return repro_mlir.Trainer(model, torch.nn.functional.mse_loss, optimizer, target="reference", **options)


def test_a_stopped_receipt_stays_stopped(tmp_path: Path) -> None:
    """After a NaN or infinite loss has stopped a run with a receipt, the trainer refuses further steps, even from an
    earlier state."""
    model = repro_mlir.initialize(torch.nn.Linear(3, 2), 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.ones(4, 3), torch.tensor([0, 1, 0, 1])
    loss_fn, path = torch.nn.functional.cross_entropy, tmp_path / "run"
    with repro_mlir.Trainer(model, loss_fn, optimizer, nonfinite_loss="stop", receipt=path) as trainer:
        trainer.step(x, y)
        good = copy.deepcopy(trainer.state_dict())
        with pytest.raises(NonFiniteLoss):
            trainer.step(x * float("inf"), y)
        trainer.load_state_dict(good)
        with pytest.raises(NonFiniteLoss, match="the run has stopped"):
            trainer.step(x, y)
    assert repro_mlir.verify(path).steps == 2


def test_one_warning_by_default() -> None:
    run = trainer()
    run.step(*GOOD)
    with pytest.warns(RuntimeWarning, match=r"the loss of step 2 is (inf|nan)") as caught:
        run.step(*BAD)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(run.step(*GOOD))


def test_ignored() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not math.isfinite(trainer(nonfinite_loss="ignore").step(*BAD))


def test_the_run_stops() -> None:
    run = trainer(nonfinite_loss="stop")
    run.step(*GOOD)
    with pytest.raises(NonFiniteLoss, match=r"the loss of step 2 is (inf|nan): the run stops"):
        run.step(*BAD)
    state = run.state_hash()
    with pytest.raises(NonFiniteLoss, match="the run has stopped: the loss of step 2 is"):
        run.step(*GOOD)
    assert run.steps == 2 and run.state_hash() == state


def test_a_loss_in_bf16() -> None:
    model = repro_mlir.initialize(torch.nn.Linear(3, 1), 1).bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = repro_mlir.Trainer(model, torch.nn.functional.mse_loss, optimizer, target="reference", nonfinite_loss="stop")
    expected = torch.nn.functional.mse_loss(model(GOOD[0].bfloat16()), GOOD[1].bfloat16()).item()
    assert run.step(*(value.bfloat16() for value in GOOD)) == pytest.approx(expected, rel=2e-2)
    with pytest.raises(NonFiniteLoss):
        run.step(*(value.bfloat16() for value in BAD))


def test_another_choice() -> None:
    with pytest.raises(repro_mlir.ReproError, match="expected nonfinite_loss among warn, stop, ignore, got 'raise'"):
        trainer(nonfinite_loss="raise")


def test_a_receipt_contains_the_setting(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with pytest.raises(NonFiniteLoss):
        with trainer(nonfinite_loss="stop", receipt=path) as run:
            run.step(*GOOD)
            run.step(*BAD)
    receipt = repro_mlir.Receipt(path)
    assert receipt.header.nonfinite_loss == "stop" and receipt.log.steps == 2
    again = trainer(nonfinite_loss="stop", receipt=repro_mlir.ReceiptOptions(path, resume=True))
    # Resuming starts at the last stored state, so the step with the NaN runs again and stops the run again.
    with pytest.raises(NonFiniteLoss):
        again.fit([GOOD, BAD], 2)
    again.close()
    assert repro_mlir.verify(path, target="reference").steps == 2
    with pytest.raises(repro_mlir.ReproError, match="the run has stopped, as the loss of step 2 is"):
        trainer(nonfinite_loss="stop", receipt=repro_mlir.ReceiptOptions(path, resume=True)).prepare(*GOOD)
    with pytest.raises(repro_mlir.ReproError, match="nonfinite_loss='warn', as in this run, got 'stop'"):
        trainer(receipt=repro_mlir.ReceiptOptions(path, resume=True)).prepare(*GOOD)


def test_a_receipt_that_should_have_stopped_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from repro_mlir.verification.receipts import recorder

    header = recorder.Header

    def stopping(*given: Any, **named: Any) -> Any:
        return replace(header(*given, **named), nonfinite_loss="stop")

    monkeypatch.setattr(recorder, "Header", stopping)
    path = tmp_path / "run"
    with trainer(nonfinite_loss="ignore", receipt=path) as run:
        run.fit([GOOD, BAD, GOOD], 3)
    with pytest.raises(ReceiptWrong, match=r"continues after loss (inf|nan) with nonfinite_loss 'stop'") as caught:
        repro_mlir.verify(path, target="reference")
    assert caught.value.step == 2


SCRIPT = """
import torch, repro_mlir

def training():
    model = repro_mlir.initialize(torch.nn.Linear(3, 1), 1)
    batches = ((torch.full((2, 3), 1e30 if step == 1 else 1.0), torch.zeros(2, 1)) for step in range(9))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, torch.nn.functional.mse_loss, optimizer, batches, {"nonfinite_loss": "stop"}
"""


def test_scripts(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    script, receipt = tmp_path / "script.py", str(tmp_path / "run")
    script.write_text(SCRIPT)
    train = ["train", str(script), "--steps", "3", "--target", "reference", "--json"]
    assert main(train) == 2
    assert "the loss of step 2 is inf: the run stops" in capsys.readouterr().err
    assert main([*train, "--nonfinite-loss", "ignore", "--receipt", receipt]) == 0
    assert len(json.loads(capsys.readouterr().out)["losses"]) == 3
    assert main(["verify", receipt, "--target", "reference"]) == 0
    # The script asks to stop at a NaN, but the receipt has steps after the NaN.
    assert main(["verify", receipt, "--script", str(script), "--target", "reference"]) == 1
    assert "nonfinite_loss" in capsys.readouterr().out
