# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A run that nobody ends leaves a receipt without a seal: a warning and `repro verify` say what to do."""

import gc
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import repro_mlir
import torch
from repro_mlir import Trainer
from repro_mlir.cli.main import main

_SCRIPT = """
import torch
import repro_mlir

model = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters())
trainer = repro_mlir.Trainer(model, torch.nn.MSELoss(), optimizer, target="reference", receipt="run.receipt")
trainer.step(torch.ones(4, 3), torch.ones(4, 2))
"""


def test_the_end_of_the_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(_SCRIPT)
    found = subprocess.run([sys.executable, "mine.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0
    warned = [line for line in found.stderr.splitlines() if "RuntimeWarning" in line]
    assert len(warned) == 1 and "mine.py:7: RuntimeWarning: run.receipt has no seal" in warned[0]
    assert "with statement" in warned[0] and "close()" in warned[0]
    receipt = str(tmp_path / "run.receipt")
    assert main(["verify", receipt, "--target", "reference"]) == 2
    told = capsys.readouterr().err
    assert "expected a run that has ended" in told
    assert all(text in told for text in ("with statement", "close()", "--unfinished")) and "get the receipt" not in told
    assert main(["verify", receipt, "--target", "reference", "--unfinished"]) == 0


def _left(trainer: Trainer) -> None:
    trainer.step(torch.ones(4, 3), torch.ones(4, 2))


def _closed(trainer: Trainer) -> None:
    _left(trainer)
    trainer.close()


def _in_with(trainer: Trainer) -> None:
    with trainer:
        _left(trainer)


def _failed(trainer: Trainer) -> None:
    with pytest.raises(KeyboardInterrupt), trainer:
        _left(trainer)
        raise KeyboardInterrupt


@pytest.mark.parametrize(("use", "count"), [(_left, 1), (_closed, 0), (_in_with, 0), (_failed, 0)])
def test_a_trainer_that_is_collected(tmp_path: Path, use: Callable[[Trainer], None], count: int) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use(Trainer(model, torch.nn.MSELoss(), optimizer, target="reference", receipt=tmp_path / "run"))
        gc.collect()
    found = [str(each.message) for each in caught if "has no seal" in str(each.message)]
    assert len(found) == count and all(str(tmp_path / "run") in text for text in found)


def test_a_trainer_without_steps_leaves_no_warning(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        repro_mlir.Trainer(model, None, torch.optim.SGD(model.parameters()), receipt=tmp_path / "run")
        gc.collect()
    assert not (tmp_path / "run").exists()
