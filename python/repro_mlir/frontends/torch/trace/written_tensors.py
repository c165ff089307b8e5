# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Finds the tensors that operators write in place."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.fx

from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.source_lines import origin_of_node
from repro_mlir.frontends.torch.base.torch_internals import OpOverload, pytree
from repro_mlir.frontends.torch.trace.known_values import root_of


def written_by(function: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Returns the arguments of a call to which the operator writes: tensors, or the nodes for them in a graph."""
    schema = function._schema.arguments
    given = dict(zip((each.name for each in schema), args, strict=False)) | dict(kwargs)
    names = [each.name for each in schema if each.alias_info is not None and each.alias_info.is_write]
    if function is torch.ops.aten.native_batch_norm.default and given["training"]:
        # The operator's schema does not declare these writes.
        names = ["running_mean", "running_var"]
    return [leaf for name in names for leaf in pytree.tree_leaves(given.get(name)) if leaf is not None]


def refuse_writes(graph: torch.fx.Graph, names: Sequence[str]) -> None:
    """Raises a CaptureError if a step's graph writes to constants or to the inputs, which are its last arguments;
    `names` are the names of the inputs.

    A program leaves these tensors of its caller unchanged, whereas PyTorch would change them.
    """
    arguments = [node for node in graph.nodes if node.op == "placeholder"]
    inputs = dict(zip(map(_memory, arguments[len(arguments) - len(names) :]), names, strict=True))
    for node in graph.nodes:
        if not isinstance(node.target, OpOverload):
            continue
        for root in map(root_of, written_by(node.target, node.args, node.kwargs)):
            if root.op == "get_attr":
                what, expected = "a tensor that is not state of the model", "write to a buffer of the model"
            elif _memory(root) in inputs:
                what, expected = inputs[_memory(root)], "write to a clone() of it"
            else:
                continue
            raise CaptureError(
                f"{origin_of_node(node)}: the step writes to {what}, which a compiled step does not change: {expected}"
            )


def _memory(node: torch.fx.Node) -> object:
    """Returns the memory of a node's tensor, or the node itself if the memory is not known."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return node
    return value.untyped_storage()._cdata


def refuse_new_entries(former: Mapping[str, Any], present: Mapping[str, Any]) -> None:
    """Raises a CaptureError if a step has changed a list or dict of its batch. `former` and `present` map names to
    leaves."""
    for name, value in present.items():
        if name not in former or value is not former[name]:
            raise CaptureError(
                f"the step stores another value in {name}, which a compiled step does not change: store it in a list "
                "or dict that the step creates"
            )
