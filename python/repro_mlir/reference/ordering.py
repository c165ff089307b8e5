# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Ordering by a key (D2): arg-max, arg-min and stable sorting along the last axis."""

from __future__ import annotations

import numpy as np


def _nan_mask(x: np.ndarray) -> np.ndarray:
    return np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, np.bool_)


def _comparable(x: np.ndarray) -> np.ndarray:
    """Returns keys that NumPy can compare and negate: i1 as 0 and 1."""
    return x.astype(np.int64) if x.dtype == np.bool_ else x


def arg_extreme(x: np.ndarray, largest: bool) -> np.ndarray:
    """Returns the index (int64) of the largest element along the last axis, or of the smallest one if not `largest`.
    The axis must not be empty. A NaN is chosen before any number, -0 equals +0, and the first of equal elements is
    chosen.
    """
    nan = _nan_mask(x)
    key = _comparable(np.where(nan, x.dtype.type(0), x))
    # NumPy returns the first of equal elements, and treats -0 and +0 as equal.
    index = np.argmax(key, axis=-1) if largest else np.argmin(key, axis=-1)
    return np.where(nan.any(axis=-1), np.argmax(nan, axis=-1), index).astype(np.int64)


def sort_order(keys: np.ndarray, descending: bool) -> np.ndarray:
    """Returns the permutation (int64) of a stable sort along the last axis. -0 equals +0; NaNs are last in ascending
    order and first in descending order.
    """
    nan = _nan_mask(keys)
    key = _comparable(np.where(nan, keys.dtype.type(0), keys))
    if descending:
        # -x of floats and ~x of integers reverse the order without overflow.
        key = -key if key.dtype.kind == "f" else ~key
    rank = ~nan if descending else nan
    return np.lexsort((key, rank), axis=-1).astype(np.int64)
