# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""PyTorch's schedulers and a weight decay that changes: the same bits on every target, and what eager mode trains."""

from collections.abc import Callable
from typing import Any

import pytest
import repro_mlir
import torch
from torch.optim.lr_scheduler import CyclicLR, OneCycleLR

pytest.importorskip("torch_mlir")

TARGETS = ("cpu", "cpu:x86-64-v2", "reference")
Make = Callable[[Any], tuple[torch.optim.Optimizer, Any]]


def _sgd(parameters: Any) -> tuple[torch.optim.Optimizer, Any]:
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)
    return optimizer, CyclicLR(optimizer, 0.01, 0.1, step_size_up=3, base_momentum=0.6, max_momentum=0.95)


def _adamw(parameters: Any) -> tuple[torch.optim.Optimizer, Any]:
    optimizer = torch.optim.AdamW(parameters, lr=0.1)
    return optimizer, OneCycleLR(optimizer, max_lr=0.05, total_steps=8)


def _train(make: Make, target: str | None) -> tuple[str, torch.Tensor]:
    """Hash of the state (None: eager mode, no hash) and the parameters after some steps."""
    torch.manual_seed(2)
    model = torch.nn.Linear(6, 3)
    optimizer, scheduler = make(model.parameters())
    loss_fn = torch.nn.functional.mse_loss
    trainer = repro_mlir.Trainer(model, loss_fn, optimizer, target=target) if target else None
    for number in range(6):
        x, y = torch.randn(4, 6), torch.randn(4, 3)
        optimizer.param_groups[0]["weight_decay"] = 0.01 * (number + 1)
        if trainer is not None:
            trainer.step(x, y)
        else:
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()
        scheduler.step()
    digest = ""
    if trainer is not None:
        digest = trainer.state_hash()
        trainer.sync()
    return digest, torch.cat([value.detach().reshape(-1) for value in model.parameters()])


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize("make", [_sgd, _adamw], ids=["sgd_cyclic", "adamw_one_cycle"])
def test_the_same_bits_on_every_target_and_near_eager(make: Make) -> None:
    found = [_train(make, target) for target in TARGETS]
    assert len({digest for digest, _ in found}) == 1
    _, eager = _train(make, None)
    torch.testing.assert_close(found[0][1], eager, rtol=1e-4, atol=1e-5)
