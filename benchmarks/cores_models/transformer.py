# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A transformer with two blocks learns random classes of images of 8 x 8 pixels, which it cuts into 16 patches."""

import itertools
from collections.abc import Iterator

import repro_mlir
import torch
from torch import nn

WIDTH = 64


class Block(nn.Module):
    """Self-attention with four heads and a perceptron, each after a LayerNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.project, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.project(self.first(x)).unflatten(-1, (3, 4, WIDTH // 4)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.second(x))


class Transformer(nn.Module):
    """Returns the scores of ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, WIDTH, 2, 2)
        self.places = nn.Parameter(torch.zeros(1, 16, WIDTH))
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.patches(images).flatten(2).transpose(1, 2) + self.places).mean(1))


def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields batches of 16 images and classes without end."""
    generator = torch.Generator().manual_seed(0)
    for _ in itertools.count():
        yield torch.randn(16, 1, 8, 8, generator=generator), torch.randint(10, (16,), generator=generator)


def training(steps: int = 1):
    """Returns what `repro train` needs: the model, the loss function, the optimizer and the batches."""
    model = repro_mlir.initialize(Transformer(), seed=0)
    return model, nn.functional.cross_entropy, torch.optim.AdamW(model.parameters(), lr=1e-3), batches()
