# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""`repro inputs` writes the files that `repro run` reads, and `repro run` then computes the same steps as training."""

import json
from pathlib import Path

import numpy as np
import pytest
from repro_mlir.cli.main import main

pytest.importorskip("torch")

SCRIPT = """
import repro_mlir, torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(6, 5)
        self.linear = torch.nn.Linear(5, 3)

    def forward(self, batch):
        return self.linear(self.embedding(batch["words"]) + batch["noise"].float())

def training():
    torch.manual_seed(0)
    model = repro_mlir.initialize(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    def batches():
        for _ in range(3):
            optimizer.param_groups[0]["lr"] *= 0.5
            words, noise = torch.randint(6, (4,)), torch.randn(4, 5, dtype=torch.bfloat16)
            yield {"words": words, "noise": noise}, torch.randint(3, (4,))
    return model, torch.nn.functional.cross_entropy, optimizer, batches()
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


def output(capsys: pytest.CaptureFixture[str]) -> dict:
    report: dict = json.loads(capsys.readouterr().out)
    return report


def test_run_reads_the_files_of_inputs(capsys: pytest.CaptureFixture[str], tmp_path: Path, script: str) -> None:
    """Runs three single steps, each from the state that the previous one wrote. The last state is that of training for
    three steps."""
    program, batch, state = (str(tmp_path / name) for name in ("p.repro", "batch.npz", "state"))
    assert main(["compile", script, "-o", program, "--json"]) == 0
    identity = output(capsys)["program"]
    for number in (1, 2, 3):
        assert main(["inputs", script, "-o", batch, "--batch", str(number), "--json"]) == 0
        assert output(capsys)["program"] == identity
        before = ["--state", state] if number > 1 else []
        assert main(["run", program, "--inputs", batch, *before, "--save", state, "--json"]) == 0
        found = output(capsys)["state_hash"]
    assert main(["train", script, "--steps", "3", "--json"]) == 0
    assert output(capsys)["state_hash"] == found


def test_output_of_inputs(capsys: pytest.CaptureFixture[str], tmp_path: Path, script: str) -> None:
    batch = tmp_path / "batch.npz"
    assert main(["inputs", script, "-o", str(batch)]) == 0
    shown = capsys.readouterr().out
    with np.load(batch) as arrays:
        assert arrays["lr"] == np.float32(0.05)
        for name in arrays.files:
            assert f" {name}: " in shown
    first = batch.read_bytes()
    assert main(["inputs", script, "-o", str(batch)]) == 0
    assert batch.read_bytes() == first


def test_mistakes(capsys: pytest.CaptureFixture[str], tmp_path: Path, script: str) -> None:
    for arguments, message in (
        (["-o", str(tmp_path / "b"), "--batch", "4"], "expected training() to yield 4 batches, got 3"),
        (["-o", str(tmp_path / "b"), "--batch", "0"], "expected a whole number of at least 1, got '0'"),
        (["-o", str(tmp_path / "no" / "b")], "cannot write"),
        ([], "the following arguments are required: -o/--output"),
    ):
        assert main(["inputs", script, *arguments]) == 2
        assert message in capsys.readouterr().err
