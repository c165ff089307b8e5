# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Results of a step other than the loss: outputs of the program, and the structure that the user receives."""

from __future__ import annotations

import copy
import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.printing import kind_of
from repro_mlir.base.tensors.torch_tensors import to_tensor
from repro_mlir.frontends.torch.base.capture_options import RETURNED, Returned
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.torch_internals import pytree

_CONSTANTS = bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size, enum.Enum


def fill_gradients(model: torch.nn.Module, gradients: Mapping[str, torch.Tensor]) -> None:
    """Sets the attribute `grad` of the parameters, as `loss.backward()` does after `zero_grad()`."""
    for name, parameter in model.named_parameters():
        parameter.grad = gradients.get(name)


def returned_by(names: Iterable[str]) -> tuple[Returned, ...]:
    """Returns the requested results that correspond to the output names of a program."""
    kinds = {name.partition("[")[0].partition(".")[0] for name in names}
    return tuple(name for name in RETURNED if name in kinds or (name == "outputs" and "output" in kinds))


@dataclasses.dataclass(frozen=True)
class _Place:
    """Replaces a tensor in a structure of results; stands for the program's output at the index `position`."""

    position: int


class Results:
    """Collects the outputs of a step while the step is traced.

    Attributes:
      names, tensors: the names and tensors of the outputs.
      structure: the added values, keyed by name, with a `_Place` instead of each tensor; `read_results` reads it.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.tensors: list[torch.Tensor] = []
        self.structure: dict[str, Any] = {}

    def append(self, name: str, tensor: torch.Tensor) -> _Place:
        """Adds one output and returns its placeholder."""
        self.names.append(name)
        self.tensors.append(tensor)
        return _Place(len(self.tensors) - 1)

    def append_all(self, name: str, value: Any) -> None:
        """Adds each tensor in a value as an output, whose name is `name` followed by the tensor's path in the value."""
        for path, tensor in _tensors(value):
            self.append(name + pytree.keystr(path), tensor)

    def add(self, key: str, value: Any, name: str | None = None) -> None:
        """Adds a value with tensors; the names of its outputs begin with `name`, by default the key.

        Raises:
          CaptureError: the value contains an object that is not a tensor, constant or known container.
        """

        def place(path: tuple[Any, ...], tensor: torch.Tensor) -> _Place:
            return self.append((name or key) + pytree.keystr(path), tensor)

        self.structure[key] = _replace(value, torch.Tensor, place)


def read_results(
    structure: Mapping[str, Any], kinds: Sequence[TensorType], arrays: Sequence[np.ndarray]
) -> dict[str, Any]:
    """Returns a step's results as the user receives them: the structure with new tensors instead of placeholders.

    Args:
      structure: see `Results`.
      kinds, arrays: the types and values of the program's outputs.
    """

    def tensor(_: tuple[Any, ...], place: _Place) -> torch.Tensor:
        return to_tensor(arrays[place.position].copy(), kinds[place.position])

    return {key: _replace(value, _Place, tensor) for key, value in structure.items()}


def _children(value: Any) -> tuple[list[tuple[tuple[Any, ...], Any]], pytree.TreeSpec | None]:
    """Returns the direct children of a pytree container with their keys, and the container's structure.

    The structure is None if the value is not a container.
    """
    children, spec = pytree.tree_flatten(value, is_leaf=lambda each: each is not value)
    if len(children) == 1 and children[0] is value:
        return [], None
    try:
        return pytree.tree_flatten_with_path(value, is_leaf=lambda each: each is not value)[0], spec
    except ValueError:
        # The container's class is registered with pytree without a function that returns keys.
        is_mapping = isinstance(value, Mapping) and len(value) == len(children)
        keys: Iterable[Any] = (
            map(pytree.MappingKey, value) if is_mapping else map(pytree.SequenceKey, range(len(children)))
        )
        return [((key,), each) for key, each in zip(keys, children, strict=True)], spec


def _tensors(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], torch.Tensor]]:
    """Yields the tensors in a value with their paths."""
    if isinstance(value, torch.Tensor):
        yield path, value
        return
    for key, each in _children(value)[0]:
        yield from _tensors(each, path + key)


def _replace(
    value: Any, kind: type, function: Callable[[tuple[Any, ...], Any], Any], path: tuple[Any, ...] = ()
) -> Any:
    """Returns a copy of a value in which the result of `function` replaces each object of class `kind`. Looks into
    tuples, lists, mappings and dataclasses."""
    if isinstance(value, kind):
        return function(path, value)
    if isinstance(value, _CONSTANTS):
        return value
    children, spec = _children(value)
    if spec is not None:
        return pytree.tree_unflatten([_replace(each, kind, function, path + key) for key, each in children], spec)
    if isinstance(value, Mapping):
        return {key: _replace(each, kind, function, (*path, pytree.MappingKey(key))) for key, each in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        result = copy.copy(value)
        for field in dataclasses.fields(value):
            inner = (*path, pytree.GetAttrKey(field.name))
            # object.__setattr__ also works if the dataclass is frozen.
            object.__setattr__(result, field.name, _replace(getattr(value, field.name), kind, function, inner))
        return result
    raise CaptureError(
        f"the model returns {kind_of(value)}, expected outputs of tensors and numbers in tuples, lists, "
        "mappings and dataclasses"
    )
