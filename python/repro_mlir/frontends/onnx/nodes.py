# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Nodes of an ONNX graph and the interface through which an operator reads its node."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import torch

from repro_mlir.frontends.onnx.errors import OnnxError
from repro_mlir.frontends.onnx.values import Value, to_torch
from repro_mlir.frontends.torch.base.torch_internals import FakeTensor, disable_current_modes


@dataclass(frozen=True, eq=False)
class Node:
    """A node of an ONNX graph.

    Attributes:
      origin: the node's name in messages and locations.
      version: the operator version of the node's domain.
      attributes: Python numbers, strings and lists of both, real tensors, and graphs.
    """

    origin: str
    domain: str
    operator: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    proto: onnx.NodeProto


def is_known(value: Value) -> bool:
    """Whether a value is the same in each step: a real tensor, not a traced one."""
    if isinstance(value, list):
        return all(map(is_known, value))
    return not isinstance(value, FakeTensor)


def outside_of_trace() -> contextlib.AbstractContextManager[Any]:
    """Returns a context that computes with real tensors; its computations are not part of the program."""
    return disable_current_modes()


MOST_KNOWN = 1 << 24
"""The limit on the number of elements of a tensor that is computed before the program runs."""


def sized(shape: Sequence[int]) -> list[int]:
    """Returns the shape as a list. Raises OnnxError if a tensor of the shape would be too large."""
    if min(shape, default=0) < 0 or math.prod(shape) > MOST_KNOWN:
        raise OnnxError(f"expected from 0 to {MOST_KNOWN:,} elements, got the shape {list(shape)[:8]}")
    return list(shape)


def constant(value: Any, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Creates a real tensor from a number or nested lists of numbers."""
    with outside_of_trace():
        return torch.tensor(value, dtype=dtype)


def elements(value: torch.Tensor) -> list[Any]:
    """Returns the numbers in a real tensor."""
    with outside_of_trace():
        found: list[Any] = value.reshape(-1).tolist()
        return found


class Call:
    """One evaluation of a node: its inputs, attributes and subgraphs."""

    def __init__(
        self,
        node: Node,
        inputs: Sequence[Value],
        run_graph: Callable[[onnx.GraphProto, Sequence[Value]], list[Value]],
        spend: Callable[[int], None],
    ) -> None:
        """Wraps a node. `spend(n)` adds n to the model's number of operations, and raises OnnxError if it exceeds the
        limit. Operators call `spend` if shapes determine how many operations they emit."""
        self.node = node
        self.inputs = inputs
        self.run_graph = run_graph
        self.spend = spend
        self.version = node.version

    def __len__(self) -> int:
        return len(self.inputs)

    def require(self, count: int) -> None:
        """Raises OnnxError if `count` more operations, each counted when it is evaluated, would exceed the limit."""
        self.spend(count)
        self.spend(-count)

    def has(self, index: int) -> bool:
        """Whether the node has the input `index`."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def wants(self, index: int) -> bool:
        """Whether the model uses the output `index` of the node."""
        return index < len(self.node.outputs) and self.node.outputs[index] != ""

    def tensor(self, index: int = 0) -> torch.Tensor:
        """Returns a tensor input. Raises OnnxError for a sequence or an absent input."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(value, torch.Tensor):
            found = "a sequence" if isinstance(value, list) else "nothing"
            raise OnnxError(f"expected a tensor as input {index}, got {found}")
        return value

    def optional(self, index: int) -> torch.Tensor | None:
        """Returns a tensor input, or None if it is absent."""
        return self.tensor(index) if self.has(index) else None

    def integers(self, index: int) -> torch.Tensor:
        """Returns an integer input as i32."""
        return self.tensor(index).to(torch.int32)

    def kind(self, index: int) -> torch.dtype:
        """Returns the element type of an input."""
        return self.tensor(index).dtype

    def tensors(self) -> list[torch.Tensor]:
        """Returns all inputs as tensors."""
        return [self.tensor(index) for index in range(len(self.inputs))]

    def sequence(self, index: int = 0) -> list[torch.Tensor]:
        """Returns an input that is a sequence. Raises OnnxError for a tensor or an absent input."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(value, list):
            raise OnnxError(f"expected a sequence as input {index}, got {'nothing' if value is None else 'a tensor'}")
        return value

    def attribute(self, name: str, default: Any = None) -> Any:
        """Returns the value of an attribute; `default` if the node does not have it."""
        return self.node.attributes.get(name, default)

    def known(self, index: int) -> torch.Tensor:
        """Returns an input as a real tensor. Raises OnnxError if its values are only known when the program runs."""
        value = self.tensor(index)
        if not is_known(value):
            name = self.node.inputs[index]
            raise OnnxError(f"the values of {name!r} determine shapes or control flow: expected a constant")
        return value

    def numbers(self, index: int, name: str | None = None) -> list[Any] | None:
        """Returns the elements of an input, or else of the attribute `name`, which older operator versions have
        instead; None if the node has neither."""
        if self.has(index):
            return elements(self.known(index))
        found = self.attribute(name) if name else None
        return list(found) if isinstance(found, list | tuple) else None if found is None else [found]

    def required_numbers(self, index: int, name: str) -> list[Any]:
        """Like `numbers`, but raises OnnxError instead of returning None."""
        values = self.numbers(index, name)
        if values is None:
            raise OnnxError(f"expected {name}, got nothing")
        return values

    def number(self, index: int, name: str | None = None, default: Any = None) -> Any:
        """Returns the only element of the list that `numbers` returns; `default` if `numbers` returns None. Raises
        OnnxError unless the list has one element."""
        values = self.numbers(index, name)
        if values is None:
            return default
        if len(values) != 1:
            raise OnnxError(f"expected one number as input {index}, got {len(values)}")
        return values[0]

    def choice(self, name: str, default: str, *known: str) -> str:
        """Returns an attribute. Raises OnnxError unless it is one of the strings `known`."""
        found = str(self.attribute(name, default))
        if found not in known:
            raise OnnxError(f"{name} {found!r} is not supported, expected {' or '.join(known)}")
        return found


Operator = Callable[[Call], Any]
"""The implementation of an operator: returns the output, or a tuple with one value for each output."""


def attribute_value(attribute: onnx.AttributeProto) -> Any:
    """Converts the value of an attribute to the types that `Node.attributes` lists."""
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        with outside_of_trace():
            return to_torch(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if attribute.type == onnx.AttributeProto.STRINGS:
        return [each.decode(errors="replace") for each in value]
    if isinstance(value, onnx.GraphProto | onnx.SparseTensorProto | onnx.TypeProto):
        return value
    return list(value) if hasattr(value, "__iter__") else value
