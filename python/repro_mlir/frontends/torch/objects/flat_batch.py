# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The flattened batch of a step."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch

from repro_mlir.base.numerics.hashing import blake3_of, tensor_digest
from repro_mlir.base.tensors.arrays import as_array
from repro_mlir.base.tensors.torch_tensors import kind_of
from repro_mlir.frontends.torch.base.batch_leaves import flatten, leaf_names
from repro_mlir.frontends.torch.trace.representation import represented


class FlatBatch:
    """The batch of a step, flattened once.

    Attributes:
      given: the batch itself.
      leaves, spec: see `flatten`.
      kind: the properties of the batch that determine a program in addition to its constants: the structure, and for
        each leaf the shape and element type of a tensor, or None for a constant.
      whole: for a microbatch, the batch whose first microbatch it is; None for a whole batch.
      cut: for a microbatch, the indices of its tensors that are slices of the whole batch's tensors.
    """

    whole: FlatBatch | None = None
    cut: tuple[int, ...] = ()

    def __init__(self, batch: Any) -> None:
        """Flattens the batch; raises CaptureError as `flatten` does."""
        self.given = batch
        self.leaves, self.spec = flatten(batch)
        kinds = ((leaf.shape, leaf.dtype) if isinstance(leaf, torch.Tensor) else None for leaf in self.leaves)
        self.kind: Hashable = (self.spec, tuple(kinds))

    @property
    def constants(self) -> list[tuple[str, Any]]:
        """The leaves that are not tensors, with their names."""
        if all(isinstance(leaf, torch.Tensor) for leaf in self.leaves):
            return []
        named = zip(leaf_names(self.given), self.leaves, strict=True)
        return [(name, leaf) for name, leaf in named if not isinstance(leaf, torch.Tensor)]

    def digest(self) -> bytes:
        """Returns a digest that is equal for batches that no program can distinguish.

        Raises:
          ReproError: the batch has a tensor that programs do not support.
        """
        constants = repr([None if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves])
        tensors = [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]
        kinds = [kind_of(f"tensor {number} of the batch", tensor) for number, tensor in enumerate(tensors)]
        arrays = [as_array(represented(tensor), kind, "input") for tensor, kind in zip(tensors, kinds, strict=True)]
        values = [tensor_digest(array, kind.element) for array, kind in zip(arrays, kinds, strict=True)]
        return blake3_of(repr((self.kind, constants)).encode(), *values)
