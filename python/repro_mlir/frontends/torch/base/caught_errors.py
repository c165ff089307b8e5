# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Ends a capture with the first error of its trace that the user's code has caught, if eager PyTorch does not raise it.

The tensors of a trace have no values, so a trace raises errors that eager PyTorch does not raise. A step that catches
such an error would be captured without an error, on a path that it does not take in eager PyTorch. Errors are noted
where they arise: each ReproError, each error of a function of PyTorch or of an operator, and each decision on a number
that depends on tensor values. An error of PyTorch is the user's own if the function raises it for tensors with values,
too.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils.checkpoint
from torch.fx.experimental import symbolic_shapes

from repro_mlir.base.errors import OBSERVER
from repro_mlir.frontends.torch.base import torch_internals as internals
from repro_mlir.frontends.torch.base.torch_internals import pytree

_MOST_BYTES = 1 << 30
"""The maximum size of a tensor with values for which a function is called again."""

_REPEATABLE = ("aten", "prims", "prim")
"""Operators of other namespaces may have effects, so they are not called again."""


@dataclass(frozen=True)
class _Noted:
    error: Exception
    origin: str | None
    is_refusal: Callable[[], bool]


class CaughtErrors:
    """The errors of one trace."""

    def __init__(self, locate: Callable[[], str | None]) -> None:
        """Creates the object; `locate` returns the origin of the current call."""
        self.locate = locate
        self._noted: list[_Noted] = []

    def note(self, error: Exception, is_refusal: Callable[[], bool]) -> None:
        """Notes an error before the user's code sees it."""
        self._noted.append(_Noted(error, self.locate(), is_refusal))

    def first_refusal(self) -> tuple[Exception, str | None] | None:
        """Returns the first error that eager PyTorch does not raise, and its origin; None if there is none."""
        # An error that was raised while another one was handled replaces it, usually with a better message.
        replaced = {id(each.error.__context__) for each in self._noted}
        ordered = sorted(self._noted, key=lambda each: id(each.error) in replaced)
        return next(((each.error, each.origin) for each in ordered if each.is_refusal()), None)

    def has(self, error: BaseException) -> bool:
        """Whether an error was noted."""
        return any(each.error is error for each in self._noted)


_CURRENT: ContextVar[CaughtErrors | None] = ContextVar("caught_errors", default=None)


@contextlib.contextmanager
def noted_errors(locate: Callable[[], str | None]) -> Iterator[CaughtErrors]:
    """Within the block, errors are noted in the result."""
    caught = CaughtErrors(locate)
    current, observer = _CURRENT.set(caught), OBSERVER.set(note_refusal)
    try:
        yield caught
    finally:
        OBSERVER.reset(observer)
        _CURRENT.reset(current)


@contextlib.contextmanager
def own_attempt() -> Iterator[None]:
    """Within the block, errors are not noted, because this package handles them itself."""
    current, observer = _CURRENT.set(None), OBSERVER.set(None)
    try:
        yield
    finally:
        OBSERVER.reset(observer)
        _CURRENT.reset(current)


def current_origin() -> str | None:
    """Returns the origin of the current call (`source_lines.origin_of_traceback`); None outside of a trace."""
    caught = _CURRENT.get()
    return None if caught is None else caught.locate()


def note_refusal(error: Exception) -> None:
    """Notes an error that eager PyTorch does not raise."""
    caught = _CURRENT.get()
    if caught is not None:
        caught.note(error, lambda: True)


def note_error(error: Exception, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Notes an error of a function of PyTorch, which eager PyTorch may raise, too."""
    caught = _CURRENT.get()
    # The functions that run a backward pass fail only where a function that they call has failed. PyTorch ends the
    # recomputations of checkpoints by an exception.
    is_ending = type(error).__module__ == torch.utils.checkpoint.__name__
    if caught is None or caught.has(error) or function in _OF_BACKWARD or is_ending:
        return
    if isinstance(error, _OF_TRACES) or getattr(function, "namespace", "aten") not in _REPEATABLE:
        caught.note(error, lambda: True)
        return
    leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
    makers = [*map(_maker, leaves)]
    is_enabled = torch.is_grad_enabled()

    def is_refusal() -> bool:
        if None in makers:
            return True
        with (
            internals.disable_current_modes(),
            internals.DisableTorchFunction(),
            torch.set_grad_enabled(is_enabled),
            torch.random.fork_rng(devices=[]),
            own_attempt(),
        ):
            try:
                args, kwargs = pytree.tree_unflatten([make() for make in makers if make is not None], spec)
                function(*args, **kwargs)
            except Exception as found:
                return type(found) is not type(error)
        return True

    caught.note(error, is_refusal)


_OF_BACKWARD: tuple[Any, ...] = (torch.autograd.grad, torch.autograd.backward, torch.Tensor.backward)
_OF_TRACES = tuple(
    kind
    for module in (sys.modules[internals.FakeTensor.__module__], symbolic_shapes)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, RuntimeError) and kind.__module__ == module.__name__
)
"""The exceptions of PyTorch that only traces raise."""


def _maker(leaf: Any) -> Callable[[], Any] | None:
    """Returns a function that makes an argument like `leaf` with values; None if that is not possible."""
    if isinstance(leaf, torch.SymInt | torch.SymFloat | torch.SymBool):
        hint = leaf.node.hint
        return None if hint is None else lambda: hint
    if not isinstance(leaf, torch.Tensor):
        return lambda: leaf
    if leaf.layout is not torch.strided:
        return None
    with internals.DisableTorchFunction():
        numbers = [*map(_maker, (*leaf.shape, *leaf.stride()))]
        dtype, requires_grad, is_leaf = leaf.dtype, leaf.requires_grad, leaf.is_leaf
        kind = torch.nn.Parameter if isinstance(leaf, torch.nn.Parameter) else None
    if None in numbers:
        return None
    extents = [make() for make in numbers if make is not None]
    shape, strides = extents[: len(extents) // 2], extents[len(extents) // 2 :]
    reach = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)) + 1
    if reach * dtype.itemsize > _MOST_BYTES:
        return None

    def make() -> torch.Tensor:
        made = torch.zeros(max(reach, 0), dtype=dtype).as_strided(shape, strides)
        if kind is not None:
            return kind(made, requires_grad)
        made.requires_grad_(requires_grad)
        return made if is_leaf else made.clone()

    return make
