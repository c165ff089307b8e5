# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Calls that a loop with `loss.backward()` needs are refused next to a trainer, unless they have an effect."""

import copy
import gc
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from random_batches import BATCH
from repro_mlir import ReproError, Trainer, compile_optimizer
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_
from torch.optim.swa_utils import AveragedModel

pytest.importorskip("torch_mlir")

X, Y = BATCH
LOSS = nn.functional.cross_entropy
NORM = "pass clip_norm= to Trainer and remove the call of clip_grad_norm_"


def objects() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 3))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def trainer_of(model: nn.Module, optimizer: torch.optim.Optimizer, **options: Any) -> Trainer:
    return Trainer(model, LOSS, optimizer, **{"target": "reference", **options})


Call = Callable[[nn.Module, torch.optim.Optimizer], object]
CALLS: dict[str, tuple[Call, str]] = {
    "norm": (lambda model, _: clip_grad_norm_(model.parameters(), 1.0), NORM),
    "one parameter": (lambda model, _: torch.nn.utils.clip_grad_norm_(model[0].weight, 1.0), NORM),  # type: ignore[index]
    "given norm": (
        lambda model, _: clip_grads_with_norm_(model.parameters(), 1.0, torch.tensor(2.0)),
        "clip_grads_with_norm_() has",
    ),
    "value": (lambda model, _: clip_grad_value_(model.parameters(), 1.0), "p.register_hook"),
    "unscale": (lambda _, optimizer: used_scaler().unscale_(optimizer), "pass loss_scale= to Trainer"),
    "scaled step": (lambda _, optimizer: used_scaler().step(optimizer), "GradScaler.step() has no effect"),
    "unused scaler": (lambda _, optimizer: torch.amp.GradScaler("cpu").step(optimizer), "pass loss_scale= to Trainer"),
    "disabled scaler": (
        lambda _, optimizer: torch.amp.GradScaler("cpu", enabled=False).step(optimizer),
        "remove optimizer.step()",
    ),
    "scaler's update": (lambda *_: used_scaler().update(), "GradScaler.update() has no effect"),
    "step": (lambda _, optimizer: optimizer.step(), "optimizer.step() has no effect"),
}


def used_scaler() -> torch.amp.GradScaler:
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(()))
    return scaler


@pytest.mark.parametrize("returned", [False, True], ids=["no gradient", "returned gradients"])
def test_calls_without_an_effect_are_refused(returned: bool) -> None:
    model, optimizer = objects()
    trainer = trainer_of(model, optimizer, returns=("gradients",) if returned else ())
    before = {**model.state_dict()}
    for steps in range(2):
        if steps:
            trainer.step(X, Y)
            before = {name: value.clone() for name, value in model.state_dict().items()}
        for call, remedy in CALLS.values():
            with pytest.raises(ReproError) as found:
                call(model, optimizer)
            assert remedy in str(found.value) and "\n" not in str(found.value)
            torch.testing.assert_close({**model.state_dict()}, before, rtol=0, atol=0)
    optimizer.zero_grad()  # harmless


def test_gradients_of_the_users_own_backward_are_used() -> None:
    model, optimizer = objects()
    trainer = trainer_of(model, optimizer, returns=("gradients",))
    trainer.step(X, Y)
    optimizer.zero_grad()
    own, own_optimizer = copy.deepcopy((model, optimizer))
    for each, update in ((model, optimizer), (own, own_optimizer)):
        LOSS(each(X), Y).backward()
        clip_grad_value_(each.parameters(), 0.1)
        clip_grad_norm_((p for p in each.parameters()), 0.05)
        update.step()
    torch.testing.assert_close(model.state_dict(), own.state_dict(), rtol=0, atol=0)
    trainer.step(X, Y)
    with pytest.raises(ReproError, match="remove optimizer"):
        optimizer.step()
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad.mul_(0.5)
    optimizer.step()  # these gradients are no longer those of the trainer's step

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = LOSS(model(X), Y)
        loss.backward()
        return loss

    before = model.state_dict()["0.weight"].clone()
    optimizer.step(closure)
    assert not torch.equal(model.state_dict()["0.weight"], before)


@pytest.mark.parametrize("ends", ["close", "exception", "collected"])
def test_calls_are_allowed_after_the_trainer(ends: str) -> None:
    model, optimizer = objects()
    trainer = trainer_of(model, optimizer)
    if ends == "close":
        trainer.close()
    elif ends == "exception":
        with pytest.raises(ZeroDivisionError), trainer:
            _ = 1 / 0
    else:
        del trainer
        gc.collect()
    assert not optimizer._optimizer_step_pre_hooks
    for call, _ in (CALLS[name] for name in ("norm", "step")):
        call(model, optimizer)


def test_a_step_after_close_refuses_them_again() -> None:
    model, optimizer = objects()
    trainer = trainer_of(model, optimizer)
    trainer.close()
    optimizer.step()
    trainer.step(X, Y)
    with pytest.raises(ReproError, match="remove optimizer"):
        optimizer.step()


def test_other_models_and_copies_are_free() -> None:
    model, optimizer = objects()
    trainer = trainer_of(model, optimizer)
    copied, copied_optimizer = copy.deepcopy((model, optimizer))
    file = io.BytesIO()
    torch.save((model, optimizer), file)
    file.seek(0)
    for each, update in ((copied, copied_optimizer), torch.load(file, weights_only=False), objects()):
        assert clip_grad_norm_(each.parameters(), 1.0) == 0
        update.step()
    assert trainer.steps == 0


def test_the_average_of_a_trainer_is_not_updated_twice() -> None:
    model, optimizer = objects()
    average, other = AveragedModel(model), AveragedModel(model)
    trainer = trainer_of(model, optimizer, average=average)
    trainer.step(X, Y)
    with pytest.raises(ReproError, match=r"update_parameters\(\) would count a step twice: .* remove the call"):
        average.update_parameters(model)
    assert average.n_averaged == 1
    other.update_parameters(model)
    copy.deepcopy(average).update_parameters(model)
    # A step of the user's own is not in the average yet.
    LOSS(model(X), Y).backward()
    optimizer.step()
    average.update_parameters(model)
    optimizer.zero_grad()
    trainer.step(X, Y)
    assert average.n_averaged == 3
    trainer.close()
    average.update_parameters(model)


def test_a_scaler_of_the_users_own_steps_is_updated() -> None:
    model, optimizer = objects()
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with trainer_of(model, optimizer, loss_scale=scaler) as trainer:
        trainer.step(X, Y)
        with pytest.raises(ReproError, match="remove the calls of the GradScaler"):
            scaler.update()
        scaler.update(8.0)  # the user's choice of a scale
        scaler.scale(LOSS(model(X), Y)).backward()
        scaler.step(optimizer)
        scaler.update()
        torch.amp.GradScaler("cpu", enabled=False).update()
    with pytest.raises(AssertionError):
        scaler.update()


def test_two_trainers_of_one_model() -> None:
    model, optimizer = objects()
    first, second = trainer_of(model, optimizer), trainer_of(model, optimizer)
    for _ in range(2):
        first.step(X, Y)
        second.step(X, Y)
    first.close()
    with pytest.raises(ReproError, match="clip_norm="):
        clip_grad_norm_(model.parameters(), 1.0)
    second.close()
    optimizer.step()


def test_a_compiled_optimizer_takes_clipped_gradients() -> None:
    model, optimizer = objects()
    step = compile_optimizer(optimizer, target="reference")
    assert clip_grad_norm_(model.parameters(), 1.0) == 0
    LOSS(model(X), Y).backward()
    assert clip_grad_norm_(model.parameters(), 0.1) > 0
    step()
    optimizer.step()


def test_the_hook_for_clipped_values_has_the_effect_of_the_function() -> None:
    model, optimizer = objects()
    own, own_optimizer = copy.deepcopy((model, optimizer))
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: gradient.clamp(-0.05, 0.05))
    trainer_of(model, optimizer).step(X, Y)
    LOSS(own(X), Y).backward()
    clip_grad_value_(own.parameters(), 0.05)
    own_optimizer.step()
    torch.testing.assert_close(model.state_dict(), own.state_dict())


def test_users_step_hooks_are_still_refused() -> None:
    model, optimizer = objects()
    trainer = trainer_of(model, optimizer)
    optimizer.register_step_pre_hook(lambda *_: None)
    with pytest.raises(ReproError, match="step hook"):
        trainer.step(X, Y)
