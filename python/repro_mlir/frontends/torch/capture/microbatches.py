# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Splits batches into microbatches (B1)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repro_mlir.frontends.torch.base.batch_leaves import leaf_names
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.torch_internals import pytree
from repro_mlir.frontends.torch.objects.flat_batch import FlatBatch
from repro_mlir.program.imported import Microbatches


def first_microbatch(batch: FlatBatch, microbatches: Microbatches) -> FlatBatch:
    """Returns the first microbatch of a batch. In the result, `whole` is the batch and `cut` lists the split tensors.

    Raises:
      CaptureError: it is ambiguous which tensors are split; a name is unknown; the number of microbatches does not
        divide the first extent.
    """
    names = leaf_names(batch.given)
    tensors = {name: leaf for name, leaf in zip(names, batch.leaves, strict=True) if isinstance(leaf, torch.Tensor)}
    for name, tensor in tensors.items():
        if tensor.layout is not torch.strided:
            raise CaptureError(f"{name} is a tensor of layout {tensor.layout}, expected a dense one")
    chosen = _chosen(tensors, microbatches.inputs)
    extent = tensors[chosen[0]].shape[0]
    if extent == 0 or extent % microbatches.count:
        raise CaptureError(
            f"{chosen[0]} has {extent} rows, expected a multiple of {microbatches.count}, the number of microbatches"
        )
    size = extent // microbatches.count
    leaves = [leaf[:size] if name in chosen else leaf for name, leaf in zip(names, batch.leaves, strict=True)]
    first = FlatBatch(pytree.tree_unflatten(leaves, batch.spec))
    first.whole = batch
    first.cut = tuple(i for i, name in enumerate(tensors) if name in chosen)
    return first


def _chosen(tensors: dict[str, torch.Tensor], asked: Sequence[str] | None) -> list[str]:
    """Returns the names of the tensors that are split: those in `asked`, or by default all tensors with dimensions."""
    if asked is not None:
        for name in asked:
            if name not in tensors:
                raise CaptureError(f"expected microbatch_inputs among {', '.join(tensors)}, got {name!r}")
    chosen = [name for name, tensor in tensors.items() if (name in asked if asked is not None else tensor.dim() > 0)]
    if not chosen:
        raise CaptureError("expected a tensor in the batch that can be cut into microbatches, got none")
    extents = {name: tensors[name].shape[0] if tensors[name].dim() else None for name in chosen}
    if len({*extents.values()}) > 1 or None in extents.values():
        described = ", ".join(f"{name} of shape {list(tensors[name].shape)}" for name in chosen)
        raise CaptureError(
            f"expected tensors of the same first extent to cut into microbatches, got {described}: name the tensors "
            "to cut in microbatch_inputs"
        )
    return chosen
