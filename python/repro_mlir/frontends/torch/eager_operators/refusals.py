# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Finds the operators of a step that the compiler refuses, if it refuses the step.

A capture ends at the first refused operator. Each different operator of the step is therefore captured again, as a
model of its own, on tensors of the same shapes and element types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from repro_mlir.base.errors import ReproError
from repro_mlir.frontends.torch.base.torch_internals import pytree
from repro_mlir.frontends.torch.capture.programs import capture
from repro_mlir.frontends.torch.eager_operators.recording import Call, arithmetic_of, full_name, record_calls
from repro_mlir.frontends.torch.trace.compositions import Compositions
from repro_mlir.frontends.torch.trace.tracing import tracing_environment

_MOST_CAPTURES = 64
"""The largest number of captures: a step of many refused operators takes bounded time."""


@dataclass
class Tried:
    """The calls of one operator with the same types and arguments, as the frontend would trace them.

    Attributes:
      name: the name of the operator, such as "aten.add".
      place: the user's line, module or phase of the first call.
      count, arithmetic: as for `Executed`.
      refusal: the reason for which the compiler refuses the operator; None if it accepts the operator.
      is_tried: whether the operator was captured; False after `_MOST_CAPTURES` captures.
    """

    name: str
    place: str
    count: int = 0
    arithmetic: int = 0
    refusal: str | None = None
    is_tried: bool = False


def tried_operators(function: Callable[[], Any], modules: Mapping[int, str]) -> list[Tried]:
    """Runs a function, captures each of its operators alone, and returns what the compiler said, in order of the
    calls.

    Raises:
      CaptureError: the function fails.
    """
    found: dict[Any, tuple[_Alone, Tried]] = {}

    def note(call: Call, _: bool) -> None:
        alone = _Alone(call)
        tried = found.setdefault(alone.key, (alone, Tried(full_name(call.operator), call.place)))[1]
        tried.count += 1
        tried.arithmetic += arithmetic_of(call)

    with tracing_environment(), Compositions():
        record_calls(function, modules, note)
    _try([*found.values()], [_MOST_CAPTURES])
    return [tried for _, tried in found.values()]


def _try(operators: Sequence[tuple[_Alone, Tried]], left: list[int]) -> None:
    """Captures operators together; if the compiler refuses them, captures each half.

    Args:
      left: its only entry is the number of captures that remain.
    """
    if not operators or not left[0]:
        return
    left[0] -= 1
    try:
        capture(_Together([alone for alone, _ in operators]), tuple(_examples(operators)))
    except ReproError as error:
        if len(operators) == 1:
            _, tried = operators[0]
            tried.refusal, tried.is_tried = _reason(str(error)), True
            return
        middle = len(operators) // 2
        _try(operators[:middle], left)
        _try(operators[middle:], left)
    else:
        for _, tried in operators:
            tried.is_tried = True


def _reason(message: str) -> str:
    """Removes the place in this file from a message: the place of the user's call is known."""
    return message.removeprefix("module operators: ").removeprefix("model: ")


class _Alone:
    """An operator with its arguments, without the values of tensors.

    Attributes:
      key: equal for calls that the compiler treats alike.
      types: the shapes and element types of the tensors among the arguments.
    """

    def __init__(self, call: Call) -> None:
        self._operator = call.operator
        leaves, self._spec = pytree.tree_flatten((call.args, dict(call.kwargs)))
        self._leaves = [_TENSOR if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        self.types = [(tuple(tensor.shape), tensor.dtype) for tensor in tensors]
        kinds = tuple((len(shape), element) for shape, element in self.types)
        self.key = (self._operator, self._spec, tuple(map(repr, self._leaves)), kinds)

    def call(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Calls the operator on tensors, and returns the tensors that it returns."""
        # The operator may write to its operands, which are inputs of the model.
        remaining = iter([tensor.clone() for tensor in tensors])
        leaves = [next(remaining) if leaf is _TENSOR else leaf for leaf in self._leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        found = pytree.tree_leaves(self._operator(*args, **kwargs))
        # The user's code reads a number that an operator returns; a capture would ignore a number that nothing reads.
        return [leaf if isinstance(leaf, torch.Tensor) else torch.full((), leaf) for leaf in found if leaf is not None]


class _Tensor:
    """Stands for a tensor among the arguments of an operator."""

    def __repr__(self) -> str:
        return "tensor"


_TENSOR = _Tensor()


class _Together(torch.nn.Module):
    """A model that calls operators, each on inputs of its own."""

    def __init__(self, operators: Sequence[_Alone]) -> None:
        super().__init__()
        self._operators = operators

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        remaining = iter(inputs)
        results = []
        for each in self._operators:
            results += each.call([next(remaining) for _ in each.types])
        return results or [torch.zeros(())]


def _examples(operators: Sequence[tuple[_Alone, Tried]]) -> list[torch.Tensor]:
    """Returns tensors without defined values: a capture reads only their types."""
    return [torch.empty(shape, dtype=element) for alone, _ in operators for shape, element in alone.types]
