# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Records receipts of a small model with dropout, batch norm, AdamW, gradient clipping and a changing learning rate."""

import filecmp
from collections.abc import Iterator
from pathlib import Path

import pytest
import repro_mlir

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

STEPS = 8
EVERY = 3


def training(steps: int = STEPS) -> tuple:
    """Returns model, loss function, optimizer, batches and options, as `training()` in a user's script does."""
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(6, 3)
    )
    repro_mlir.initialize(model, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def batches() -> Iterator[tuple]:
        data = torch.arange(160, dtype=torch.float32).reshape(40, 4) / 64
        for step, chosen in enumerate(repro_mlir.batches(40, 5)):
            optimizer.param_groups[0]["lr"] = repro_mlir.cosine_with_warmup(step, peak=0.01, warmup=2, total=100)
            yield data[chosen], torch.from_numpy(chosen % 3)

    return model, torch.nn.functional.cross_entropy, optimizer, batches(), {"clip_norm": 1.0, "seed": 5}


def train(receipt: repro_mlir.ReceiptOptions, steps: int = STEPS, target: str = "cpu") -> repro_mlir.Trainer:
    """Trains `steps` steps and records them in a receipt. Returns the trainer."""
    model, loss_fn, optimizer, batches, options = training()
    with repro_mlir.Trainer(model, loss_fn, optimizer, target=target, threads=2, receipt=receipt, **options) as trainer:
        trainer.fit(batches, steps)
    return trainer


def same_files(one: Path, other: Path) -> bool:
    """Returns whether two directories contain the same files with the same bytes."""
    names = sorted(str(path.relative_to(one)) for path in one.rglob("*") if path.is_file())
    others = sorted(str(path.relative_to(other)) for path in other.rglob("*") if path.is_file())
    return names == others and filecmp.cmpfiles(one, other, names, shallow=False)[0] == names
