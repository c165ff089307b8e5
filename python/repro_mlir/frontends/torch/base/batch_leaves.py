# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Flattens a batch into its leaves: tensors and constants of the program."""

import enum
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from repro_mlir.base.tensors.batches import as_arguments
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.torch_internals import pytree

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
"""The types of leaves that a batch may contain; a leaf that is not a tensor or NumPy object is a program constant."""


def flatten(batch: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """Returns the leaves of a batch and the structure of the batch. NumPy arrays and scalars become tensors.

    Raises:
      CaptureError: a leaf has none of the types in `_LEAVES`, so the compiler could not detect changes in its contents.
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
    """Returns, for each leaf of a batch, a pair of its name, such as `batch[0]`, and the leaf."""
    found, _ = pytree.tree_flatten_with_path(_without_mappings(as_arguments(batch)))
    return [(f"batch{pytree.keystr(path)}", leaf) for path, leaf in found]


def leaf_names(batch: Any) -> list[str]:
    """Returns the names of the leaves of a batch."""
    return [name for name, _ in named_leaves(batch)]


def _without_mappings(batch: Any) -> Any:
    """Converts mappings other than dicts to dicts, because pytree would treat them as leaves."""

    def unwrap(leaf: Any) -> Any:
        # isinstance would read `__class__`. The placeholder of a changing string would record this access as a use of
        # the string.
        return _without_mappings(dict(leaf)) if issubclass(type(leaf), Mapping) else leaf

    return pytree.tree_map(unwrap, batch)


def _tensor_of(array: np.ndarray | np.generic) -> torch.Tensor:
    """Converts an array to a tensor. The tensor shares the array's memory if the memory is writable and PyTorch
    supports the array's byte order and strides."""
    if isinstance(array, np.ma.MaskedArray):
        raise CaptureError("the batch has a masked NumPy array, expected one without a mask")
    array = np.asarray(array)
    try:
        return torch.from_numpy(array if array.flags.writeable else array.copy())
    except (TypeError, ValueError):
        # The array has an element type unknown to PyTorch, a foreign byte order, or negative strides. The conversion
        # below removes the last two.
        pass
    try:
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), order="C"))
    except TypeError:
        raise CaptureError(f"the batch has a NumPy array of {array.dtype}, expected a type of PyTorch") from None


TENSOR_LEAF = object()
"""The marker that stands for a tensor in the list of a batch's constants."""
