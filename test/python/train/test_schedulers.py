# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""PyTorch's schedulers and a changing weight decay: the bits are equal on every target, the values are near those of
eager mode, and PyTorch's warnings are issued."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
import torch
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts, CyclicLR, LinearLR, OneCycleLR, SequentialLR, StepLR

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
    """Trains six steps on a target, or in eager mode if it is None. Returns the hash of the state ("" in eager mode)
    and the parameters."""
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


@pytest.mark.parametrize("make", [_sgd, _adamw], ids=["sgd_cyclic", "adamw_one_cycle"])
def test_the_same_bits_on_every_target_and_near_eager(make: Make) -> None:
    found = [_train(make, target) for target in TARGETS]
    assert len({digest for digest, _ in found}) == 1
    _, eager = _train(make, None)
    torch.testing.assert_close(found[0][1], eager, rtol=1e-4, atol=1e-5)


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.1),
}
SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "step": lambda optimizer: StepLR(optimizer, 2),
    "restarts": lambda optimizer: CosineAnnealingWarmRestarts(optimizer, 2),
    "sequential": lambda optimizer: SequentialLR(
        optimizer, [LinearLR(optimizer, 0.5, total_iters=2), StepLR(optimizer, 2)], [2]
    ),
}
BATCH = torch.ones(4, 6), torch.ones(4, 3)


def _trainer(optimizer: str, target: str = "cpu") -> tuple[torch.optim.Optimizer, repro_mlir.Trainer]:
    model = torch.nn.Linear(6, 3)
    made = OPTIMIZERS[optimizer](model.parameters())
    return made, repro_mlir.Trainer(model, torch.nn.functional.mse_loss, made, target=target, threads=1)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_no_warning_where_a_step_was_run(optimizer: str, scheduler: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made, trainer = _trainer(optimizer)
        schedule = SCHEDULERS[scheduler](made)
        for _ in range(3):
            trainer.step(*BATCH)
            schedule.step()


def test_no_warning_on_a_device() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made, trainer = _trainer("sgd", "ptx-emulator")
        schedule = StepLR(made, 2)
        trainer.step(*BATCH)
        schedule.step()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_no_warning_after_a_state_was_loaded(optimizer: str, tmp_path: Path) -> None:
    _, trainer = _trainer(optimizer)
    trainer.step(*BATCH)
    trainer.save_checkpoint(tmp_path / "run.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made, trainer = _trainer(optimizer)
        trainer.load_checkpoint(tmp_path / "run.safetensors")
        schedule = StepLR(made, 2)
        trainer.step(*BATCH)
        schedule.step()


@pytest.mark.parametrize("kind", ["receipt", "checkpoint"])
def test_a_resumed_run_has_the_rates_of_a_whole_run(kind: str, tmp_path: Path) -> None:
    def begin(**options: Any) -> tuple[repro_mlir.Trainer, StepLR]:
        model = repro_mlir.initialize(torch.nn.Linear(6, 3), 1)
        made = OPTIMIZERS["adamw"](model.parameters())
        trainer = repro_mlir.Trainer(model, torch.nn.functional.mse_loss, made, target="reference", **options)
        return trainer, StepLR(made, 2, 0.5)

    def go_on(trainer: repro_mlir.Trainer, schedule: StepLR, steps: int) -> str:
        while trainer.steps < steps:
            trainer.step(*BATCH)
            schedule.step()
        return trainer.state_hash()

    wanted = go_on(*begin(), 5)
    receipt = repro_mlir.ReceiptOptions(tmp_path / "run.receipt", checkpoint_every=2) if kind == "receipt" else None
    with warnings.catch_warnings(), pytest.raises(KeyboardInterrupt), begin(receipt=receipt)[0] as trainer:
        schedule = StepLR(trainer._optimizer, 2, 0.5)
        trainer.prepare(*BATCH)
        go_on(trainer, schedule, 3)
        trainer.save_checkpoint(tmp_path / "run.safetensors")
        saved = schedule.state_dict()
        raise KeyboardInterrupt
    if receipt is not None:
        receipt = repro_mlir.ReceiptOptions(tmp_path / "run.receipt", checkpoint_every=2, resume=True)
    trainer, schedule = begin(receipt=receipt)
    with trainer, warnings.catch_warnings():
        warnings.simplefilter("error")
        if receipt is None:
            trainer.load_checkpoint(tmp_path / "run.safetensors")
            schedule.load_state_dict(saved)
        else:
            trainer.prepare(*BATCH)
            for _ in range(trainer.steps):
                schedule.step()
        assert go_on(trainer, schedule, 5) == wanted


@pytest.mark.parametrize("receipt", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_warning_where_no_step_was_run(optimizer: str, receipt: bool, tmp_path: Path) -> None:
    model = torch.nn.Linear(6, 3)
    made = OPTIMIZERS[optimizer](model.parameters())
    trainer = repro_mlir.Trainer(
        model, torch.nn.functional.mse_loss, made, receipt=tmp_path / "run.receipt" if receipt else None
    )
    schedule = StepLR(made, 2)
    trainer.prepare(*BATCH)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step"):
        schedule.step()
