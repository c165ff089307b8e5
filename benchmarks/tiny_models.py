# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares tiny models under torch.compile with our backend and in eager mode, to measure the overhead of a call.

    python benchmarks/tiny_models.py [--model MLP ...] [--seconds 1]

Our backend and eager mode take turns in one process, with one thread. Each runs a forward pass without gradients, and a
step of a training loop; eager PyTorch runs the optimizer in both. Prints, for each row, microseconds of processor time
(median, best in brackets) and the ratio to eager mode; then the medians of the ratios.
"""

import argparse
import datetime
import itertools
import os
import platform
import statistics
import time
from collections.abc import Callable

import repro_mlir
import torch
from timing import interleaved
from torch import nn


class Attention(nn.Module):
    """Returns the sum of x and the causal attention of its LayerNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.project = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.project(self.norm(x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).flatten(2))


class Recurrent(nn.Module):
    """Runs four steps of a recurrent cell."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(8, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = x.new_zeros(x.shape[0], 16)
        for i in range(4):
            hidden = self.cell(x[:, i], hidden)
        return hidden


class Words(nn.Module):
    """A classifier of bags of words."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(words).mean(1))


class _Loss(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x).square().mean()


def _mlp(*sizes: int, normalized: bool = False) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), *([nn.BatchNorm1d(b)] if normalized else []), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


# For each model: functions that create the model and its input.
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "linear": (lambda: nn.Linear(4, 1), lambda: torch.randn(8, 4)),
    "MLP": (lambda: _mlp(8, 32, 4), lambda: torch.randn(16, 8)),
    "deep MLP": (lambda: _mlp(8, 32, 32, 32, 4), lambda: torch.randn(16, 8)),
    "batch norm": (lambda: _mlp(8, 32, 4, normalized=True), lambda: torch.randn(16, 8)),
    "autoencoder": (lambda: _mlp(32, 8, 32), lambda: torch.randn(16, 32)),
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 4)),
        lambda: torch.randn(4, 1, 8, 8),
    ),
    "GRU cell": (Recurrent, lambda: torch.randn(4, 4, 8)),
    "attention": (Attention, lambda: torch.randn(2, 8, 16)),
    "words": (Words, lambda: torch.randint(100, (8, 6))),
}


def _forward(model: nn.Module, x: torch.Tensor) -> Callable[[], torch.Tensor]:
    model.eval()

    def call() -> torch.Tensor:
        with torch.no_grad():
            return model(x)

    return call


def _step(model: nn.Module, x: torch.Tensor) -> Callable[[], torch.Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

    def call() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x)
        loss.backward()
        optimizer.step()
        return loss

    return call


WAYS = {"forward": _forward, "step": _step}


def _contestants(name: str, way: str) -> dict[str, Callable[[], torch.Tensor]]:
    make, data = MODELS[name]
    torch.manual_seed(0)
    model, x = make(), data()
    whole = model if way == "forward" else _Loss(model)
    ours = torch.compile(whole, backend=repro_mlir.backend(threads=1), fullgraph=True)
    contestants = {"eager": WAYS[way](whole, x), "ours": WAYS[way](ours, x)}
    torch.testing.assert_close(contestants["ours"](), contestants["eager"](), rtol=1e-3, atol=1e-4)
    return contestants


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="*", choices=MODELS, default=[*MODELS])
    parser.add_argument("--seconds", type=float, default=1, help="time to spend on each of the two")
    options = parser.parse_args()
    torch.set_num_threads(1)
    date = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"
    print(f"{platform.machine()}; PyTorch {torch.__version__}; {date}; load {os.getloadavg()[0]:.1f}")
    print("| what | eager | ours | ratio of medians | ratio of bests |")
    print("| --- " * 5 + "|", flush=True)
    ratios: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for way in WAYS:
        for name in options.model:
            torch._dynamo.reset()
            figures = interleaved(_contestants(name, way), options.seconds, time.process_time)
            cells = [f"{1e6 * each.median:.1f} ({1e6 * each.best:.1f})" for each in figures.values()]
            eager, ours = figures["eager"], figures["ours"]
            ratio = ours.median / eager.median, ours.best / eager.best
            ratios[way].append(ratio)
            print(f"| {way} {name} | {' | '.join(cells)} | {ratio[0]:.2f} | {ratio[1]:.2f} |", flush=True)
    for way, found in [*ratios.items(), ("all", [each for values in ratios.values() for each in values])]:
        medians, bests = zip(*found, strict=True)
        print(f"median of {way}: {statistics.median(medians):.2f} of medians, {statistics.median(bests):.2f} of bests")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
