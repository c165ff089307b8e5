# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A small PyTorch language model."""

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, WIDTH, HEADS, CAPACITY = 23, 16, 2, 17


class Block(nn.Module):
    """A residual block: layer norm and attention, whose result is added to the input f32 [rows, length, WIDTH]."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, is_causal: bool = True) -> torch.Tensor:
        rows, length, _ = x.shape
        q, k, v = (
            part.view(rows, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.qkv(self.norm(x)).split(WIDTH, 2)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        return x + self.mix(attended.transpose(1, 2).reshape(rows, length, WIDTH))


class Model(nn.Module):
    """A small transformer decoder with token and position embeddings.

    Its forward accepts tokens and positions, i64 [rows, length], and returns logits f32 [rows, length,
    vocabulary].
    """

    def __init__(self, capacity: int = CAPACITY, vocabulary: int = VOCABULARY) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.positions = nn.Embedding(capacity, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, vocabulary)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def model() -> Model:
    """Returns a model with fixed parameters. Its logits are scaled up, so that the greatest one is clearly greater than
    the others."""
    torch.manual_seed(5)
    made = Model().eval()
    with torch.no_grad():
        made.head.weight *= 6
    return made
