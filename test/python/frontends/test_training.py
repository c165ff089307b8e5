# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares several captured training steps with those of eager PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from frontend_models import CNN, GPT, MLP, token_loss
from graph_running import GraphTrainer, compare_training, initial_state, parse_with_llvm
from repro_mlir.frontends.torch import capture_inference, capture_training
from torch import nn


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(3)


def _vectors(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.randn(4, 16), torch.randint(0, 8, (4,))) for _ in range(count)]


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd_decay": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01, maximize=True),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-3),
    "dampening": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=0.01),
    "adam_amsgrad": lambda p: torch.optim.Adam(p, lr=1e-2, amsgrad=True, betas=(0.8, 0.99), eps=1e-6),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1),
    "adamw_foreach": lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=True, maximize=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-2, weight_decay=0.01),
    "rmsprop_centered": lambda p: torch.optim.RMSprop(p, lr=1e-2, momentum=0.9, centered=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name: str) -> None:
    captured = compare_training(MLP(), F.cross_entropy, OPTIMIZERS[name], _vectors(4), tolerance=1e-4)
    assert "f64" not in captured.text


def test_optimizer_with_state_of_earlier_steps() -> None:
    model, batches = MLP(), _vectors(5)
    for make in (OPTIMIZERS["dampening"], OPTIMIZERS["adamw"]):
        optimizer = make(model.parameters())
        for batch in batches[:2]:
            optimizer.zero_grad()
            F.cross_entropy(model(batch[0]), batch[1]).backward()
            optimizer.step()

        state = optimizer.state_dict()

        def resume(parameters, make=make, state=state):
            fresh = make(parameters)
            fresh.load_state_dict(state)
            return fresh

        compare_training(model, F.cross_entropy, resume, batches[2:], tolerance=1e-4)


def test_learning_rate_is_read_before_each_step() -> None:
    def schedule(optimizer: torch.optim.Optimizer, number: int) -> None:
        for group in optimizer.param_groups:
            group["lr"] = 0.1 / (number + 1)

    compare_training(MLP(), F.cross_entropy, OPTIMIZERS["momentum"], _vectors(4), before_step=schedule)


def test_parameter_groups() -> None:
    model = MLP()

    def make(parameters):
        first, *rest = parameters
        return torch.optim.AdamW([{"params": [first], "weight_decay": 0.0}, {"params": rest, "lr": 3e-2}], lr=1e-2)

    captured = compare_training(model, F.cross_entropy, make, _vectors(3), tolerance=1e-4)
    rest = ["beta1", "one_minus_beta1", "beta2", "one_minus_beta2", "eps"]
    first, second = [["lr", *rest], ["lr", "weight_decay", *rest]]
    names = [*(f"{name}.0" for name in first), *(f"{name}.1" for name in second), "batch[0]", "batch[1]"]
    assert [spec.name for spec in captured.inputs] == names
    assert "optimizer.group1.step" in [entry.name for entry in captured.state]


def test_clip_by_global_norm() -> None:
    for limit in (0.05, 100.0):
        compare_training(MLP(), F.cross_entropy, OPTIMIZERS["sgd"], _vectors(3), clip_norm=limit)


def test_cnn() -> None:
    batches = [(torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,))) for _ in range(3)]
    captured = compare_training(CNN(), F.cross_entropy, OPTIMIZERS["momentum"], batches, tolerance=5e-4)
    assert "f64" not in captured.text
    assert "tm_tensor" not in captured.text


def test_gpt() -> None:
    batches = [(torch.randint(0, 64, (2, 16)), torch.randint(0, 64, (2, 16))) for _ in range(3)]
    captured = compare_training(
        GPT(),
        token_loss,
        lambda p: torch.optim.AdamW(p, lr=1e-3, eps=1e-5, weight_decay=0.1),
        batches,
        tolerance=2e-4,
        clip_norm=1.0,
    )
    assert "f64" not in captured.text
    assert captured.text.count('"cf.assert"') > 0


def test_model_that_returns_its_loss() -> None:
    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = MLP()

        def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(self.body(x), target)

    captured = compare_training(WithLoss(), None, OPTIMIZERS["sgd"], _vectors(2))
    assert [spec.name for spec in captured.outputs] == ["loss"]

    class WithDict(WithLoss):
        def forward(self, x: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:  # type: ignore[override]
            return {"loss": super().forward(x, target)}

    model = WithDict()
    x, target = _vectors(1)[0]
    captured = capture_training(model, None, torch.optim.SGD(model.parameters()), {"x": x, "target": target})
    want = model(x, target)["loss"]
    got = GraphTrainer(captured).step({"x": x, "target": target})[0]
    torch.testing.assert_close(got, want.detach())
    assert [spec.name for spec in captured.inputs] == ["lr", "batch['x']", "batch['target']"]


def test_parameter_without_gradient_is_left_alone() -> None:
    class Partly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(16, 8), nn.Linear(16, 8)
            self.frozen = nn.Parameter(torch.ones(8), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.used(x) * self.frozen

    captured = compare_training(Partly(), F.cross_entropy, OPTIMIZERS["adamw"], _vectors(2), tolerance=1e-4)
    assert not any("unused" in kind.name for kind in captured.state if kind.name.startswith("optimizer."))


def test_capture_changes_nothing() -> None:
    model = CNN()
    optimizer = OPTIMIZERS["adamw"](model.parameters())
    before = {k: v.clone() for k, v in model.state_dict().items()}
    capture_training(model, F.cross_entropy, optimizer, (torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,))))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not optimizer.state and all(p.grad is None for p in model.parameters())


def test_inference() -> None:
    model = CNN().eval()
    x = torch.randn(2, 3, 16, 16)
    captured = capture_inference(model, x)
    trainer = GraphTrainer(captured)
    torch.testing.assert_close(trainer.step((x,))[0], model(x).detach())
    assert all(torch.equal(a, b) for a, b in zip(trainer.state, initial_state(captured), strict=True))
    assert [spec.name for spec in captured.outputs] == ["output"]
    parse_with_llvm(captured.text)


def test_f64_model_stays_f64() -> None:
    batches = [(torch.randn(4, 16, dtype=torch.float64), torch.randint(0, 8, (4,))) for _ in range(2)]
    captured = compare_training(MLP().double(), F.cross_entropy, OPTIMIZERS["momentum"], batches, tolerance=1e-7)
    assert captured.state[0].element == "f64"
