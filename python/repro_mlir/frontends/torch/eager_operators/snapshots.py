# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Restores the user's objects after a step in PyTorch."""

from __future__ import annotations

import contextlib
import random
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from repro_mlir.frontends.torch.base.torch_internals import is_traceable_wrapper_subclass

_DICTIONARIES = dict, OrderedDict, defaultdict, Counter


@contextlib.contextmanager
def restoring(model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Iterator[None]:
    """A context manager after which the model, the optimizer and random states are those from before the block.

    The model and the optimizer are their attributes, with the tensors (values and gradients), arrays, modules and
    containers of Python in them. The random states are those of PyTorch (of CUDA only if CUDA is in use), of Python and
    of NumPy. Within the block no tensor has a gradient.
    """
    snapshot = _Snapshot(model, *model.parameters(), *model.buffers(), optimizer)
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    states_of_cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        yield
    finally:
        snapshot.restore()
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])
        torch.cuda.set_rng_state_all(states_of_cuda)


class _Snapshot:
    """Copies of objects and of all tensors, arrays, modules, optimizers and containers in them."""

    def __init__(self, *roots: Any) -> None:
        self._restores: list[Callable[[], None]] = []
        # The objects are kept, so that no other object gets their address.
        self._seen: dict[int, Any] = {}
        self._storages: dict[int, torch.UntypedStorage] = {}
        pending = [*roots]
        while pending:
            value = pending.pop()
            if isinstance(value, torch.nn.Module | torch.optim.Optimizer):
                value = vars(value)
            if id(value) in self._seen:
                continue
            if isinstance(value, torch.Tensor):
                pending += self._add_tensor(value)
            elif isinstance(value, np.ndarray):
                self._restores.append(_restore_of_array(value))
            elif type(value) in (*_DICTIONARIES, list, set, deque):
                self._restores.append(_restore_of_container(value))
                pending += [*value, *value.values()] if type(value) in _DICTIONARIES else value
            elif isinstance(value, tuple):
                pending += value
            else:
                continue
            self._seen[id(value)] = value

    def restore(self) -> None:
        """Restores all objects in place."""
        with torch.no_grad():
            for each in self._restores:
                each()

    def _add_tensor(self, tensor: torch.Tensor) -> list[Any]:
        """Adds a tensor, and returns the objects in it."""
        if tensor.is_leaf:
            self._restores.append(_restore_of_leaf(tensor))
            # A step must not add to the gradients of the user.
            tensor.grad = None
        if is_traceable_wrapper_subclass(tensor):
            return [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
        if tensor.layout is not torch.strided:
            self._restores.append(_restore_of_sparse(tensor))
            return []
        self._restores.append(_restore_of_place(tensor))
        storage = tensor.untyped_storage()
        if tensor.device.type != "meta" and storage._cdata not in self._storages:
            self._storages[storage._cdata] = storage
            self._restores.append(_restore_of_storage(storage))
        return []


def _restore_of_leaf(tensor: torch.Tensor) -> Callable[[], None]:
    gradient, requires_grad = tensor.grad, tensor.requires_grad

    def restore() -> None:
        if not tensor.is_leaf:
            # The step wrote to a buffer what depends on parameters.
            if tensor._is_view():
                return
            tensor.detach_()
        tensor.requires_grad_(requires_grad)
        tensor.grad = gradient

    return restore


def _restore_of_place(tensor: torch.Tensor) -> Callable[[], None]:
    """Returns what undoes `tensor.data = other`, and changes of the shape."""
    data = tensor.data

    def restore() -> None:
        if not tensor.is_set_to(data):
            tensor.data = data

    return restore


def _restore_of_sparse(tensor: torch.Tensor) -> Callable[[], None]:
    copied = tensor.detach().clone()

    def restore() -> None:
        tensor.copy_(copied)

    return restore


def _restore_of_storage(storage: torch.UntypedStorage) -> Callable[[], None]:
    copied = storage.clone()

    def restore() -> None:
        if storage.nbytes() != copied.nbytes():
            storage.resize_(copied.nbytes())
        # Memory that nothing has changed may be read-only.
        if not torch.equal(_bytes_of(storage), _bytes_of(copied)):
            storage.copy_(copied)

    return restore


def _bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _restore_of_array(array: np.ndarray) -> Callable[[], None]:
    copied = array.copy()

    def restore() -> None:
        if array.flags.writeable:
            array[...] = copied

    return restore


def _restore_of_container(container: Any) -> Callable[[], None]:
    copied = container.copy()

    def restore() -> None:
        container.clear()
        if isinstance(container, list | deque):
            container.extend(copied)
        else:
            container.update(copied)

    return restore
