# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tensors of the user's whose newer values are on a device.

Such a tensor has a subclass of its class meanwhile, as an uninitialized parameter of PyTorch has: an operator or method
that takes one brings it up to date first, wherever the caller has it from. `Trainer.sync` lists what looks at no class.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import torch

_raw = torch._C.DisableTorchFunctionSubclass

_METADATA: frozenset[Any] = frozenset(
    {
        *(
            vars(torch._C.TensorBase)[name].__get__
            for name in ("shape", "dtype", "device", "layout", "requires_grad", "is_leaf", "grad", "grad_fn", "ndim")
        ),
        vars(torch._C.TensorBase)["grad"].__set__,
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
"""What does not look at the elements: a loop that asks for it between two steps has nothing copied."""


class Resident:
    """What the class of such a tensor has beside the tensor's own one."""

    __slots__ = ()
    own: ClassVar[type[torch.Tensor]]
    group: ClassVar[Residents]
    bring_back: ClassVar[Callable[[], None]]

    def __new__(cls, *arguments: Any, **keywords: Any) -> Any:
        # As a tensor's own methods may do: a deep copy of a parameter, say.
        return cls.own(*arguments, **keywords)

    @classmethod
    @torch._disable_dynamo
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Iterable[type],
        arguments: Sequence[Any] = (),
        keywords: Mapping[str, Any] | None = None,
    ) -> Any:
        if function in _METADATA:
            with _raw():
                return function(*arguments, **(keywords or {}))
        for each in types:
            if issubclass(each, Resident):
                each.bring_back()
        return function(*arguments, **(keywords or {}))


class Residents:
    """Some tensors, all of them on a device or none."""

    def __init__(self) -> None:
        self._former: list[tuple[torch.Tensor, type]] = []
        self._reference: weakref.ref[Residents] | None = None

    def __bool__(self) -> bool:
        return bool(self._former)

    def enter(self, tensors: Iterable[torch.Tensor], bring_back: Callable[[], None]) -> None:
        """From now on the values are on a device.

        Args:
          bring_back: brings all of them up to date and calls `leave`, or raises.
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
        """The tensors have the values."""
        for tensor, kind in self._former:
            tensor.__class__ = kind
        self._former = []
        if self._reference is not None:
            _AWAY.discard(self._reference)


_AWAY: set[weakref.ref[Residents]] = set()
"""Those that are on a device. A copy of it is made in one go, whatever other threads do."""


def as_they_are() -> AbstractContextManager[None]:
    """A context in which tensors are taken as they are, also where newer values are on a device."""
    return _raw() if _AWAY else nullcontext()


def bring_others_back(model: torch.nn.Module, own: Residents | None) -> None:
    """Brings those tensors of a model up to date of which others than `own` have newer values."""
    if all(group() is own for group in tuple(_AWAY)):
        return
    for tensor in (*model.parameters(), *model.buffers()):
        kind: Any = type(tensor)
        if issubclass(kind, Resident) and kind.group is not own:
            kind.bring_back()
