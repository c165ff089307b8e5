# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A small GPT learns to write names, character by character (the name lists of the PyPI package `names`).

python examples/names_gpt.py [--steps N] [--target T] [--threads N] [--eager]
repro train examples/names_gpt.py --steps 300
repro precision examples/names_gpt.py --recipes mxfp8,mxfp4,nvfp4 --steps 300
"""

import argparse
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import repro_mlir
import torch
from torch import nn
from torch.nn import functional as F

LAYERS, WIDTH, HEADS = 4, 128, 4
CONTEXT, BATCH = 16, 24
DROPOUT = 0.1
PEAK_RATE, WARMUP, CLIP_NORM = 3e-3, 30, 1.0
# In the text, every name begins with "\n", the first letter of the alphabet.
ALPHABET = "\nABCDEFGHIJKLMNOPQRSTUVWXYZ"


def load() -> tuple[np.ndarray, np.ndarray]:
    """Returns the training text and the test text as indices into ALPHABET, i64. One of 20 names is in the test
    text."""
    spec = importlib.util.find_spec("names")
    if spec is None or spec.origin is None:
        raise SystemExit("names_gpt needs the name lists of the package names: pip install names==0.3.0")
    folder = Path(spec.origin).parent
    files = ["dist.female.first", "dist.male.first", "dist.all.last"]
    names = sorted({line.split()[0] for file in files for line in (folder / file).read_text().splitlines()})
    names = [names[i] for i in repro_mlir.permutation(len(names), seed=7)]
    held_out = len(names) // 20
    texts = ["\n".join(["", *part]) for part in (names[held_out:], names[:held_out])]
    train, test = (np.array([ALPHABET.index(letter) for letter in text], np.int64) for text in texts)
    return train, test


class Block(nn.Module):
    """A transformer block with causal attention. Returns, without dropout, y + mlp(norm2(y)), where y is x +
    attention(norm1(x))."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.widen = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(WIDTH, dim=2)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.mix(attended.transpose(1, 2).reshape(batch, length, WIDTH)))
        return x + self.dropout(self.narrow(F.gelu(self.widen(self.norm2(x)))))


class NamesGPT(nn.Module):
    """Maps letters i64 [batch, CONTEXT] to logits f32 [batch, CONTEXT, 27] of the next letter."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(ALPHABET), WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, len(ALPHABET), bias=False)
        self.head.weight = self.letters.weight

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        x = self.letters(letters) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def next_letter_loss(scores: torch.Tensor, letters: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(scores.flatten(0, 1), letters.flatten())


def batches(optimizer: torch.optim.Optimizer, steps: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields batches of (letters, next letters) without end; sets the learning rate before each batch."""
    text, _ = load()
    windows = torch.from_numpy(text[: len(text) // CONTEXT * CONTEXT - CONTEXT + 1])
    inputs = windows[:-1].view(-1, CONTEXT)
    targets = windows[1:].view(-1, CONTEXT)
    for step, chosen in enumerate(repro_mlir.batches(len(inputs), BATCH, seed=1)):
        for group in optimizer.param_groups:
            group["lr"] = repro_mlir.cosine_with_warmup(
                step, peak=PEAK_RATE, warmup=WARMUP, total=steps, floor=PEAK_RATE / 10
            )
        yield inputs[chosen], targets[chosen]


def training(steps: int = 300):
    """Returns what `repro train` needs: the model, the loss function, the optimizer, the batches and the options."""
    model = repro_mlir.initialize(NamesGPT(), seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.95), weight_decay=0.1)
    return model, next_letter_loss, optimizer, batches(optimizer, steps), {"clip_norm": CLIP_NORM}


def held_out() -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the test text in batches: letters and next letters, each of shape [batches, BATCH, CONTEXT]."""
    _, text = load()
    count = (len(text) - 1) // CONTEXT // BATCH * BATCH
    letters = torch.from_numpy(text[: count * CONTEXT]).view(-1, BATCH, CONTEXT)
    following = torch.from_numpy(text[1 : count * CONTEXT + 1]).view(-1, BATCH, CONTEXT)
    return letters, following


def validation() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Returns the batches on which `repro precision` computes the validation loss: ten batches of the test text."""
    letters, following = held_out()
    return zip(letters[:10], following[:10], strict=True)


def bigram_loss() -> float:
    """Returns the test loss (nats per letter) of a bigram model, which predicts a letter from the preceding letter
    only."""
    train, test = load()
    counts = np.ones((len(ALPHABET), len(ALPHABET)))
    np.add.at(counts, (train[:-1], train[1:]), 1)
    shares = counts / counts.sum(1, keepdims=True)
    return float(-np.log(shares[test[:-1], test[1:]]).mean())


def evaluate(model: nn.Module, target: str = "cpu", threads: int | None = None) -> float:
    """Returns the test loss in nats per letter."""
    letters, following = held_out()
    model.eval()
    program = repro_mlir.capture(model, letters[0])
    executable = repro_mlir.compile(program, target, threads)
    state = program.initial_state()
    losses = []
    for batch, answers in zip(letters, following, strict=True):
        _, outputs = executable(state, batch)
        (scores,) = outputs.values()
        losses.append(next_letter_loss(scores, answers).item())
    return sum(losses) / len(losses)


def train_eagerly(steps: int) -> None:
    """Runs the same training with PyTorch alone, for comparison."""
    model, loss_fn, optimizer, data, _ = training(steps)
    for step in range(steps):
        letters, answers = next(data)
        loss = loss_fn(model(letters), answers)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step + 1}  loss {loss.item():.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--eager", action="store_true", help="train by PyTorch alone")
    options = parser.parse_args()
    if options.eager:
        return train_eagerly(options.steps)

    # These three lines replace the forward pass, the backward pass, clipping and the optimizer's step.
    model, loss_fn, optimizer, data, extra = training(options.steps)
    trainer = repro_mlir.Trainer(model, loss_fn, optimizer, target=options.target, threads=options.threads, **extra)
    losses = trainer.fit(data, options.steps)
    # On a GPU, the state is in device memory, so it must be copied back to the model.
    trainer.sync()

    print(f"training loss  {losses[-1]:.4f} after {options.steps} steps")
    print(f"test loss      {evaluate(model, options.target, options.threads):.4f}")
    print(f"bigram model   {bigram_loss():.4f}")
    print(f"state hash     {trainer.state_hash()}")


if __name__ == "__main__":
    main()
