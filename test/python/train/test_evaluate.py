# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""`Trainer.evaluate` computes the loss in evaluation mode and has no other effect."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
import torch
from random_batches import BATCH, random_batches
from repro_mlir import Trainer
from torch import nn

pytest.importorskip("torch_mlir")

F = nn.functional
TARGETS = ("cpu", "cpu:x86-64-v2", "reference", "ptx-emulator")
METRICS = {"accuracy": lambda output, target: (output.argmax(1) == target).float().mean()}


def _model() -> nn.Module:
    layers = nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.ReLU(), nn.Linear(6, 3)
    return repro_mlir.initialize(nn.Sequential(*layers), 4)


def _make(model: nn.Module | None = None, **options: Any) -> tuple[nn.Module, Trainer]:
    model = _model() if model is None else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    return model, Trainer(model, F.cross_entropy, optimizer, threads=1, **options)


def _eager(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> tuple[float, torch.Tensor]:
    modes = [module.training for module in model.modules()]
    model.eval()
    with torch.no_grad():
        output = model(x)
    for module, training in zip(model.modules(), modes, strict=True):
        module.training = training
    return F.cross_entropy(output, y).item(), output


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.diagonal(target=["cpu", "ptx-emulator"])
def test_as_eager_on_the_trained_state(target: str) -> None:
    model, trainer = _make(target=target, metrics=METRICS)
    _, undisturbed = _make(target=target)
    batches, (held, larger) = random_batches(4), (random_batches(1)[0], random_batches(1, 7)[0])
    for batch in batches:
        assert trainer.step(*batch) == undisturbed.step(*batch)
        for given in (held, larger):
            loss = trainer.evaluate(*given)
            result = trainer.evaluate(*given, returns=("outputs", "metrics"))
            eager, output = _eager(model, *given)
            assert result.loss == loss == pytest.approx(eager, rel=1e-5)
            torch.testing.assert_close(result.outputs, output, rtol=1e-5, atol=1e-6)
            assert result.metrics == {"accuracy": METRICS["accuracy"](output, given[1]).item()}
    assert trainer.state_hash() == undisturbed.state_hash()
    assert (trainer.steps, trainer.cursor) == (4, 4)
    assert all(module.training for module in model.modules())


def test_the_same_bits_on_every_target() -> None:
    found = []
    for target in TARGETS:
        _, trainer = _make(target=target)
        for batch in random_batches(2):
            trainer.step(*batch)
        result = trainer.evaluate(*random_batches(3)[2], returns=("outputs",))
        found.append((result.loss, result.outputs))
    assert all(loss == found[0][0] and torch.equal(output, found[0][1]) for loss, output in found)


def test_before_the_first_step_and_without_one() -> None:
    model, trainer = _make()
    assert trainer.evaluate(*BATCH) == pytest.approx(_eager(model, *BATCH)[0], rel=1e-5)
    assert trainer.steps == 0
    with pytest.raises(repro_mlir.ReproError, match="call step, fit or prepare first"):
        _ = trainer.program
    trainer.step(*BATCH)
    assert trainer.evaluate(*BATCH) == pytest.approx(_eager(model, *BATCH)[0], rel=1e-5)


def test_modes_of_all_modules_stay() -> None:
    class Watched(nn.Sequential):
        def train(self, mode: bool = True) -> "Watched":
            raise AssertionError("called")

    model = Watched(nn.Linear(5, 6), nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(6)), nn.Linear(6, 3))
    model[1][1].training = False
    model[1].training = False
    modes = [module.training for module in model.modules()]
    _, trainer = _make(model)
    trainer.evaluate(*BATCH)
    trainer.step(*BATCH)
    trainer.evaluate(*BATCH)
    assert [module.training for module in model.modules()] == modes
    with pytest.raises(repro_mlir.ReproError):
        trainer.evaluate(torch.ones(4, 6), BATCH[1])
    assert [module.training for module in model.modules()] == modes


def _captures(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    from repro_mlir.train import evaluation

    found: list[int] = []
    capture = evaluation.evaluation_program
    monkeypatch.setattr(evaluation, "evaluation_program", lambda *given: found.append(0) or capture(*given))
    return found


def test_captured_once_for_each_shape_and_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    model, trainer = _make()
    captured = _captures(trainer, monkeypatch)
    small, large = random_batches(1)[0], random_batches(1, 7)[0]
    for _ in range(3):
        trainer.step(*small)
        trainer.evaluate(*small)
        trainer.evaluate(*large)
        trainer.evaluate(*small, returns=("outputs",))
    assert len(captured) == 3
    # Setting the model's mode causes no new capture, because `evaluate` always uses evaluation mode.
    model.eval()
    trainer.evaluate(*small)
    model.train()
    trainer.evaluate(*small)
    assert len(captured) == 3


@pytest.mark.parametrize("target", ["cpu", "ptx-emulator"])
def test_changes_between_evaluations_take_effect(target: str) -> None:
    model, trainer = _make(target=target)
    first, second = random_batches(2)
    trainer.evaluate(*first)
    trainer.step(*first)

    def check() -> None:
        assert trainer.evaluate(*second) == pytest.approx(_eager(model, *second)[0], rel=1e-5)

    check()
    saved = copy.deepcopy(model.state_dict())
    trainer.step(*first)
    check()
    model.load_state_dict(saved)
    check()
    trainer.step(*second)
    model[0].weight.requires_grad_(False)
    check()
    trainer.step(*second)
    check()
    with torch.no_grad():
        trainer.sync()
        model[4].bias.add_(1.0)
    check()
    trainer.sync()
    model[4].weight.data.mul_(0.5)
    check()
    model[4] = repro_mlir.initialize(nn.Linear(6, 3), 9)
    check()


def test_without_a_trace_in_a_receipt(tmp_path: Path) -> None:
    for name in ("plain", "evaluated"):
        _, trainer = _make(receipt=tmp_path / name)
        with trainer:
            for batch in random_batches(3):
                trainer.step(*batch)
                if name == "evaluated":
                    trainer.evaluate(*batch)
    for file in ("receipt.json", "steps.jsonl", "seal.json"):
        assert (tmp_path / "plain" / file).read_bytes() == (tmp_path / "evaluated" / file).read_bytes()
    # A finished receipt accepts no step, but the model can still be evaluated.
    assert trainer.evaluate(*random_batches(1)[0]) > 0


def test_a_model_that_gives_the_loss() -> None:
    class Model(nn.Linear):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
            logits = F.dropout(super().forward(x), 0.5, self.training)
            return {"loss": F.cross_entropy(logits, y), "logits": logits}

    model = repro_mlir.initialize(Model(5, 3), 1)
    metrics = {"accuracy": lambda result, batch: (result["logits"].argmax(1) == batch["y"]).float().mean()}
    trainer = Trainer(model, None, torch.optim.SGD(model.parameters(), lr=0.1), threads=1, metrics=metrics)
    ((x, y),) = random_batches(1)
    trainer.step({"x": x, "y": y})
    result = trainer.evaluate({"x": x, "y": y}, returns=("outputs", "metrics"))
    expected = model.eval()(x, y)
    assert result.loss == pytest.approx(expected["loss"].item(), rel=1e-5)
    torch.testing.assert_close(result.outputs["logits"], expected["logits"].detach())
    assert result.metrics["accuracy"] == (expected["logits"].argmax(1) == y).float().mean().item()


class Counting(nn.Linear):
    def __init__(self) -> None:
        super().__init__(5, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(x)


class Drawing(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(F.dropout(x, 0.5, training=True))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Counting, "the model writes calls in evaluation mode"),
        (lambda: Drawing(5, 3), "the model draws random numbers in evaluation mode"),
    ],
    ids=["writes", "draws"],
)
def test_evaluations_that_are_refused(kind: Any, message: str) -> None:
    model, trainer = _make(repro_mlir.initialize(kind(), 2))
    trainer.step(*BATCH)
    before = trainer.state_hash()
    with pytest.raises(repro_mlir.ReproError, match=re.escape(message)):
        trainer.evaluate(*BATCH)
    assert trainer.state_hash() == before and model.training
    trainer.step(*BATCH)


@pytest.mark.parametrize("returns", [("gradient_norm",), ("gradients",)])
def test_there_are_no_gradients(returns: Any) -> None:
    _, trainer = _make()
    with pytest.raises(repro_mlir.ReproError, match="expected returns among outputs, metrics, got 'gradient"):
        trainer.evaluate(*random_batches(1)[0], returns=returns)


def test_E1_class_out_of_range() -> None:
    _, trainer = _make()
    ((x, y),) = random_batches(1)
    trainer.step(x, y)
    before = trainer.state_hash()
    with pytest.raises(repro_mlir.base.errors.StepFailed):
        trainer.evaluate(x, y + 7)
    assert (trainer.state_hash(), trainer.steps, trainer.cursor) == (before, 1, 1)
    assert trainer.evaluate(x, y) > 0


def test_newest_values_of_another_trainer() -> None:
    model = _model()
    _, one = _make(model, target="ptx-emulator")
    _, other = _make(model, target="ptx-emulator")
    one.step(*BATCH)
    other.step(*BATCH)
    loss = one.evaluate(*BATCH)
    assert loss == pytest.approx(_eager(model, *BATCH)[0], rel=1e-5)


def test_autocast() -> None:
    model, trainer = _make(repro_mlir.initialize(nn.Linear(5, 3), 2), autocast=torch.bfloat16)
    ((x, y),) = random_batches(1)
    trainer.step(x, y)
    result = trainer.evaluate(x, y, returns=("outputs",))
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        output = model(x)
    assert result.outputs.dtype == torch.bfloat16
    torch.testing.assert_close(result.outputs, output, rtol=2e-2, atol=2e-2)


@pytest.mark.filterwarnings("error")
def test_a_warning_where_a_program_is_captured_again_and_again() -> None:
    class Growing(nn.Linear):
        factor = 1.0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * self.factor

    model, trainer = _make(repro_mlir.initialize(Growing(5, 3), 2), target="reference")
    for number in range(8):
        model.factor = float(number)
        trainer.evaluate(*BATCH)
    model.factor = 9.0
    with pytest.warns(RuntimeWarning, match="factor has changed; such changes are frequent") as caught:
        trainer.evaluate(*BATCH)
    assert caught[0].filename == __file__
