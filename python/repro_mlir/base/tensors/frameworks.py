# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tensors of frameworks that the user passes instead of NumPy arrays.

The module that converts the tensors of a package, such as `base/tensors/torch_tensors.py`, is loaded only if the
process has imported that package.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from repro_mlir.base.numerics.tensors import TensorType

_MODULES = {"torch": ".torch_tensors", "ml_dtypes": ".typed_arrays"}
"""The module that converts the tensors of a package, by the name of the package."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class TensorModule(Protocol):
    """The interface of a module that converts the tensors of a framework."""

    def is_tensor(self, value: object) -> bool:
        """Returns whether a value is a tensor of the framework."""

    def share(self, tensor: Any, kind: TensorType, what: str) -> np.ndarray:
        """Returns the tensor as an array of any shape that shares the tensor's memory; arguments as for `as_array`.

        Raises:
          ReproError: the tensor has another element type, or has no values in CPU memory.
        """

    def to_tensor(self, array: np.ndarray, kind: TensorType) -> Any:
        """Returns a tensor of type `kind` that shares the memory of a C-contiguous array of a program."""


def tensor_module_of(value: object) -> TensorModule | None:
    """Returns the module that converts this tensor of a framework; None for any other value."""
    for package, name in _MODULES.items():
        if package in sys.modules:
            module = _load(name)
            if module.is_tensor(value):
                return module
    return None


def not_traced(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Returns a function that torch.compile calls as it is, because it cannot trace what the function does."""

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        # The module of the tracer, which is imported when torch.compile is first used, and takes seconds to import.
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        framework: Any = sys.modules["torch"]
        return cast(Result, framework.compiler.disable(function)(*args, **kwargs))

    return call


@functools.cache
def _load(name: str) -> TensorModule:
    return cast(TensorModule, importlib.import_module(name, __package__))
