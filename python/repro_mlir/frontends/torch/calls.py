# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Calls of a program without state on tensors: outputs are allocated as tensors, and written without a copy."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from repro_mlir.frontends.torch.tensors import dtype_of
from repro_mlir.numerics.tensors import TensorType


class Stateless(Protocol):
    """What runs the program."""

    def write(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """One step; the checks are those of a call."""

    def addresses_of(self, inputs: Sequence[Any]) -> bool:
        """Whether `write_at` takes these inputs."""


class Calls:
    """A program that is called with tensors."""

    def __init__(self, executable: Any, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> None:
        self._executable = executable
        self._outputs = [(kind.shape, dtype_of(kind.element)) for kind in outputs]

    def __call__(self, inputs: Sequence[torch.Tensor], /) -> list[torch.Tensor]:
        outputs = [torch.empty(shape, dtype=dtype) for shape, dtype in self._outputs]
        self._executable.write(inputs, outputs)
        return outputs
