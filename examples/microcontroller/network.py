# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A small network learns handwritten digits (scikit-learn's load_digits, 8x8 pixels), on a PC or on a microcontroller.

repro train examples/microcontroller/network.py --steps 200
python examples/microcontroller/network.py BATCHES   # writes the header with the batches for main.c
"""

import sys
from collections.abc import Iterator

import numpy as np
import repro_mlir
import torch
from sklearn.datasets import load_digits
from torch import nn

BATCH, BATCHES, HIDDEN = 16, 16, 32


def load() -> tuple[np.ndarray, np.ndarray]:
    """Returns BATCHES batches of pixels u8 [BATCHES, BATCH, 64] from 0 to 16, and their classes u8 [BATCHES, BATCH]."""
    digits = load_digits()
    chosen = repro_mlir.permutation(len(digits.target), seed=7)[: BATCHES * BATCH]
    images = digits.images[chosen].astype(np.uint8).reshape(BATCHES, BATCH, 64)
    return images, digits.target[chosen].astype(np.uint8).reshape(BATCHES, BATCH)


def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields the same batches again and again."""
    images, classes = load()
    while True:
        for image, of in zip(images, classes, strict=True):
            # Pixels are whole numbers up to 16, so the division is exact.
            yield torch.from_numpy(image.astype(np.float32) / 16), torch.from_numpy(of.astype(np.int64))


def training():
    """Returns what `repro train` and `repro compile` need."""
    model = nn.Sequential(nn.Linear(64, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
    model = repro_mlir.initialize(model, seed=0)
    return model, nn.functional.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), batches()


def write_batches(path: str) -> None:
    """Writes the batches as arrays of C."""
    with open(path, "w") as file:
        file.write(f"/* Written by network.py. */\nenum {{ BATCHES = {BATCHES}, BATCH = {BATCH} }};\n")
        for name, array in zip(("images", "classes"), load(), strict=True):
            extents = "".join(f"[{extent}]" for extent in array.shape)
            text = str(array.tolist()).replace("[", "{").replace("]", "}")
            file.write(f"static const unsigned char {name}{extents} = {text};\n")


if __name__ == "__main__":
    write_batches(sys.argv[1])
