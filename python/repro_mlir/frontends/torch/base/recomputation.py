# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Marks the operators that `torch.utils.checkpoint` recomputes in the backward pass, to distinguish them from the
originals (V5).

In a trace, a recomputed operator equals its original and reads the same tensors, so common-subexpression elimination
would merge the two. Operators that run without gradients, as in a custom autograd function, are not marked, because
their results are saved.
"""

import sys
import types

import torch
import torch.fx
import torch.utils.checkpoint

from repro_mlir.frontends.torch.base.repro_operations import define
from repro_mlir.frontends.torch.base.torch_internals import current_graph_task_id

_MARK = "repro_recomputed"

_BARRIER = define(
    "barrier(Tensor x) -> Tensor",
    eager=torch.clone,
    meta=torch.empty_like,
    write=lambda build, x: build.create("repro.barrier", [[x]], build.types),
)


def recomputation_mark() -> dict[str, bool]:
    """Returns the annotation for the operator that is being traced; it is empty if the operator is not recomputed."""
    if current_graph_task_id() == -1 or not torch.is_grad_enabled():
        return {}
    # Gradients are also enabled in a backward pass that is itself differentiated, so the call stack decides.
    return {_MARK: True} if is_checkpointed() else {}


def is_checkpointed(boundary: types.CodeType | None = None) -> bool:
    """Whether the current call stack contains `torch.utils.checkpoint`, up to the innermost call of `boundary`."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not boundary:
        if frame.f_code.co_filename == torch.utils.checkpoint.__file__:
            return True
        frame = frame.f_back
    return False


def insert_barriers(graph: torch.fx.Graph) -> None:
    """Inserts barriers, so that marked operators read results of unmarked operators only through a barrier."""
    barriers: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in list(graph.nodes):
        if not _is_marked(node):
            # Each sequence of marked operators has its own barriers, so that two sequences are not merged either.
            barriers.clear()
            continue
        for source in node.all_input_nodes:
            if not _is_marked(source) and isinstance(source.meta.get("val"), torch.Tensor):
                if source not in barriers:
                    barriers[source] = _barrier(graph, source, node)
                node.replace_input_with(source, barriers[source])


def _is_marked(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and _MARK in node.meta.get("custom", {})


def _barrier(graph: torch.fx.Graph, source: torch.fx.Node, reader: torch.fx.Node) -> torch.fx.Node:
    with graph.inserting_before(reader):
        barrier = graph.call_function(_BARRIER, (source,))
    barrier.meta.update({name: reader.meta[name] for name in ("stack_trace", "custom") if name in reader.meta})
    barrier.meta["val"] = source.meta["val"]
    return barrier
