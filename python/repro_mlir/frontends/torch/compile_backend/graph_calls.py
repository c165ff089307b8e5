# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Calls the program of a graph on tensors: updates states and writes outputs in place, without copies."""

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.tensors import TensorType, is_canonical
from repro_mlir.base.tensors.torch_tensors import dtype_of, element_of, share
from repro_mlir.frontends.torch.base.torch_internals import TensorGuards
from repro_mlir.frontends.torch.compile_backend.graphs import CapturedGraph, in_order
from repro_mlir.frontends.torch.objects.large_results import empty
from repro_mlir.frontends.torch.trace.representation import represented

# The type stubs of PyTorch and NumPy are wrong for these functions.
_shares_memory: Any = np.shares_memory
_address: Any = torch.Tensor.data_ptr
# For each element size in bytes, an element type that NumPy has; NumPy has no bfloat16, for example.
_SAME_SIZE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
# The limit of numpy.shares_memory's search; it corresponds to about a millisecond.
_MOST_WORK = 10_000


class Executable(Protocol):
    """An object that runs a program (`execute.executable`)."""

    @property
    def takes_addresses(self) -> bool:
        """Whether `write_at` can be called."""

    @property
    def moved(self) -> frozenset[int]:
        """The indices of the states and inputs whose elements the program may copy unchanged to a result."""

    def write(self, states: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Runs one step, with all checks."""

    def write_at(self, addresses: Sequence[int]) -> None:
        """Runs one step on the memory at these addresses, without checks."""


class Calls:
    """A program that is called with the tensors of a graph.

    A step of a small model has hundreds of tensors, and checking each in Python would take a tenth of the step's time.
    Therefore one call of Dynamo's tensor guards compares all tensors with the tensors of an earlier call, which were
    checked.
    """

    def __init__(
        self,
        executable: Executable,
        state: Sequence[TensorType],
        inputs: Sequence[TensorType],
        outputs: Sequence[TensorType],
        graph: CapturedGraph,
    ) -> None:
        self._executable = executable
        self._takes_addresses, self._moved = executable.takes_addresses, executable.moved
        self._num_state = len(state)
        self._kinds = (*state, *inputs)
        self._orders = graph.orders
        self._layouts = [(layout, kind.nbytes) for layout, kind in zip(graph.layouts, outputs, strict=True)]
        for (shape, _, dtype), kind in zip(graph.layouts, outputs, strict=True):
            # The strides need no check: the layout is dense by construction, and the program writes all elements of the
            # output.
            if element_of(dtype) != kind.element or math.prod(shape) * dtype.itemsize != kind.nbytes:
                raise ReproError(
                    f"{kind.name}: the program returns {kind.element} of shape {list(kind.shape)}, torch.compile "
                    "expects "
                    f"{str(dtype).removeprefix('torch.')} of shape {list(shape)}"
                )
        self._masks = [kind.dtype.itemsize - 1 for kind in self._kinds]
        self._sizes = [kind.nbytes for kind in self._kinds]
        self._sized = [i for i, size in enumerate(self._sizes) if size]
        self._outputs = [(kind.shape, torch.empty(kind.shape, device="meta").stride()) for kind in outputs]
        self._guards: Any = None
        # The addresses of an earlier call in which no state shared memory with another tensor.
        self._apart: list[int] = []

    def __call__(self, tensors: Sequence[torch.Tensor], /) -> list[torch.Tensor]:
        outputs = [empty(layout, size) for layout, size in self._layouts]
        addresses = self._addresses(tensors)
        if addresses is None:
            self._write(tensors, outputs)
        else:
            self._executable.write_at([*addresses, *map(_address, outputs)])
        return outputs

    def _addresses(self, tensors: Sequence[torch.Tensor]) -> list[int] | None:
        """Returns the addresses of states and inputs for `write_at`; None if only `write` can run the step."""
        if not self._takes_addresses:
            return None
        if self._guards is None or not self._guards.check(*tensors):
            if not all(map(_fits, tensors, self._kinds, self._orders)):
                return None
            # All sizes and strides are given, because the guards ignore those that are None. Dynamo's own guards do not
            # suffice: they check some parameters only by identity.
            sizes, strides = [[*each.shape] for each in tensors], [[*each.stride()] for each in tensors]
            self._guards = TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
        addresses = [*map(_address, tensors)]
        if any(map(operator.and_, addresses, self._masks)):
            return None
        for i in self._moved:
            kind = self._kinds[i]
            if not is_canonical(share(in_order(tensors[i], self._orders[i]), kind, "input"), kind.element):
                return None
        if self._num_state and addresses != self._apart:
            ends = [address + size for address, size in zip(addresses, self._sizes, strict=True)]
            self._check_apart(tensors, addresses, ends)
            self._apart = addresses
        return addresses

    def _check_apart(self, tensors: Sequence[torch.Tensor], starts: Sequence[int], ends: Sequence[int]) -> None:
        """Raises ReproError if a state shares memory with another tensor; torch.compile checks this only when it
        compiles.

        Args:
          tensors: the states, then the inputs.
          starts, ends: per tensor, the address of the first element and the address after the last element.
        """
        last = last_state = 0
        for start, i in sorted((starts[i], i) for i in self._sized):
            is_state = i < self._num_state
            if start < (last if is_state else last_state):
                break
            last = max(last, ends[i])
            if is_state:
                last_state = last
        else:
            return
        # Tensors with overlapping address ranges may still be disjoint if their elements have gaps.
        for i, j in itertools.product(range(self._num_state), self._sized):
            if i != j and starts[i] < ends[j] and starts[j] < ends[i] and _share_elements(tensors[i], tensors[j]):
                shapes = " and ".join(str(list(tensors[each].shape)) for each in (i, j))
                raise ReproError(
                    f"two arguments of a compiled function, of shapes {shapes}, share memory that it writes, but did "
                    "not when it was compiled: pass tensors that do not share memory"
                )

    def _write(self, tensors: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        if self._num_state:
            self._check_apart(tensors, [*map(_address, tensors)], [*map(_end, tensors)])
        values = [in_order(tensor, order) for tensor, order in zip(tensors, self._orders, strict=True)]
        states, inputs = values[: self._num_state], values[self._num_state :]
        updated = [*map(_dense, states)]
        made = [represented(value).as_strided(*form) for value, form in zip(outputs, self._outputs, strict=True)]
        self._executable.write(updated, [*map(_dense, inputs)], made)
        for state, value in zip(states, updated, strict=True):
            if value is not state:
                # Writes through `data`, which does not increment the version counter, because AOTAutograd already
                # increments it.
                state.data.copy_(value)


def _end(tensor: torch.Tensor) -> int:
    """Returns the address after the last element of a tensor."""
    reach = sum(stride * (extent - 1) for extent, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    return tensor.data_ptr() + reach * tensor.element_size()


def _share_elements(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors share an element; also True if the search would take too long."""
    arrays = [each.detach().view(_SAME_SIZE[each.element_size()]).numpy() for each in (a, b)]
    try:
        return bool(_shares_memory(*arrays, max_work=_MOST_WORK))
    except np.exceptions.TooHardError:
        return True


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor, or a copy if a program cannot use the tensor's memory."""
    is_dense = tensor.is_contiguous() and not tensor.is_neg() and tensor.data_ptr() % tensor.element_size() == 0
    return tensor if is_dense else tensor.resolve_neg().clone(memory_format=torch.contiguous_format)


def _fits(tensor: torch.Tensor, kind: TensorType, order: tuple[int, ...] | None) -> bool:
    """Whether a program can use the memory of a tensor directly: element type, device and layout are the program's."""
    if tensor.dtype is not dtype_of(kind) or not tensor.is_cpu or tensor.layout is not torch.strided:
        return False
    if tensor.is_neg():
        return False
    value = tensor.detach() if order is None else tensor.detach().permute(order)
    return value.shape == kind.shape and value.is_contiguous()
