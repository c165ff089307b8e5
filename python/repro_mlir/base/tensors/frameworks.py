# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tensors of frameworks that the user gives in place of NumPy arrays.

A module that knows the tensors of a package, such as `base/tensors/torch_tensors.py`, is loaded where the process has
imported that package.
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

if TYPE_CHECKING:
    from repro_mlir.base.numerics.tensors import TensorType

_MODULES = {"torch": ".torch_tensors", "ml_dtypes": ".typed_arrays"}
"""By the package that is imported, the module that knows its tensors."""


class TensorModule(Protocol):
    """What a module that knows the tensors of a framework has."""

    def is_tensor(self, value: object) -> bool:
        """Whether a value is a tensor of the framework."""

    def share(self, tensor: Any, kind: TensorType, what: str) -> np.ndarray:
        """The tensor as an array that shares its memory, of any shape; arguments and errors as of `as_array`.

        Raises:
          ReproError: a tensor of another element type, or one that has no values in the memory of the CPU.
        """

    def to_tensor(self, array: np.ndarray, kind: TensorType) -> Any:
        """The tensor of this kind that shares the memory of a C-contiguous array of a program."""


def tensor_module_of(value: object) -> TensorModule | None:
    """The module that knows the framework of this tensor; None for anything else."""
    for package, name in _MODULES.items():
        if package in sys.modules:
            module = _load(name)
            if module.is_tensor(value):
                return module
    return None


@functools.cache
def _load(name: str) -> TensorModule:
    return cast(TensorModule, importlib.import_module(name, __package__))
