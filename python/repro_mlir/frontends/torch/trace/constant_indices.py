# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Clamps the indices of upsampled images, as PyTorch's kernels do and PyTorch's decompositions do not.

If the given scale differs from the ratio of the sizes, the last indices may lie outside of the image.
"""

from typing import Any

import torch
import torch.fx

from repro_mlir.frontends.torch.base.torch_internals import OpOverload, disable_current_modes, pytree

aten = torch.ops.aten

_READS = aten._unsafe_index.Tensor
_WRITES = {aten._unsafe_index_put.default, aten.index_put.default, aten.index_put_.default}
"""Operators in gradients that write at the indices at which `_READS` has read."""


def bound_indices(graph: torch.fx.Graph) -> None:
    """Clamps constant indices of `_unsafe_index` operators that are not all within their dimension."""
    known: dict[torch.fx.Node, Any] = {}
    for node in [*graph.nodes]:
        if node.target is not _READS or not isinstance(node.args[0], torch.fx.Node):
            continue
        shape = node.args[0].meta["val"].shape
        for dim, index in enumerate(node.args[1]):
            value = _value(index, known) if isinstance(index, torch.fx.Node) and isinstance(shape[dim], int) else None
            if value is not None and value.numel() and int(value.max()) >= shape[dim]:
                _bound(graph, index, shape[dim] - 1)


def _bound(graph: torch.fx.Graph, index: torch.fx.Node, most: int) -> None:
    with graph.inserting_after(index):
        bounded = graph.call_function(aten.clamp.default, (index, 0, most))
    bounded.meta = {**index.meta}
    for user in [*index.users]:
        if user.target is _READS or user.target in _WRITES:
            user.replace_input_with(index, bounded)


def _value(node: torch.fx.Node, known: dict[torch.fx.Node, Any]) -> Any:
    """Returns the tensor that a node computes in each step; None if it depends on an argument."""
    if node not in known:
        known[node] = _computed(node, known)
    return known[node]


def _computed(node: torch.fx.Node, known: dict[torch.fx.Node, Any]) -> Any:
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    if torch.Tag.nondeterministic_seeded in node.target.tags or node.target._schema.is_mutable:
        return None
    values = {each: _value(each, known) for each in node.all_input_nodes}
    if any(value is None for value in values.values()):
        return None
    args, kwargs = pytree.tree_map(
        lambda leaf: values[leaf] if isinstance(leaf, torch.fx.Node) else leaf, (node.args, node.kwargs)
    )
    with disable_current_modes():
        return node.target(*args, **kwargs)
