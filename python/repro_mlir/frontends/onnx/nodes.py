# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A node of an ONNX graph, and what an operator sees of it while it is evaluated."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from repro_mlir.frontends.onnx.errors import OnnxError
from repro_mlir.frontends.onnx.values import Value, to_torch


@dataclass(frozen=True, eq=False)
class Node:
    """A node.

    Attributes:
      origin: what messages and locations call it.
      version: of the operators of its domain.
      attributes: Python's numbers, strings and lists of them, real tensors, and graphs.
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
    """Whether a value is the same in each step: a real tensor, not one that is traced."""
    if isinstance(value, list):
        return all(map(is_known, value))
    return not isinstance(value, FakeTensor)


def outside_of_trace() -> contextlib.AbstractContextManager[Any]:
    """A block that computes with real tensors and is no part of the program."""
    return _disable_current_modes()


MOST_KNOWN = 1 << 24
"""Elements of a tensor that is computed before the program runs."""


def sized(shape: Sequence[int]) -> list[int]:
    """A shape of which a tensor may be made. OnnxError for one that is too large."""
    if min(shape, default=0) < 0 or math.prod(shape) > MOST_KNOWN:
        raise OnnxError(f"a tensor of the shape {list(shape)[:8]} is too large, or none")
    return list(shape)


def constant(value: Any, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """A real tensor of a number or of nested lists of numbers."""
    with outside_of_trace():
        return torch.tensor(value, dtype=dtype)


def elements(value: torch.Tensor) -> list[Any]:
    """The numbers in a real tensor."""
    with outside_of_trace():
        found: list[Any] = value.reshape(-1).tolist()
        return found


class Call:
    """One evaluation of a node: its inputs and attributes, and the graphs that it may run."""

    def __init__(
        self,
        node: Node,
        inputs: Sequence[Value],
        run_graph: Callable[[onnx.GraphProto, Sequence[Value]], list[Value]],
        spend: Callable[[int], None],
    ) -> None:
        """`spend`: is told how many operations follow, where a shape decides; OnnxError for too many."""
        self.node = node
        self.inputs = inputs
        self.run_graph = run_graph
        self.spend = spend
        self.version = node.version

    def __len__(self) -> int:
        return len(self.inputs)

    def require(self, count: int) -> None:
        """OnnxError where so many operations, each of which is told when it is evaluated, would be too many."""
        self.spend(count)
        self.spend(-count)

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def wants(self, index: int) -> bool:
        """Whether the output is asked for."""
        return index < len(self.node.outputs) and self.node.outputs[index] != ""

    def tensor(self, index: int = 0) -> torch.Tensor:
        value = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(value, torch.Tensor):
            found = "a sequence" if isinstance(value, list) else "nothing"
            raise OnnxError(f"expected a tensor as input {index}, got {found}")
        return value

    def optional(self, index: int) -> torch.Tensor | None:
        return self.tensor(index) if self.has(index) else None

    def integers(self, index: int) -> torch.Tensor:
        """The numbers of a tensor of integers, as i32."""
        return self.tensor(index).to(torch.int32)

    def kind(self, index: int) -> torch.dtype:
        """The element type of an input."""
        return self.tensor(index).dtype

    def tensors(self) -> list[torch.Tensor]:
        return [self.tensor(index) for index in range(len(self.inputs))]

    def sequence(self, index: int = 0) -> list[torch.Tensor]:
        value = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(value, list):
            raise OnnxError(f"expected a sequence as input {index}")
        return value

    def attribute(self, name: str, default: Any = None) -> Any:
        return self.node.attributes.get(name, default)

    def known(self, index: int) -> torch.Tensor:
        """A real tensor. OnnxError for one whose values are only known when the program runs."""
        value = self.tensor(index)
        if not is_known(value):
            name = self.node.inputs[index]
            raise OnnxError(f"the values of {name!r} decide about shapes or the way of the program: expected constants")
        return value

    def numbers(self, index: int, name: str | None = None) -> list[Any] | None:
        """The elements of an input, or of the attribute that older versions have in its place; None without it."""
        if self.has(index):
            return elements(self.known(index))
        found = self.attribute(name) if name else None
        return list(found) if isinstance(found, list | tuple) else None if found is None else [found]

    def number(self, index: int, name: str | None = None, default: Any = None) -> Any:
        """As `numbers`, of one."""
        values = self.numbers(index, name)
        if values is None:
            return default
        if len(values) != 1:
            raise OnnxError(f"expected one number as input {index}, got {len(values)}")
        return values[0]

    def choice(self, name: str, default: str, *known: str) -> str:
        """An attribute that is one of some words."""
        found = str(self.attribute(name, default))
        if found not in known:
            raise OnnxError(f"{name} {found!r} is not supported, expected {' or '.join(known)}")
        return found


Operator = Callable[[Call], Any]
"""Gives a value, or a tuple of values: one for each output."""


def attribute_value(attribute: onnx.AttributeProto) -> Any:
    """The value of an attribute as `Node.attributes` says."""
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
