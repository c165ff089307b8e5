# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The leaves of a batch: tensors, and constants of the program."""

import enum
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree

from repro_mlir.base.tensors.batches import as_arguments
from repro_mlir.frontends.torch.base.errors import CaptureError

_LEAVES = (
    torch.Tensor,
    np.ndarray,
    np.generic,
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    torch.dtype,
    torch.device,
    enum.Enum,
)
"""What a batch may hold; what is neither tensor nor NumPy's is a constant of the program."""


def flatten(batch: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """The leaves of a batch as arguments, arrays and numbers of NumPy as tensors, and its structure.

    Raises:
      CaptureError: a leaf that is none of `_LEAVES`: what is in it could change without a trace.
    """
    arguments = as_arguments(batch)
    leaves, spec = pytree.tree_flatten(arguments)
    if any(isinstance(leaf, Mapping) for leaf in leaves):
        leaves, spec = pytree.tree_flatten(_without_mappings(arguments))
    for leaf in leaves:
        if not isinstance(leaf, _LEAVES):
            raise CaptureError(
                f"the batch has a {type(leaf).__name__}, expected tensors, NumPy arrays, numbers, strings and None, in "
                "tuples, lists and mappings"
            )
    return [_tensor_of(leaf) if isinstance(leaf, np.ndarray | np.generic) else leaf for leaf in leaves], spec


def named_leaves(batch: Any) -> list[tuple[str, Any]]:
    """The leaves of a batch with their names, such as `batch[0]`."""
    found, _ = pytree.tree_flatten_with_path(_without_mappings(as_arguments(batch)))
    return [(f"batch{pytree.keystr(path)}", leaf) for path, leaf in found]


def leaf_names(batch: Any) -> list[str]:
    """The name of each leaf of a batch."""
    return [name for name, _ in named_leaves(batch)]


def _without_mappings(batch: Any) -> Any:
    """With dicts in the place of mappings of other classes, which would be leaves."""

    def unwrap(leaf: Any) -> Any:
        # isinstance would ask a string that stands for others for its class.
        return _without_mappings(dict(leaf)) if issubclass(type(leaf), Mapping) else leaf

    return pytree.tree_map(unwrap, batch)


def _tensor_of(array: np.ndarray | np.generic) -> torch.Tensor:
    """A tensor of the array's elements, in its memory where that can be written."""
    if isinstance(array, np.ma.MaskedArray):
        raise CaptureError("the batch has a masked NumPy array, expected one without a mask")
    array = np.asarray(array)
    try:
        return torch.from_numpy(array if array.flags.writeable else array.copy())
    except (TypeError, ValueError):
        # Another type than torch's, another byte order, or strides below 0.
        pass
    try:
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), order="C"))
    except TypeError:
        raise CaptureError(f"the batch has a NumPy array of {array.dtype}, which no tensor has") from None


TENSOR_LEAF = object()
"""Stands for a leaf that is a tensor among the constants of a batch."""
