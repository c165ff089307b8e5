# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The nodes of a repeated call are copied from its first trace; the program is the one that tracing every call would
give."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.capture.inference import capture_inference
from repro_mlir.frontends.torch.capture.training import capture_training
from repro_mlir.frontends.torch.trace.repeated_calls import Repeats
from torch import nn

WIDTH = 8


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.mix = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        return x + F.dropout(self.mix(F.scaled_dot_product_attention(q, k, v, is_causal=True)), 0.1, self.training)


def layers(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(make() for _ in range(3)))


def convolution() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 1, 1))


def training_text(model: nn.Module, optimizer: torch.optim.Optimizer, shape: Sequence[int], **options: Any) -> str:
    x = torch.ones([*shape])
    return capture_training(model, F.mse_loss, optimizer, (x, x), CaptureOptions(**options)).text


@pytest.fixture(autouse=True)
def _captured_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_MLIR_CACHE", "off")


@pytest.fixture
def without_copies(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], str]], str]:
    """Returns a function that calls its argument, a function without parameters, while the copying of calls is
    disabled."""

    def run(function: Callable[[], str]) -> str:
        with monkeypatch.context() as patched:
            patched.setattr("repro_mlir.frontends.torch.trace.repeated_calls.only_computes", lambda nodes: False)
            return function()

    return run


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list to which each copied call adds the number of its nodes."""
    numbers: list[int] = []
    copied = Repeats._copied

    def count(self: Repeats, record: Any, arguments: Any) -> Any:
        numbers.append(len(record.nodes))
        return copied(self, record, arguments)

    monkeypatch.setattr(Repeats, "_copied", count)
    return numbers


OPTIMIZERS: list[Callable[[Any], torch.optim.Optimizer]] = [
    lambda p: torch.optim.AdamW(p, lr=0.1, amsgrad=True),
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.1),
    lambda p: torch.optim.RMSprop(p, centered=True, momentum=0.5),
    lambda p: torch.optim.Adam([{"params": [each], "lr": 0.1 * i} for i, each in enumerate(p)]),
    lambda p: torch.optim.Adagrad(p),
]


@pytest.mark.parametrize(
    ("make", "shape", "optimizer"),
    [(Block, (2, 5, WIDTH), OPTIMIZERS[0]), *((convolution, (2, 2, 6, 6), each) for each in OPTIMIZERS[1:])],
)
@pytest.mark.exhaustive("shape1", "shape2", "shape4")
def test_training_step_is_the_same(
    make: Callable[[], nn.Module],
    shape: Sequence[int],
    optimizer: Callable[[Any], torch.optim.Optimizer],
    without_copies: Callable[[Callable[[], str]], str],
) -> None:
    model = layers(make)

    def text() -> str:
        return training_text(model, optimizer(model.parameters()), shape)

    assert text() == without_copies(text)


@pytest.mark.parametrize("autocast", [torch.bfloat16, torch.float16])
@pytest.mark.exhaustive("autocast1")
def test_low_precision_is_the_same(
    autocast: torch.dtype, without_copies: Callable[[Callable[[], str]], str], copies: list[int]
) -> None:
    model = layers(Block)

    def text() -> str:
        return training_text(
            model, torch.optim.SGD(model.parameters(), 0.1), (2, 5, WIDTH), autocast=autocast, clip_norm=1.0
        )

    assert text() == without_copies(text)
    assert len(copies) > 100


def test_layers_are_copied(copies: list[int]) -> None:
    model = layers(Block)
    training_text(model, torch.optim.AdamW(model.parameters()), (2, 5, WIDTH))
    # Parameters have 4 shapes, so at least 14 of 18 updates are copied; an update has at least 15 nodes.
    assert sum(number >= 15 for number in copies) >= 14


class Calls(nn.Module):
    """A module with calls that must not be copied from each other, although their functions and the shapes of their
    arguments are equal."""

    def forward(self, x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> list[torch.Tensor]:
        return [
            *(torch.pow(x, x), torch.pow(x, y), torch.pow(y, x)),
            *(F.hardtanh(x, -0.0, 1.0), F.hardtanh(x, 0.0, 1.0), F.hardtanh(x, 0.0, 1.5)),
            *(n * 1, n * True, n * 1.0, x * 1, x * 2),
            *(x.sum(0), x.t().sum(0), x.sum(1), x.double().sum(0)),
            *(F.logsigmoid(x), F.logsigmoid(x.t()), F.logsigmoid(x[:1]), F.logsigmoid(x[1:])),
            *(x.to(torch.float16).sum(), x.to(torch.bfloat16).sum(), x.sum(dtype=torch.float64)),
            *(torch.var(x, correction=0), torch.var(x, correction=1), torch.std(x), torch.std(y)),
            *(torch.tensor([1.0, 2.0]).sum() * x, torch.tensor([2.0, 2.0]).sum() * x),
        ]


def test_calls_that_differ(without_copies: Callable[[Callable[[], str]], str], copies: list[int]) -> None:
    inputs = torch.rand(3, 3), torch.rand(3, 3), torch.arange(4)

    def text() -> str:
        return capture_inference(Calls(), inputs).text

    assert text() == without_copies(text)
    assert copies


def test_each_operator_keeps_its_line() -> None:
    """A copied node has the source location of its own call, not that of the call from which it is copied."""

    class Lines(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = F.logsigmoid(x)
            x = F.logsigmoid(x)
            return F.logsigmoid(x)

    text = capture_inference(Lines(), torch.rand(3)).text
    first = Lines.forward.__code__.co_firstlineno
    assert all(f'"test_repeats.py":{first + line}:' in text for line in (1, 2, 3))
