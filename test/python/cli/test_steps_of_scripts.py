# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""`repro train` says so if `training()` uses a parameter `steps` that keeps its default."""

from pathlib import Path

import pytest
from repro_mlir.cli.main import main

pytest.importorskip("torch_mlir")

SCRIPT = """
import torch

def batches(steps):
    for _ in range(steps):
        yield torch.ones(2, 3), torch.zeros(2, 1)

def training({parameters}):
    model = torch.nn.Linear(3, 1)
    return model, torch.nn.functional.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1), batches({given})
"""
LINE = (
    "repro: training() has steps=3, its default, and does not get --steps 2: a schedule over `steps` keeps its length"
)


@pytest.mark.parametrize(
    ("parameters", "given", "said"),
    [("steps: int = 3", "steps", True), ("steps: int = 2", "steps", False), ("steps: int = 3", "3", False)],
)
def test_a_default_of_steps(parameters: str, given: str, said: bool, tmp_path: Path, capsys) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(parameters=parameters, given=given))
    assert main(["train", str(script), "--steps", "2", "--target", "reference"]) == 0
    assert (LINE in capsys.readouterr().err.splitlines()) == said
