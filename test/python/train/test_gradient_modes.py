# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A step has the same bits under `no_grad` and similar modes, and sets `grad` of the parameters if requested."""

from collections.abc import Callable
from typing import Any

import pytest
import repro_mlir
import torch
from eager_trainer import EagerTrainer
from repro_mlir import Trainer
from torch import nn

pytest.importorskip("torch_mlir")

F = nn.functional
X = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(1))
Y = X[..., :3].argmax(-1)


def _make(make: Callable[..., Any] = Trainer, **options: Any) -> tuple[nn.Module, Any]:
    layers = nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)
    model = repro_mlir.initialize(nn.Sequential(*layers), 1)
    return model, make(model, F.cross_entropy, torch.optim.Adam(model.parameters(), 0.02), **options)


@pytest.mark.parametrize("mode", [torch.no_grad, lambda: torch.set_grad_enabled(False), torch.inference_mode])
@pytest.mark.diagonal(mode=[torch.no_grad, torch.inference_mode])
def test_a_step_has_gradients_in_every_mode(mode: Callable[[], Any]) -> None:
    found = []
    for context in (torch.enable_grad, mode):
        _, trainer = _make(threads=1)
        with context():
            losses = [trainer.step(x.clone(), y) for x, y in zip(X, Y, strict=True)]
            losses.append(trainer.evaluate(X[0].clone(), Y[0]))
            losses.append(trainer.step(X[0], Y[0], returns=("outputs",)).loss)
        # Outside of this mode, the same program is used.
        losses += [trainer.step(X[1], Y[1]), trainer.evaluate(X[0], Y[0])]
        found.append((losses, trainer.state_hash()))
    assert found[0] == found[1]


def test_gradients_are_set_where_they_are_returned() -> None:
    wanted, eager = _make(EagerTrainer)
    always, one = _make(threads=1, returns=("gradients",))
    asked, other = _make(threads=1)
    for x, y in zip(X, Y, strict=True):
        eager.step(x, y)
        assert isinstance(one.step(x, y), float)
        result = other.step(x, y, returns=("gradients",))
        for model in (always, asked):
            for mine, theirs in zip(model.parameters(), wanted.parameters(), strict=True):
                torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-5)
        assert result.gradients["0.weight"] is asked[0].weight.grad
    assert one.state_hash() == other.state_hash()
    always[0].requires_grad_(False)
    one.step(X[0], Y[0])
    assert always[0].weight.grad is None
    assert always[2].weight.grad is not None


def test_without_being_asked_for_there_are_none() -> None:
    model, trainer = _make(threads=1)
    trainer.step(X[0], Y[0])
    assert all(parameter.grad is None for parameter in model.parameters())
