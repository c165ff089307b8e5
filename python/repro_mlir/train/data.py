# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Computes the order of training data with arithmetic that gives the same batches on every machine."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.philox import Place
from repro_mlir.random import distributions


def permutation(size: int, seed: int = 0, epoch: int = 0) -> np.ndarray:
    """(G1) Returns a permutation of range(size): the indices in the order of a stable sort by random bits (R1), drawn
    at site 0.

    Args:
      size: the number of elements.
      seed: any 64-bit integer.
      epoch: the step of (R1), below 2^32.
    Returns:
      i64 [size].
    """
    return distributions.permutation(size, Place(seed, 0, epoch))


def batches(size: int, batch_size: int, seed: int = 0) -> Iterator[np.ndarray]:
    """(G2) Yields batches of indices below `size` without end. Each epoch has a new permutation, whose indices after
    the last whole batch are not used.

    Args:
      size: the number of samples.
      batch_size: the number of samples per batch, at most `size`.
      seed: any 64-bit integer.
    Yields:
      i64 [batch_size].
    Raises:
      ReproError: the batch size is not from 1 to `size`.
    """
    if not 1 <= batch_size <= size:
        raise ReproError(f"expected a batch size from 1 to {size}, got {batch_size}")
    epoch = 0
    while True:
        order = permutation(size, seed, epoch)
        for start in range(0, size - batch_size + 1, batch_size):
            yield order[start : start + batch_size]
        epoch += 1
