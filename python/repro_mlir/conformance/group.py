# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A group of conformance vectors: the cases of one operation with the same parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]

Parameters = Mapping[str, str | int | float | bool]

Compute = Callable[[str, Arrays, Parameters], Arrays | None]
"""compute(operation, inputs, parameters) returns the outputs by name, or None if the library lacks the operation with
these parameters. Inputs and outputs have the dtypes and shapes of the group's arrays."""


@dataclass(frozen=True)
class Array:
    """An input or output of a group.

    Attributes:
      values: the elements; the first dimension numbers the cases. Codes are unsigned integers, one per element.
      format: the number format of the elements: f32, f64, the name of a format of codes (Q1), or "integer".
    """

    values: np.ndarray
    format: str = "integer"


@dataclass(frozen=True)
class Group:
    """The cases of one operation.

    Attributes:
      name: the name of the group, such as "quantize/mxfp4/floor".
      operation: the name of the operation, a key of `operations.OPERATIONS`.
      rule: the label of the rule that defines the results, such as "Q2".
      parameters: what is equal for all cases.
      inputs, outputs: the arrays by name.
      kinds: the kind of each case, as indices of `kind_names`; uint8 of shape [cases].
      open_kinds: the kinds whose results no standard defines, so that a library may differ from them.
    """

    name: str
    operation: str
    rule: str
    parameters: dict[str, Any]
    inputs: dict[str, Array]
    outputs: dict[str, Array]
    kinds: np.ndarray
    kind_names: tuple[str, ...]
    open_kinds: tuple[str, ...] = field(default=())

    @property
    def cases(self) -> int:
        """The number of cases."""
        return len(self.kinds)

    def input_values(self) -> Arrays:
        """Returns copies of the inputs, which a library may overwrite."""
        return {name: array.values.copy() for name, array in self.inputs.items()}


def file_name(group: str, array: str) -> str:
    """Returns the name of the file with the elements of an array."""
    return f"{group.replace('/', '.')}.{array}.bin"


class Cases:
    """Collects the cases of a group: parts of its input arrays, each of one kind.

    Attributes:
      names: the kinds in the order in which they were first added.
    """

    def __init__(self) -> None:
        self._parts: list[Arrays] = []
        self._kinds: list[np.ndarray] = []
        self.names: list[str] = []

    def add(self, kind: str, **inputs: np.ndarray) -> None:
        """Adds cases of one kind; the first dimension of each array numbers the cases."""
        if kind not in self.names:
            self.names.append(kind)
        count = len(next(iter(inputs.values())))
        self._parts.append(inputs)
        self._kinds.append(np.full(count, self.names.index(kind), np.uint8))

    @property
    def kinds(self) -> np.ndarray:
        """The kind of each case, as indices of `names`."""
        return np.concatenate(self._kinds)

    def array(self, name: str) -> np.ndarray:
        """Returns an input array of all cases."""
        return np.concatenate([part[name] for part in self._parts])
