# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Finds values of traced tensors that follow from constants alone, such as the counter of a loop."""

import operator
from collections.abc import Iterator
from typing import Any

import torch
import torch.fx

from repro_mlir.frontends.torch.base import torch_internals as internals

aten = torch.ops.aten

_MOST_ELEMENTS = 1024
_DEEPEST = 256

_EXACT = {
    getattr(aten, name)
    for name in (
        *("arange", "full", "full_like", "lift_fresh_copy", "lift_fresh", "new_full", "new_ones", "new_zeros"),
        *("ones", "ones_like", "scalar_tensor", "zeros", "zeros_like", "fill", "_to_copy", "clone", "detach", "alias"),
        *("expand", "permute", "reshape", "select", "slice", "squeeze", "t", "transpose", "unsqueeze", "view"),
        *("_unsafe_view", "cat", "stack", "where", "add", "sub", "rsub", "mul", "neg", "abs", "sign", "maximum"),
        *("minimum", "clamp", "amax", "amin", "all", "any", "eq", "ne", "lt", "le", "gt", "ge", "logical_and"),
        *("logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"),
    )
}
"""Operators that round each result at most once, so that any implementation computes the same result."""

_EXACT_OF_ONE = {aten.sum, aten.prod, aten.mean}
"""Operators that are exact if their operands have one element or are not floats."""


class KnownValues:
    """Finds the values of tensors of a trace if they depend on constants alone."""

    def __init__(self) -> None:
        self._values: dict[torch.fx.Node, Any] = {}

    def truth(self, tensor: torch.Tensor) -> bool | None:
        """Returns whether a tensor of one element is true; None if this is not known before the program runs."""
        mode = internals.get_proxy_mode()
        with internals.disable_current_modes(), internals.DisableTorchFunction():
            value = self._find(tensor, mode)
            return None if value is None else bool(value)

    def _find(self, tensor: torch.Tensor, mode: Any) -> torch.Tensor | None:
        """Returns the value of a small tensor that exact operators compute from constants alone; None for any other
        tensor."""
        if isinstance(tensor, internals.FunctionalTensor):
            tensor = internals.from_functional_tensor(tensor.elem)
        if not isinstance(tensor, internals.FakeTensor):
            return None
        if tensor.constant is not None:
            return tensor.constant
        slot = None if mode is None else internals.get_proxy_slot(tensor, mode.tracer, None)
        if mode is None or slot is None:
            return None
        value = self._value(slot.proxy.node, mode.tracer.root, 0)
        return value if isinstance(value, torch.Tensor) else None

    def _value(self, node: torch.fx.Node, root: Any, depth: int) -> Any:
        if _is_written(node):
            return None
        if node not in self._values:
            self._values[node] = self._computed(node, root, depth) if depth < _DEEPEST else None
        return self._values[node]

    def _computed(self, node: torch.fx.Node, root: Any, depth: int) -> Any:
        if node.op == "get_attr":
            constant = getattr(root, str(node.target))
            return constant if _is_small(constant) and not isinstance(constant, internals.FakeTensor) else None
        packet = getattr(node.target, "overloadpacket", None)
        if node.op != "call_function" or packet not in _EXACT | _EXACT_OF_ONE or not _is_small(node.meta.get("val")):
            return None
        values = {each: self._value(each, root, depth + 1) for each in node.all_input_nodes}
        if any(value is None for value in values.values()):
            return None
        if packet in _EXACT_OF_ONE and any(v.numel() != 1 and v.is_floating_point() for v in values.values()):
            return None
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
        return node.target(*args, **kwargs)  # type: ignore[operator]  # it is an operator


def follows_from_constants(node: torch.fx.Node) -> bool:
    """Returns whether a node's tensor follows from constants alone.

    Everything that is written to the tensor's memory, before or after the node and through any view, must follow from
    constants too.
    """
    seen: set[torch.fx.Node] = set()
    left = [node]
    while left:
        each = left.pop()
        if each in seen:
            continue
        seen.add(each)
        tags = getattr(each.target, "tags", ())
        if each.op == "placeholder" or torch.Tag.nondeterministic_seeded in tags:
            return False
        root = root_of(each)
        # The writers of a memory are searched only once, from the node that owns the memory.
        left += [*each.all_input_nodes, root, *(_writers(root) if each is root else ())]
    return True


def _writers(root: torch.fx.Node) -> list[torch.fx.Node]:
    """Returns the operators that write to a node's memory through any view of it."""
    return [
        user
        for user in _users(root)
        if isinstance(user.target, internals.OpOverload) and user.target._schema.is_mutable
    ]


def root_of(node: torch.fx.Node) -> torch.fx.Node:
    """Returns the node that owns the memory of a node's tensor."""
    while (_is_view(node) or _writes_first(node)) and isinstance(node.args[0], torch.fx.Node):
        node = node.args[0]
    return node


def _writes_first(node: torch.fx.Node) -> bool:
    """Returns whether an operator writes to its first argument and returns that argument."""
    target = node.target
    if not isinstance(target, internals.OpOverload) or not target._schema.arguments:
        return False
    first, results = target._schema.arguments[0], target._schema.returns
    return bool(results and first.alias_info and first.alias_info.is_write and results[0].alias_info)


def _users(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """Yields the operators that read a node's tensor or views of it."""
    left = [node]
    while left:
        for user in left.pop().users:
            yield user
            if _is_view(user) or _writes_first(user):
                left.append(user)


def _is_small(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() <= _MOST_ELEMENTS


def _is_written(node: torch.fx.Node) -> bool:
    """Returns whether an operator writes to the memory of a node's tensor through any view of it."""
    return bool(_writers(root_of(node)))


def _is_view(node: torch.fx.Node) -> bool:
    """Returns whether a node returns views of its first argument, or one element of that argument."""
    target = node.target
    return target is operator.getitem or (isinstance(target, internals.OpOverload) and target.is_view)
