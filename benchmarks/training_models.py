# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Defines the models whose training steps are measured."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mix(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.widen(self.norm2(x))))


class GPT(nn.Module):
    """A GPT that maps letters and next letters, i64 [batch, length], to the loss. The embedding and the output layer
    share their weight."""

    def __init__(self, layers: int, heads: int, width: int, length: int, vocabulary: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.letters.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, letters: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        x = self.letters(letters) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), following.flatten())


class _Residual(nn.Module):
    def __init__(self, channels: int, filters: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, filters, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(filters)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != filters:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(y + self.shortcut(x))


class ResNet18(nn.Module):
    """Maps images f32 [batch, 3, 32, 32] and classes i64 [batch] to the loss (He et al. 2015, 3x3 stem for small
    images)."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.norm = nn.BatchNorm2d(64)
        blocks, channels = [], 64
        for filters, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [_Residual(channels, filters, stride), _Residual(filters, filters, 1)]
            channels = filters
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(512, classes)

    def forward(self, images: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        x = self.blocks(torch.relu(self.norm(self.stem(images))))
        return F.cross_entropy(self.head(x.mean((2, 3))), classes)


class MLP(nn.Module):
    """Maps images f32 [batch, 784] and classes i64 [batch] to the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
        )

    def forward(self, images: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.layers(images), classes)


@dataclass(frozen=True)
class Step:
    """A training step: a new model, a new optimizer and a batch.

    Attributes:
      name, shape: descriptions for the reader.
      make: returns a new model, an optimizer for it and a batch, always with equal values.
      flops: floating-point operations of the matrix products in one step, forward and backward.
      attention_block: (K5) the block size with which our step is captured.
    """

    name: str
    shape: str
    make: Callable[[], tuple[nn.Module, torch.optim.Optimizer, tuple[torch.Tensor, ...]]]
    flops: float
    attention_block: int | None = None


def _adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)


def _gpt(batch: int, length: int, vocabulary: int, **sizes: int) -> Callable[[], Any]:
    def make() -> Any:
        torch.manual_seed(0)
        model = GPT(length=length, vocabulary=vocabulary, **sizes)
        letters = torch.randint(vocabulary, (2, batch, length))
        return model, _adamw(model), tuple(letters.unbind())

    return make


def _gpt_flops(batch: int, length: int, vocabulary: int, layers: int, heads: int, width: int) -> float:
    """Returns the number of floating-point operations in a training step. The forward pass has 2 operations per weight
    and token, plus those of attention; the backward pass has twice as many."""
    positions = batch * length
    weights = layers * 12 * width * width + width * vocabulary
    attention = layers * 2 * 2 * length * width
    return 3.0 * positions * (2 * weights + attention)


def _resnet() -> Any:
    torch.manual_seed(0)
    model = ResNet18()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    return model, optimizer, (torch.randn(64, 3, 32, 32), torch.randint(10, (64,)))


def _mlp() -> Any:
    torch.manual_seed(0)
    model = MLP()
    return model, _adamw(model), (torch.randn(256, 784), torch.randint(10, (256,)))


_SMALL = {"batch": 8, "length": 256, "vocabulary": 8192, "layers": 6, "heads": 6, "width": 384}

STEPS = {
    step.name: step
    for step in (
        Step(
            "GPT",
            "6 layers, 6 heads, width 384, 8 x 256 of 8192, AdamW; ours with attention in blocks of 64",
            _gpt(**_SMALL),
            _gpt_flops(**_SMALL),
            attention_block=64,
        ),
        # The forward pass of one image takes 0.5554e9 multiply-adds (3x3 stem, 32x32 images).
        Step("ResNet-18", "64 x 3 x 32 x 32, SGD with momentum", _resnet, 3.0 * 2 * 0.5554e9 * 64),
        Step("MLP", "784-1024-1024-10, 256, AdamW", _mlp, 3.0 * 2 * 256 * (784 * 1024 + 1024 * 1024 + 10240)),
    )
}


def eager(model: nn.Module, optimizer: torch.optim.Optimizer, batch: tuple[torch.Tensor, ...]) -> Callable[[], float]:
    """Returns a function that runs one training step in PyTorch and returns the loss."""

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = model(*batch)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step
