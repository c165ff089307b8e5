# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Batches of random numbers and classes."""

import torch


def random_batches(count: int, size: int = 4) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Returns batches of f32 [size, 5] and classes below 3."""
    generator = torch.Generator().manual_seed(3)
    return [
        (torch.randn(size, 5, generator=generator), torch.randint(0, 3, (size,), generator=generator))
        for _ in range(count)
    ]


BATCH = random_batches(1)[0]
