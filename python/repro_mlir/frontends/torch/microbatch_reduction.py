# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a step in microbatches reduces over them (B3)."""

from __future__ import annotations

import torch
import torch.fx

from repro_mlir.frontends.torch.operations import define

_REDUCE = define(
    "reduce_microbatches(Tensor x) -> Tensor",
    eager=torch.clone,
    meta=torch.empty_like,
    write=lambda build, x: build.create("repro.reduce_microbatches", [[x]], build.types),
)


def reduce_microbatches(tensor: torch.Tensor) -> torch.Tensor:
    """The value of the whole step of one for each microbatch: of floats the mean, of others what they all have."""
    tensor = tensor.detach()
    if tensor.is_complex():
        return torch.view_as_complex(_REDUCE(torch.view_as_real(tensor)))
    return _REDUCE(tensor)


def keep_unchanged(graph: torch.fx.Graph, num_state: int) -> None:
    """State that a microbatch leaves as it is stays so: the mean of equal numbers may be another one."""
    state = [node for node in graph.nodes if node.op == "placeholder"][:num_state]
    for node in list(graph.nodes):
        if node.target is _REDUCE and origin_of_values(node) in state:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


_COPIES = {
    torch.ops.aten.clone.default,
    torch.ops.aten.alias.default,
    torch.ops.aten.detach.default,
}


def origin_of_values(node: torch.fx.Node) -> torch.fx.Node:
    """The node whose values a node has, copied or not."""
    while node.target in _COPIES or node.target is _REDUCE:
        node = node.args[0]  # type: ignore[assignment]
    return node
