# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A loop in the form of nanoGPT's train.py: batches at random positions, drawn one microbatch ahead, and tied weights.
The loop restores model, optimizer and step, but no generator."""

import argparse
import math

import torch
from torch import nn
from torch.nn import functional


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, 0.1, batch_first=True)
        self.head = nn.Linear(16, 64, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.block(self.embedding(tokens)))
        return functional.cross_entropy(logits.view(-1, 64), targets.view(-1))


def batch_of(text: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    places = torch.randint(len(text) - 9, (4,))
    return tuple(torch.stack([text[i + shift : i + shift + 8] for i in places]) for shift in (0, 1))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    parser.add_argument("--save")
    parser.add_argument("--resume")
    options = parser.parse_args()
    torch.manual_seed(1337)
    text = torch.randint(64, (1000,))
    model = LanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = 0
    if options.resume:
        saved = torch.load(options.resume)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    batch = batch_of(text)
    while step < options.steps:
        for group in optimizer.param_groups:
            group["lr"] = 5e-4 * (1 + math.cos(math.pi * step / 100))
        for _ in range(2):
            loss = model(*batch)
            batch = batch_of(text)
            (loss / 2).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, options.save)


if __name__ == "__main__":
    main()
