# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Averages of the parameters, updated within the step, match those that `update_parameters` computes after each eager
step."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
import torch
from random_batches import random_batches
from repro_mlir import ReceiptOptions, Trainer
from torch import nn
from torch.optim.swa_utils import (
    AveragedModel,
    get_ema_avg_fn,
    get_ema_multi_avg_fn,
    get_swa_avg_fn,
    get_swa_multi_avg_fn,
)

pytest.importorskip("torch_mlir")

F = nn.functional
TARGETS = ("cpu", "cpu:x86-64-v2", "reference", "ptx-emulator")
AVERAGES: dict[str, Callable[[nn.Module], AveragedModel]] = {
    "swa": AveragedModel,
    "swa_multi": lambda model: AveragedModel(model, multi_avg_fn=get_swa_multi_avg_fn()),
    "swa_single": lambda model: AveragedModel(model, avg_fn=get_swa_avg_fn()),
    "ema": lambda model: AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9)),
    "ema_single": lambda model: AveragedModel(model, avg_fn=get_ema_avg_fn(0.9)),
    "ema_buffers": lambda model: AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.6), use_buffers=True),
    "own": lambda model: AveragedModel(model, avg_fn=lambda old, new, count: old + (new - old) / (count + 3)),
}


def _model() -> nn.Module:
    return repro_mlir.initialize(nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)), 4)


def _make(average: str, **options: Any) -> tuple[nn.Module, AveragedModel, Trainer]:
    model = _model()
    made = AVERAGES[average](model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, made, Trainer(model, F.cross_entropy, optimizer, threads=1, average=made, **options)


@pytest.mark.parametrize("name", AVERAGES)
@pytest.mark.diagonal(name=["swa", "ema_buffers"])
def test_as_update_parameters_in_eager_mode(name: str) -> None:
    _, average, trainer = _make(name)
    expected = _model()
    wanted = AVERAGES[name](expected)
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.1, momentum=0.9)
    for x, y in random_batches(4):
        trainer.step(x, y)
        optimizer.zero_grad()
        F.cross_entropy(expected(x), y).backward()
        optimizer.step()
        wanted.update_parameters(expected)
        torch.testing.assert_close(average.state_dict(), wanted.state_dict(), rtol=1e-5, atol=1e-6)
    assert average.n_averaged == 4


@pytest.mark.parametrize("name", ["swa", "ema_buffers"])
@pytest.mark.diagonal(name=["ema_buffers"])
def test_the_same_bits_on_every_target_and_the_model_as_without(name: str) -> None:
    found = []
    for target in TARGETS:
        model, average, trainer = _make(name, target=target)
        for batch in random_batches(3):
            trainer.step(*batch)
        found.append((trainer.state_hash(), trainer.evaluate(*batch, average=True), trainer.evaluate(*batch)))
        trainer.sync()
    assert len({*found}) == 1 and found[0][1] != found[0][2]
    plain = _model()
    alone = Trainer(plain, F.cross_entropy, torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9), threads=1)
    for batch in random_batches(3):
        alone.step(*batch)
    assert all(torch.equal(value, model.state_dict()[key]) for key, value in plain.state_dict().items())
    held = average.eval()
    with torch.no_grad():
        assert F.cross_entropy(held(batch[0]), batch[1]).item() == pytest.approx(found[0][1], rel=1e-5)


@pytest.mark.parametrize("target", ["cpu", "ptx-emulator"])
def test_changes_by_the_user_take_effect(target: str) -> None:
    model, average, trainer = _make("ema", target=target)
    first, second = random_batches(2)
    trainer.step(*first)
    saved = copy.deepcopy(average.state_dict())
    trainer.step(*second)
    average.load_state_dict(saved)
    trainer.step(*second)
    expected = {name: saved[f"module.{name}"].lerp(value, 1 - 0.9) for name, value in model.named_parameters()}
    for name, value in expected.items():
        torch.testing.assert_close(average.module.get_parameter(name), value, rtol=1e-5, atol=1e-6, check_dtype=True)
    assert average.n_averaged == 2


def test_checkpoints_hold_it(tmp_path: Path) -> None:
    _, _, whole = _make("ema")
    _, _, first = _make("ema")
    batches = random_batches(4)
    for batch in batches:
        whole.step(*batch)
    for batch in batches[:2]:
        first.step(*batch)
    first.save_checkpoint(tmp_path / "run.safetensors")
    _, average, second = _make("ema")
    second.load_checkpoint(tmp_path / "run.safetensors")
    assert average.n_averaged == 2
    for batch in batches[2:]:
        second.step(*batch)
    assert second.state_hash() == whole.state_hash()
    model = _model()
    plain = Trainer(model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    with pytest.raises(
        repro_mlir.ReproError, match="the state has average, but the trainer has none: pass average= to Trainer"
    ):
        plain.load_checkpoint(tmp_path / "run.safetensors")
    with pytest.raises(repro_mlir.ReproError, match="the state has no average"):
        second.load_state_dict(plain.state_dict())


def test_a_receipt_has_it(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with _make("ema", receipt=ReceiptOptions(path, checkpoint_every=2))[2] as trainer:
        for batch in random_batches(4):
            trainer.step(*batch)
    assert any(kind.name == "average.n_averaged" for kind in trainer.program.state)
    assert repro_mlir.verify(path, target="reference").steps == 4


class Own(AveragedModel):
    def update_parameters(self, model: nn.Module) -> None:
        """Replaces the update of AveragedModel, so that the class is refused."""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (copy.deepcopy, "average is a Sequential, expected a torch.optim.swa_utils.AveragedModel"),
        (Own, "average is a Own with its own update_parameters, expected an AveragedModel"),
        (lambda model: AveragedModel(nn.Linear(5, 3)), "average and the model have different parameters"),
        (
            lambda model: AveragedModel(model, avg_fn=lambda old, new, count: old if count > 2 else new),
            "depends on tensor values",
        ),
    ],
)
def test_models_that_are_not_averages(make: Any, message: str) -> None:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(repro_mlir.ReproError, match=message):
        Trainer(model, F.cross_entropy, optimizer, threads=1, average=make(model)).step(*random_batches(1)[0])


def test_there_is_none_to_evaluate() -> None:
    model = _model()
    trainer = Trainer(model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(repro_mlir.ReproError, match="the trainer has no average to evaluate"):
        trainer.evaluate(*random_batches(1)[0], average=True)


def test_update_parameters_between_steps_by_hand() -> None:
    model = _model()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    _, ours, trainer = _make("ema")
    alone = Trainer(model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), threads=1)
    for batch in random_batches(3):
        alone.step(*batch)
        average.update_parameters(model)
        trainer.step(*batch)
    torch.testing.assert_close(ours.state_dict(), average.state_dict(), rtol=1e-6, atol=1e-7)
