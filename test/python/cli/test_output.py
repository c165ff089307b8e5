# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The end of the output of commands: the files that they have written, and a command to type next, which works."""

import shlex
from pathlib import Path

import pytest
from repro_mlir.cli.main import main

SCRIPT = """
import torch
from torch import nn

def training():
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    batches = [(torch.randn(4, 3), torch.randn(4, 2))]
    return model, nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1), batches
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


def lines(capsys, *arguments: str) -> list[str]:
    assert main(arguments) == 0
    return capsys.readouterr().out.splitlines()


def next_command(found: list[str]) -> list[str]:
    program, *words = shlex.split(found[-1].removeprefix("next     "))
    assert found[-1].startswith("next     ") and program == "repro"
    return words


def test_train_and_verify(capsys, script: str, tmp_path: Path) -> None:
    receipt, state = str(tmp_path / "my receipt"), str(tmp_path / "state")
    found = lines(capsys, "train", script, "--steps", "1", "--receipt", receipt, "--save", state)
    assert found[0].startswith("loss     ") and " after 1 step (first " in found[0]
    assert f"receipt  {receipt}" in found and f"file     {state}" in found
    assert lines(capsys, *next_command(found))[0].startswith("right    1 of 1 step")


def test_compile_and_inspect(capsys, script: str, tmp_path: Path) -> None:
    path = str(tmp_path / "a program")
    found = lines(capsys, "compile", script, "-o", path)
    assert f"file     {path}" in found
    assert lines(capsys, *next_command(found))[0].startswith("program  ")
    inputs = lines(capsys, "inputs", script, "-o", str(tmp_path / "inputs.npz"))
    words = [path if word == "PROGRAM" else word for word in next_command(inputs)]
    assert lines(capsys, *words)[-1].endswith(" after 1 step")
    assert lines(capsys, *words, "--steps", "2")[-1].endswith(" after 2 steps")
