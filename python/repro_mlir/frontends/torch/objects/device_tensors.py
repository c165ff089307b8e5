# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""User tensors whose newest values are on a device.

The class of such a tensor is temporarily replaced by a subclass, as PyTorch does for uninitialized parameters. An
operator or method that has the tensor as an argument brings it up to date first, regardless of how the caller obtained
it. `Trainer.sync` lists the accesses that bypass the class.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import torch

from repro_mlir.frontends.torch.base.torch_internals import DisableTorchFunctionSubclass, TensorBase, disable_dynamo

_METADATA: frozenset[Any] = frozenset(
    {
        *(
            vars(TensorBase)[name].__get__
            for name in ("shape", "dtype", "device", "layout", "requires_grad", "is_leaf", "grad", "grad_fn", "ndim")
        ),
        vars(TensorBase)["grad"].__set__,
        torch.Tensor.__len__,
        torch.Tensor.dim,
        torch.Tensor.element_size,
        torch.Tensor.is_contiguous,
        torch.Tensor.is_floating_point,
        torch.Tensor.numel,
        torch.Tensor.size,
        torch.Tensor.stride,
    }
)
"""Functions that read no elements: a loop that calls them between two steps causes no copy from the device."""


class Resident:
    """The base class that is temporarily added to the class of a tensor.

    Attributes:
      own: the tensor's own class.
      group: the tensors that are brought up to date together.
      bring_back: brings the tensors of the group up to date.
    """

    __slots__ = ()
    own: ClassVar[type[torch.Tensor]]
    group: ClassVar[Residents]
    bring_back: ClassVar[Callable[[], None]]

    def __new__(cls, *arguments: Any, **keywords: Any) -> Any:
        # Methods of the tensor, such as the deep copy of a parameter, may call its class: the result has the tensor's
        # own class.
        return cls.own(*arguments, **keywords)

    @classmethod
    @disable_dynamo
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Iterable[type],
        arguments: Sequence[Any] = (),
        keywords: Mapping[str, Any] | None = None,
    ) -> Any:
        if function in _METADATA:
            with DisableTorchFunctionSubclass():
                return function(*arguments, **(keywords or {}))
        for each in types:
            if issubclass(each, Resident):
                each.bring_back()
        return function(*arguments, **(keywords or {}))


class Residents:
    """A set of tensors, either all on a device or none."""

    def __init__(self) -> None:
        self._former: list[tuple[torch.Tensor, type]] = []
        self._reference: weakref.ref[Residents] | None = None

    def __bool__(self) -> bool:
        return bool(self._former)

    def enter(self, tensors: Iterable[torch.Tensor], bring_back: Callable[[], None]) -> None:
        """Records that the values are on a device from now on.

        Args:
          bring_back: brings all tensors up to date and calls `leave`, or raises.
        """
        made: dict[type, type] = {}
        former = [(tensor, type(tensor)) for tensor in tensors if not isinstance(tensor, Resident)]
        for kind in {kind for _, kind in former}:
            body = {"__slots__": (), "own": kind, "group": self, "bring_back": staticmethod(bring_back)}
            metaclass: Any = type(kind)
            made[kind] = metaclass(kind.__name__, (Resident, kind), body)
        self._former += former
        self._reference = weakref.ref(self, _AWAY.discard)
        _AWAY.add(self._reference)
        for tensor, kind in former:
            tensor.__class__ = made[kind]

    def leave(self) -> None:
        """Records that the tensors have the newest values again, and restores their classes."""
        for tensor, kind in self._former:
            tensor.__class__ = kind
        self._former = []
        if self._reference is not None:
            _AWAY.discard(self._reference)


_AWAY: set[weakref.ref[Residents]] = set()
"""The sets of tensors that are on a device. Copying this set is atomic with respect to other threads."""


def as_they_are() -> AbstractContextManager[None]:
    """Returns a context in which accesses to tensors do not fetch newer values from a device."""
    return DisableTorchFunctionSubclass() if _AWAY else nullcontext()


def bring_others_back(model: torch.nn.Module, own: Residents | None) -> None:
    """Brings those tensors of a model up to date that are in a `Residents` object other than `own`."""
    if all(group() is own for group in tuple(_AWAY)):
        return
    for tensor in (*model.parameters(), *model.buffers()):
        kind: Any = type(tensor)
        if issubclass(kind, Resident) and kind.group is not own:
            kind.bring_back()
