# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares what two runs of an optimizer's step on fake tensors compute.

Fake tensors have no elements, so each value has an expression: the operators and the inputs from which the value was
computed. Values with equal expressions are equal for all inputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from typing import Any

import torch

from repro_mlir.frontends.torch.base.torch_internals import OpOverload, TorchDispatchMode, pytree
from repro_mlir.frontends.torch.optimizers.traced_numbers import Node
from repro_mlir.frontends.torch.trace.written_tensors import written_by


class Expressions(TorchDispatchMode):
    """The expressions of the tensors and numbers of several runs; each run is a block of this mode."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        # Expressions share most of their parts, so an index represents each part.
        self._indices: dict[Hashable, int] = {}
        # The expression of all elements of a storage. The storages are kept, so that no address is used again.
        self._contents: dict[int, tuple[torch.UntypedStorage, int]] = {}
        self._numbers: dict[Node, int] = {}
        self._unique = itertools.count()
        self._drawn = 0

    def __enter__(self) -> Any:
        self._drawn = 0
        return super().__enter__()

    def name(self, tensor: torch.Tensor, *expression: Hashable) -> None:
        """Sets the expression of the elements of a tensor."""
        if tensor.layout is not torch.strided:
            return
        storage = tensor.untyped_storage()
        self._contents[storage._cdata] = storage, self._index(expression)

    def of_tensor(self, tensor: torch.Tensor) -> Hashable:
        """Returns the expression of a tensor."""
        if tensor.layout is not torch.strided:
            return next(self._unique)
        storage = tensor.untyped_storage()
        found = self._contents.get(storage._cdata)
        if found is None:
            self.name(tensor, "unknown", next(self._unique))
            found = self._contents[storage._cdata]
        place = tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.is_conj(), tensor.is_neg()
        return found[1], tensor.dtype, place

    def of_number(self, node: Node) -> Hashable:
        """Returns the expression of a number; `note_number` must have been called for each element of a tensor."""
        if node.operation in ("leaf", "constant"):
            return node
        if node not in self._numbers:
            self._numbers[node] = self._index((node.operation, *map(self.of_number, node.operands)))
        return self._numbers[node]

    def note_number(self, node: Node, tensor: torch.Tensor) -> None:
        """Records that the program has a number as this tensor."""
        if node.operation == "tensor":
            self._numbers[node] = self._index(self.of_tensor(tensor))
        else:
            self.name(tensor, "number", self.of_number(node))

    def _index(self, expression: Hashable) -> int:
        return self._indices.setdefault(expression, len(self._indices))

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        leaves, structure = pytree.tree_flatten((args, kwargs))
        memory = {_memory(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)}
        parts = tuple(map(self._part, leaves))
        written = []
        if not isinstance(function, OpOverload):
            # An operator of higher order, such as torch.cond: its functions may read other values.
            parts = (next(self._unique),)
        else:
            written = written_by(function, args, kwargs)
            if torch.Tag.nondeterministic_seeded in function.tags:
                self._drawn += 1
                parts += (self._drawn,)
        result = function(*args, **kwargs)
        call = self._index((function, str(structure), parts))
        for position, tensor in enumerate(written):
            self.name(tensor, call, "argument", position)
        for position, tensor in enumerate(pytree.tree_leaves(result)):
            if isinstance(tensor, torch.Tensor) and _memory(tensor) not in memory:
                self.name(tensor, call, "result", position)
        return result

    def _part(self, leaf: Any) -> Hashable:
        # repr distinguishes -0.0 from 0.0 and 1 from 1.0.
        return self.of_tensor(leaf) if isinstance(leaf, torch.Tensor) else (type(leaf), repr(leaf))


def _memory(tensor: torch.Tensor) -> int | None:
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else None
