# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A training script for tests of commands, and the identity of the program that a command captures from it."""

from __future__ import annotations

import json

import pytest
from repro_mlir.cli.main import main

SMALL_SCRIPT = """
import torch

def training():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.ones(3, 4), torch.zeros(3, 2)
    return model, torch.nn.functional.mse_loss, optimizer, [batch] * 9, {options}
"""


def program_of_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Runs a command on the target cpu and returns the identity of the only program in its JSON report."""
    assert main([*arguments, "--target", "cpu", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    (identity,) = report["programs"] if "programs" in report else [report["program"]]
    return identity
