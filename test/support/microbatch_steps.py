# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Small steps in microbatches that use every feature: sums, statistics, integers, random numbers."""

from __future__ import annotations

import functools

import numpy as np
import repro_mlir
import torch
from repro_mlir.program.microbatches import MicrobatchProgram


class Counting(torch.nn.Module):
    """Counts the positive elements of its inputs in an integer buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += (x > 0).sum()
        return x


@functools.cache
def program_of(
    count: int, accumulate: int = 1, dtype: torch.dtype = torch.float32, counts: bool = False
) -> MicrobatchProgram:
    """Returns the step of a small classifier, with 2 rows per microbatch."""
    torch.manual_seed(0)
    layers: list[torch.nn.Module] = [torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU()]
    layers += [torch.nn.Dropout(0.3), *([Counting()] if counts else []), torch.nn.Linear(8, 3)]
    model = torch.nn.Sequential(*layers).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loss = torch.nn.functional.cross_entropy
    trainer = repro_mlir.Trainer(model, loss, optimizer, microbatches=count, accumulate=accumulate, clip_norm=1.0)
    program = trainer.prepare(torch.randn(2 * count, 6, dtype=dtype), torch.arange(2 * count) % 3)
    assert isinstance(program, MicrobatchProgram)
    return program


def values_of(program: MicrobatchProgram, seed: int = 0) -> list[np.ndarray]:
    """Returns random inputs of a step: hyper-parameters between 0 and 1, rows of very different magnitudes, and class
    numbers."""
    draw, arrays = np.random.default_rng(seed), []
    for i, kind in enumerate(program.inputs):
        if kind.element == "i64":
            array = draw.integers(0, 3, kind.shape)
        elif i < program.num_hyper_parameters:
            array = draw.uniform(0.01, 0.99, kind.shape)
        else:
            array = draw.standard_normal(kind.shape) * 10.0 ** draw.integers(-3, 3, kind.shape)
        if kind.element == "bf16":
            array = torch.from_numpy(np.asarray(array)).to(torch.bfloat16).view(torch.int16).numpy().view(kind.dtype)
        arrays.append(np.asarray(array).astype(kind.dtype, copy=False))
    return arrays
