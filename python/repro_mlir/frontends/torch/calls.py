# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Calls of a program without state on tensors: outputs are allocated as tensors, and written without a copy."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from repro_mlir.frontends.torch.tensors import dtype_of, share
from repro_mlir.numerics.tensors import TensorType, is_canonical


class Executable(Protocol):
    """What runs a program without state (`execute.executable`)."""

    @property
    def takes_addresses(self) -> bool:
        """Whether `write_at` is there."""

    @property
    def moved(self) -> frozenset[int]:
        """The inputs of which elements may become elements of an output as they are."""

    def write(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """One step, with all checks."""

    def write_at(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """One step on memory at these addresses, without a check."""


class Calls:
    """A program without state that is called with tensors.

    A step of a small model has hundreds of tensors: a check of each by way of NumPy would be a tenth of its time.
    """

    def __init__(self, executable: Executable, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> None:
        self._executable = executable
        self._takes_addresses, self._moved = executable.takes_addresses, executable.moved
        self._kinds = inputs
        self._inputs = [(kind.shape, dtype_of(kind.element), kind.dtype.itemsize) for kind in inputs]
        self._outputs = [(kind.shape, dtype_of(kind.element)) for kind in outputs]

    def __call__(self, inputs: Sequence[torch.Tensor], /) -> list[torch.Tensor]:
        outputs = [torch.empty(shape, dtype=dtype, device="cpu") for shape, dtype in self._outputs]
        read = self._readable(inputs)
        if read is None:
            self._executable.write(inputs, outputs)
        else:
            addresses = [value.data_ptr() for value in read]
            self._executable.write_at(addresses, [value.data_ptr() for value in outputs])
        return outputs

    def _readable(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
        """The inputs in memory that `write_at` takes; None where `write` has to look at them."""
        if not self._takes_addresses or len(inputs) != len(self._inputs):
            return None
        read = []
        for value, (shape, dtype, itemsize) in zip(inputs, self._inputs, strict=True):
            if (
                value.dtype is not dtype
                or value.shape != shape
                or not value.is_cpu
                or value.layout is not torch.strided
            ):
                return None
            value = value.contiguous()
            if value.data_ptr() % itemsize:
                return None
            read.append(value)
        for i in self._moved:
            kind = self._kinds[i]
            if not is_canonical(share(read[i], kind, "input"), kind.element):
                return None
        return read
