# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The training script whose steps write.py stores in a program file and a bundle. The model is small; its program has a
check, random numbers and contractions."""

from collections.abc import Iterator

import numpy as np
import repro_mlir
import torch
from torch import nn

WORDS = 11


class Model(nn.Module):
    """A small language model. Its forward method spans several lines, so that its operations have different
    locations."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 8)
        self.dropout = nn.Dropout(0.25)
        self.last = nn.Linear(8, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.embedding(words))
        return self.last(self.dropout(hidden))


def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    random = np.random.default_rng(1)
    while True:
        words = torch.from_numpy(random.integers(WORDS, size=(20,)))
        yield words, (3 * words + 1) % WORDS


def training():
    model = repro_mlir.initialize(Model(), seed=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, nn.functional.cross_entropy, optimizer, batches()
