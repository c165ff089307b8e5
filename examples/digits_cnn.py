# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A convolutional network learns handwritten digits (scikit-learn's load_digits, 8x8 pixels).

python examples/digits_cnn.py [--steps N] [--target T] [--threads N] [--eager]
repro train examples/digits_cnn.py --steps 300
"""

import argparse
from collections.abc import Iterator

import numpy as np
import repro_mlir
import torch
from sklearn.datasets import load_digits
from torch import nn

BATCH = 64
TRAINING_SAMPLES = 1437


def load() -> tuple[torch.Tensor, torch.Tensor]:
    """Returns images f32 [1797, 1, 8, 8] from 0 to 1 and classes i64 [1797], shuffled."""
    digits = load_digits()
    order = repro_mlir.permutation(len(digits.target), seed=7)
    # Pixels are whole numbers up to 16, so the division is exact.
    images = (digits.images[order] / 16).astype(np.float32)[:, None]
    return torch.from_numpy(images), torch.from_numpy(digits.target[order].astype(np.int64))


def build_model() -> nn.Module:
    model = nn.Sequential(
        nn.Conv2d(1, 24, kernel_size=3, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.Conv2d(24, 48, kernel_size=3, padding=1),
        nn.BatchNorm2d(48),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(48 * 4 * 4, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    return repro_mlir.initialize(model, seed=0)


def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields batches of (images, classes) without end."""
    images, classes = load()
    for chosen in repro_mlir.batches(TRAINING_SAMPLES, BATCH, seed=1):
        yield images[chosen], classes[chosen]


def training(steps: int = 300):
    """Returns what `repro train` needs: the model, the loss function, the optimizer and the batches."""
    model = build_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return model, nn.functional.cross_entropy, optimizer, batches()


def evaluate(model: nn.Module, target: str = "cpu", threads: int | None = None) -> float:
    """Returns the share of the 360 test images that the model classifies correctly."""
    images, classes = load()
    images, classes = images[TRAINING_SAMPLES:], classes[TRAINING_SAMPLES:]
    model.eval()
    program = repro_mlir.capture(model, images)
    _, outputs = repro_mlir.compile(program, target, threads)(program.initial_state(), images)
    (scores,) = outputs.values()
    return int((scores.argmax(1) == classes).sum()) / len(classes)


def train_eagerly(steps: int) -> None:
    """Runs the same training with PyTorch alone, for comparison."""
    model, loss_fn, optimizer, data = training(steps)
    for step in range(steps):
        images, classes = next(data)
        loss = loss_fn(model(images), classes)
        optimizer.zero_grad()
        loss.backward()
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

    # These three lines replace the forward pass, the backward pass and the optimizer's step.
    model, loss_fn, optimizer, data = training(options.steps)
    trainer = repro_mlir.Trainer(model, loss_fn, optimizer, target=options.target, threads=options.threads)
    losses = trainer.fit(data, options.steps)
    # On a GPU, the state is in device memory, so it must be copied back to the model.
    trainer.sync()

    print(f"loss           {losses[-1]:.4f} after {options.steps} steps")
    print(f"test accuracy  {100 * evaluate(model, options.target, options.threads):.1f} %")
    print(f"state hash     {trainer.state_hash()}")


if __name__ == "__main__":
    main()
