# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Traces repeated calls once: the nodes that the first call recorded are copied for the other calls.

Equal layers, and the updates of their parameters, call the same operators on tensors of the same shapes. Copying the
nodes of a graph takes a tenth of the time that PyTorch needs to record them.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from repro_mlir.frontends.torch.base import torch_internals as internals
from repro_mlir.frontends.torch.base.torch_internals import pytree


def only_computes(nodes: Iterable[torch.fx.Node]) -> bool:
    """Returns whether no operator among the nodes writes to an argument or calls functions."""
    targets = [node.target for node in nodes if node.op == "call_function"]
    schemas = [target._schema for target in targets if isinstance(target, internals.OpOverload)]
    return not any(isinstance(target, internals.HigherOrderOperator) for target in targets) and not any(
        schema.is_mutable for schema in schemas
    )


@dataclass(frozen=True)
class _Record:
    """The nodes that a call recorded.

    Attributes:
      arguments: the nodes of the call's tensors, without duplicates.
      nodes: the nodes that the call added to the graph, in order.
      results: a tree of nodes and of values that are not tensors.
    """

    arguments: tuple[torch.fx.Node, ...]
    nodes: tuple[torch.fx.Node, ...]
    results: Any


class Repeats:
    """The repeated calls within a function that make_fx is tracing on fake tensors.

    A call must only compute: the nodes that it records depend only on its key and on the shapes, strides and element
    types of its tensors, and it reads no other tensors. Tensors are passed and returned as nodes of the trace's graph;
    each node has a fake tensor.
    """

    def __init__(self) -> None:
        mode = internals.get_proxy_mode()
        assert mode is not None, "expected to be traced by make_fx"
        self._tracer = mode.tracer
        self._graph: torch.fx.Graph = mode.tracer.graph
        self._records: dict[Hashable, _Record | None] = {}
        self._tensors: dict[torch.fx.Node, torch.Tensor] = {}
        self._kinds: dict[torch.fx.Node, Hashable] = {}
        self._constants: set[torch.fx.Node] = set()

    def node_of(self, tensor: torch.Tensor) -> torch.fx.Node | None:
        """Returns the node that computes a tensor of the trace; None for a tensor that the trace does not know."""
        slot = internals.get_proxy_slot(tensor, self._tracer, None)
        if slot is None:
            return None
        node: torch.fx.Node = slot.proxy.node
        self._tensors.setdefault(node, tensor)
        if slot.constant is not None:
            # A call on this node is not copied: PyTorch computes with the constant and may return its value to the
            # caller.
            self._constants.add(node)
        return node

    def tensor_of(self, node: torch.fx.Node) -> torch.Tensor:
        """Returns the fake tensor of a node, on which operators can be called."""
        tensor = self._tensors.get(node)
        if tensor is None:
            like = node.meta["val"]
            tensor = self._tensors[node] = _empty(like, like.fake_mode)
            internals.track_tensor(tensor, torch.fx.Proxy(node, self._tracer), constant=None, tracer=self._tracer)
        return tensor

    def call(self, key: Hashable, function: Callable[..., Any], values: Sequence[Any]) -> Any:
        """Calls `function` on `values`. Returns the results as a tree of nodes and of values that are not tensors.

        Args:
          key: identifies the function and the values that are not nodes.
          function: receives the values, with tensors instead of nodes.
          values: nodes, and values that are not tensors.
        """
        arguments = [value for value in values if isinstance(value, torch.fx.Node)]
        distinct = tuple(dict.fromkeys(arguments))
        kinds = tuple(self._kind(node) for node in distinct)
        if None in kinds:
            return self._recorded(function, values, distinct)[0]
        # A call can also detect that two of its arguments are the same tensor.
        whole = key, kinds, tuple(distinct.index(node) for node in arguments)
        if whole not in self._records:
            results, self._records[whole] = self._recorded(function, values, distinct)
            return results
        record = self._records[whole]
        return self._recorded(function, values, distinct)[0] if record is None else self._copied(record, distinct)

    def uncopied(self, function: Callable[..., Any], values: Sequence[Any]) -> Any:
        """Returns the results of `function` as `call` does, but always traces it."""
        return self._recorded(function, values, ())[0]

    def call_on_tensors(self, key: Hashable, function: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> Any:
        """Returns the results of `function` for tensors. Uses `call` if the trace knows all of the tensors."""
        nodes = [self.node_of(tensor) for tensor in tensors]
        if None in nodes:
            return function(*tensors)
        return pytree.tree_map_only(torch.fx.Node, self.tensor_of, self.call(key, function, nodes))

    def _kind(self, node: torch.fx.Node) -> Hashable:
        """Returns the properties of a node's tensor on which a call may depend; None if a call may depend on more, such
        as the elements of a constant or symbolic sizes."""
        if node in self._constants:
            return None
        if node not in self._kinds:
            self._kinds[node] = _kind(node.meta.get("val"))
        return self._kinds[node]

    def _recorded(
        self, function: Callable[..., Any], values: Sequence[Any], arguments: tuple[torch.fx.Node, ...]
    ) -> tuple[Any, _Record | None]:
        """Returns the results of a call, and its record if the call can be copied."""
        last = self._last()
        given = function(*(self.tensor_of(value) if isinstance(value, torch.fx.Node) else value for value in values))
        results = pytree.tree_map_only(torch.Tensor, lambda tensor: self.node_of(tensor) or tensor, given)
        nodes = []
        node = self._last()
        while node is not last:
            nodes.append(node)
            node = node.prev
        nodes.reverse()
        inside = {*arguments, *nodes}
        is_closed = all(node.op == "call_function" and inside.issuperset(node.all_input_nodes) for node in nodes)
        is_known = all(
            each in inside and each not in self._constants if isinstance(each, torch.fx.Node) else each is None
            for each in pytree.tree_leaves(results)
        )
        if not is_closed or not is_known or not only_computes(nodes):
            return results, None
        return results, _Record(arguments, tuple(nodes), results)

    def _copied(self, record: _Record, arguments: tuple[torch.fx.Node, ...]) -> Any:
        present = torch.fx.traceback.get_current_meta()
        copies = dict(zip(record.arguments, arguments, strict=True))
        for node in record.nodes:
            copy = copies[node] = self._graph.node_copy(node, copies.__getitem__)
            for name in ("stack_trace", "custom"):
                copy.meta.pop(name, None)
                if name in present:
                    copy.meta[name] = present[name]
        return pytree.tree_map_only(torch.fx.Node, copies.__getitem__, record.results)

    def _last(self) -> torch.fx.Node:
        return self._graph._root.prev


def _kind(value: Any) -> Hashable:
    """Returns the properties of a fake tensor on which a call may depend; None for complex tensors, symbolic sizes and
    other values."""
    if type(value) is not internals.FakeTensor or value.layout is not torch.strided or value.is_complex():
        return None
    if value._has_symbolic_sizes_strides:
        return None
    return value.dtype, tuple(value.shape), value.stride(), value.storage_offset()


def _empty(like: torch.Tensor, mode: internals.FakeTensorMode) -> torch.Tensor:
    """Creates a fake tensor that has the properties of `like`, but its own memory."""
    with internals.disable_current_modes(), mode:
        reach = sum((extent - 1) * stride for extent, stride in zip(like.shape, like.stride(), strict=True)) + 1
        memory = torch.empty([like.storage_offset() + max(reach, 0)], dtype=like.dtype, device=like.device)
        return memory.as_strided(like.shape, like.stride(), like.storage_offset())
