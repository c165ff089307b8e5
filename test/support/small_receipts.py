# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes receipts of a few steps of a small model: an honest receipt, and two receipts that differ from it."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
import repro_mlir
from repro_mlir.verification.receipts.options import ReceiptOptions
from repro_mlir.verification.receipts.recorder import Recorder

SCRIPT = """
import repro_mlir
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 8)
        self.outer = torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(x)))


def batches():
    generator = torch.Generator().manual_seed(1)
    while True:
        yield torch.randn(6, 4, generator=generator), torch.randint(0, 2, (6,), generator=generator)


def training():
    model = repro_mlir.initialize(Model(), seed=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, torch.nn.functional.cross_entropy, optimizer, batches()
"""

CHEATED = 5


def write_receipts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes the script and three receipts: `honest`; `cheat`, with a bit of the state flipped before step 5; and
    `rate`, with another learning rate from step 5 on."""
    (folder / "script.py").write_text(SCRIPT)
    for name in ("honest", "rate", "cheat"):
        given = _load(folder / "script.py").training()
        options = ReceiptOptions(folder / name, checkpoint_every=3)
        model, loss, optimizer, batches = given
        with repro_mlir.Trainer(model, loss, optimizer, target="reference", receipt=options) as trainer:
            for step in range(1, 9):
                if name == "cheat" and step == CHEATED:
                    # The recorder would refuse the changed state. A cheating user can disable this check.
                    monkeypatch.setattr(Recorder, "_note_change", lambda recorder: None)
                    weight = model.get_parameter("inner.weight").detach().numpy()
                    weight.view(np.uint32)[3, 2] ^= 1 << 20
                if name == "rate" and step == CHEATED:
                    optimizer.param_groups[0]["lr"] = 0.2
                trainer.step(*next(batches))


def _load(path: Path):
    spec = spec_from_file_location("dispute_script", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
