# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What `torch.utils.checkpoint` computes again in the backward pass: it stays apart from what was computed before (V5).

A trace has both, as equal operators on the same tensors, which would be merged. Operators that run without gradients,
as those of a custom autograd function, are not marked: their results are kept.
"""

import sys
import types

import torch
import torch.fx
import torch.utils.checkpoint

from repro_mlir.frontends.torch.base.repro_operations import define

_MARK = "repro_recomputed"

_BARRIER = define(
    "barrier(Tensor x) -> Tensor",
    eager=torch.clone,
    meta=torch.empty_like,
    write=lambda build, x: build.create("repro.barrier", [[x]], build.types),
)


def recomputation_mark() -> dict[str, bool]:
    """The annotation of an operator that is being traced: empty where it is not computed again."""
    if torch._C._current_graph_task_id() == -1 or not torch.is_grad_enabled():
        return {}
    # Of a backward pass that is differentiated gradients are enabled as well.
    return {_MARK: True} if is_checkpointed() else {}


def is_checkpointed(boundary: types.CodeType | None = None) -> bool:
    """Whether `torch.utils.checkpoint` calls what runs now, within the innermost call of `boundary` if one is given."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not boundary:
        if frame.f_code.co_filename == torch.utils.checkpoint.__file__:
            return True
        frame = frame.f_back
    return False


def insert_barriers(graph: torch.fx.Graph) -> None:
    """Lets the operators that are marked read what others compute through barriers alone."""
    barriers: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in list(graph.nodes):
        if not _is_marked(node):
            # Each run of marked operators has its own: two of them stay apart, too.
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
