# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A receipt does not reveal the folders of the machine that recorded it."""

from pathlib import Path

import pytest
import repro_mlir
from repro_mlir.cli.main import main

pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

MODEL = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)

    def forward(self, x):
        return torch.tanh(self.inner(x))
"""
SCRIPT = """
import repro_mlir
import torch
from parts.model import Model


def training():
    model = repro_mlir.initialize(Model(), seed=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, lambda out, y: torch.square(out - y).mean(), optimizer, [(torch.ones(2, 2), torch.ones(2, 2))] * 2
"""


def test_names_of_source_files_are_relative_to_the_script(tmp_path: Path, capsys) -> None:
    secret = tmp_path / "somebody's folder"
    (secret / "parts").mkdir(parents=True)
    (secret / "parts" / "model.py").write_text(MODEL)
    (secret / "script.py").write_text(SCRIPT)
    receipt = tmp_path / "run"
    assert main(["train", str(secret / "script.py"), "--steps", "2", "--receipt", str(receipt), "--threads", "1"]) == 0
    assert main(["compile", str(secret / "script.py"), "-o", str(tmp_path / "program.repro")]) == 0
    text = repro_mlir.Receipt(receipt).program.text
    assert '"parts/model.py":11:' in text and '"script.py":' in text
    files = [tmp_path / "program.repro", *(path for path in receipt.rglob("*") if path.is_file())]
    for path in files:
        data = path.read_bytes()
        assert secret.name.encode() not in data and str(Path.home()).encode() + b"/" not in data, path
        assert b'"/' not in data, path
