# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Data order by defined arithmetic: the same batches on every machine."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.philox import random_bits


def permutation(size: int, seed: int = 0, epoch: int = 0) -> np.ndarray:
    """(G1) A permutation of range(size): the order in which a stable sort puts the bits of (R1) at site 0.

    Args:
      size: number of elements.
      seed: any 64-bit integer.
      epoch: the step of (R1), below 2^32.
    Returns:
      i64 [size].
    """
    return np.argsort(random_bits((size,), seed, 0, epoch), kind="stable").astype(np.int64)


def batches(size: int, batch_size: int, seed: int = 0) -> Iterator[np.ndarray]:
    """(G2) Endless batches of indices below `size`: each epoch is a new permutation, its incomplete last batch is
    left out.

    Args:
      size: number of samples.
      batch_size: samples per batch, at most `size`.
      seed: any 64-bit integer.
    Yields:
      i64 [batch_size].
    Raises:
      ReproError: the batch size is not in 1..size.
    """
    if not 1 <= batch_size <= size:
        raise ReproError(f"expected a batch size from 1 to {size}, got {batch_size}")
    epoch = 0
    while True:
        order = permutation(size, seed, epoch)
        for start in range(0, size - batch_size + 1, batch_size):
            yield order[start : start + batch_size]
        epoch += 1
