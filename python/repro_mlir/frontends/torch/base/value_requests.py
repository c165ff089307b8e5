# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Errors for Python code that requests the values of a traced tensor, which has none; the messages suggest a
replacement."""

import contextlib
import contextvars
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, free_unbacked_symbols
from torch.nn.modules import batchnorm

from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import kind_of
from repro_mlir.frontends.torch.base.errors import CaptureError, one_line
from repro_mlir.frontends.torch.base.source_lines import (
    is_package_file,
    is_standard_file,
    is_user_file,
    is_user_frame,
    origin_of_node,
)
from repro_mlir.frontends.torch.base.torch_internals import (
    DataDependentOutputException,
    FakeTensor,
    get_proxy_mode,
    get_proxy_slot,
    replaced,
)

_DEPENDS = "control flow or a shape depends on tensor values"
PAGE = "docs/guides/decisions.md"
_Tensor: Any = torch.Tensor

_TEXT = (
    "the value of a tensor is formatted as text, and a step has values only when it runs: print the loss that "
    f"Trainer.step returns, and other values through metrics= ({PAGE})"
)

_MEMORY = (
    "the memory of a tensor is read or written, as data_ptr, storage, pickle, copy.deepcopy and torch.load do: do it "
    "outside of the step; x.clone() copies a tensor"
)

_REQUESTS: dict[Any, str] = {
    _Tensor.__bool__: f"{_DEPENDS}: if, while, and, or, not or assert uses a tensor; use torch.where(condition, "
    f"a, b), or torch._assert_async for a check ({PAGE})",
    _Tensor.__int__: f"{_DEPENDS}: int() is called on a tensor; use the tensor itself, as in x[index], or masks over "
    f"all rows ({PAGE})",
    _Tensor.__index__: f"{_DEPENDS}: range() or a slice uses a tensor; use a fixed number of steps and "
    f"torch.where(step < count, new, old) ({PAGE})",
    _Tensor.__float__: f"{_DEPENDS}: float() is called on a tensor; use the tensor itself, x.detach() if it needs "
    f"no gradient; to print a loss, use that which Trainer.step returns ({PAGE})",
    _Tensor.__len__: f"{_DEPENDS}: len() is called on rows that a mask selects; use x[mask].shape[0] or mask.sum() "
    f"({PAGE})",
    _Tensor.__repr__: _TEXT,
    _Tensor.__format__: _TEXT,
    _Tensor.tolist: f"{_DEPENDS}: .tolist() is called on a tensor; use operations on the tensor ({PAGE})",
    _Tensor.numpy: f"{_DEPENDS}: .numpy() is called on a tensor; use operations of torch ({PAGE})",
    _Tensor.__array__: f"{_DEPENDS}: a NumPy function is called on a tensor; use operations of torch ({PAGE})",
    **dict.fromkeys((_Tensor.__reduce_ex__, _Tensor.__deepcopy__, _Tensor.__dlpack__), _MEMORY),
    **dict.fromkeys((_Tensor.data_ptr, _Tensor.untyped_storage, _Tensor.storage), _MEMORY),
}


_CUMULATIVE = (
    "batch normalization with momentum=None, a cumulative average, is not supported in training: expected a number, "
    "such as momentum=0.1"
)

_KNOWN = {
    "unsupported format string passed to": _TEXT,
    "for index, but got torch.float": "indices or classes are a float tensor, expected integers: x.long() converts "
    "them; as probabilities, they have the shape of the model's output",
    "expected target dtype to be Long": "the classes are integers of another type than int64: y.long() converts them",
    "one of the following scalar types: Long, Int": "the indices have another type than int64: x.long() converts them",
    "mean(): could not infer output dtype": "the mean of integers is computed, expected floats: y.float() converts "
    "targets of a loss, such as binary_cross_entropy",
    "multi-target not supported": "the classes have more than one dimension, expected one class for each row of the "
    "model's output: targets.squeeze(1) turns the shape [N, 1] into [N]",
    "numpy() is not supported for tensor subclasses": _REQUESTS[_Tensor.__array__],
    "Multiple dispatch failed": "a tensor of a subclass of torch.Tensor is read: convert it to a plain tensor "
    "before the step with x.as_subclass(torch.Tensor)",
    "Please convert all Tensors to FakeTensors": "a tensor that is neither an argument nor state of the step is "
    "read: expected a parameter or buffer of the model, or a tensor in optimizer.state",
    "<class 'torch.storage.": _MEMORY,
    "Cannot access data pointer of Tensor": _MEMORY,
}
"""Parts of PyTorch's messages about its internal tensor classes, each with the message that replaces it."""

_INTERNAL = (AssertionError, AttributeError, KeyError, NotImplementedError)
"""Errors that PyTorch's Python code raises where it does not support tracing."""


def reason_of(error: Exception | SystemExit) -> str:
    """Returns a one-line message for an error in a trace; replaces PyTorch's messages about values that a trace does
    not have."""
    if isinstance(error, ReproError):
        return str(error)
    if isinstance(error, SystemExit):
        return f"the step ends the process ({error!r}): leave out the call of exit()"
    if isinstance(error, DataDependentOutputException):
        name = str(error.func).removeprefix("aten.").partition(".")[0]
        return f"{_DEPENDS} ({name}): use operations on tensors instead of a decision in Python ({PAGE})"
    if isinstance(error, GuardOnDataDependentSymNode):
        return (
            f"{_DEPENDS}: Python code branches on a computed number; use torch.where(condition, a, b) on tensors, "
            f"without .item(), .tolist() or .shape of a selection ({PAGE})"
        )
    if isinstance(error, IndexError) and "SymInt" in str(error):
        return f"{_DEPENDS}: a Python index is a computed number; use a tensor, as in x[index] without .item() ({PAGE})"
    if "at least two devices" in str(error) and "meta" in str(error):
        return (
            "a tensor is on the device meta, which has no values: build the model on the CPU, or call "
            "model.to_empty(device='cpu') and load its weights"
        )
    for part, reason in _KNOWN.items():
        if part in str(error):
            return reason
    if isinstance(error, _INTERNAL) and not _is_raised_by_user(error.__traceback__):
        return f"the function that is called here cannot be captured: it raises {one_line(error)}"
    return one_line(error)


def _is_raised_by_user(traceback: types.TracebackType | None) -> bool:
    """Whether the user's code, or a function written in C that the user's code called, raised an error."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is None or is_user_file(traceback.tb_frame.f_code.co_filename)


def no_tensor(what: str, value: Any) -> str:
    """Returns the message for a result `value`, called `what`, that is a number or other object instead of a tensor."""
    mode = get_proxy_mode()
    if mode is None or not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return f"{what} is {kind_of(value)}, expected a tensor"
    slot: Any = get_proxy_slot(value, mode.tracer, None)
    origin = None if slot is None else origin_of_node(slot.force().node)
    place = f"{origin}: " if origin else ""
    return f"{place}{what} is a Python number, expected a tensor: leave out .item() or float() ({PAGE})"


def _caller() -> str:
    """Returns the file with the code that called a PyTorch function. A torch-function mode of the trace must be
    handling this call."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name == "__torch_function__":
        frame = frame.f_back
    return "" if frame is None else frame.f_code.co_filename


def _shows_user(frame: types.FrameType | None) -> bool:
    """Whether the user's code, not that of a package, asked for a text. The functions of PyTorch that lead from `repr`
    to a torch-function mode do not count."""
    if _PLACEHOLDERS.get():
        return False
    while frame is not None and (
        frame.f_code.co_name == "__torch_function__" or frame.f_code.co_filename in _LEADING_FILES
    ):
        frame = frame.f_back
    return frame is not None and is_user_frame(frame.f_code) and not is_package_file(frame.f_code.co_filename)


def _is_asked_by_user(frame: types.FrameType | None) -> bool:
    """Whether the user's code called a function of PyTorch, directly or through Python's library or `torch.save`."""
    while frame is not None and (
        frame.f_code.co_name == "__torch_function__"
        or frame.f_code.co_filename in (*_LEADING_FILES, torch.serialization.__file__)
        or is_standard_file(frame.f_code.co_filename)
    ):
        frame = frame.f_back
    return frame is not None and is_user_frame(frame.f_code)


_LEADING_FILES = (sys.modules["torch._tensor"].__file__, torch.overrides.__file__)


_PLACEHOLDERS = contextvars.ContextVar("placeholders", default=False)


@contextlib.contextmanager
def with_placeholders() -> Iterator[None]:
    """Within the block, a text may contain a placeholder for a value, such as the message of a check."""
    token = _PLACEHOLDERS.set(True)
    try:
        yield
    finally:
        _PLACEHOLDERS.reset(token)


@contextlib.contextmanager
def numbers_without_values() -> Iterator[None]:
    """Within the block, a number that depends on tensor values, such as `loss.item()`, is a Python number for
    `isinstance` in the user's code; `str`, `print`, `hash` and similar functions raise CaptureError. PyTorch's class
    would be found, and a placeholder, such as `zuf0`, would be returned."""

    def shown(former: Callable[[Any], str]) -> Callable[[Any], str]:
        def text(number: Any) -> str:
            if _shows_user(sys._getframe(1)) and free_unbacked_symbols(number):
                raise CaptureError(_TEXT)
            return former(number)

        return text

    def hashed(former: Callable[[Any], int]) -> Callable[[Any], int]:
        def hash_of(number: Any) -> int:
            if _shows_user(sys._getframe(1)) and free_unbacked_symbols(number):
                raise CaptureError(_HASH)
            return former(number)

        return hash_of

    with contextlib.ExitStack() as stack:
        for kind, shown_kind in _PYTHON_KINDS.items():
            stack.enter_context(replaced(kind, __repr__=shown, __hash__=hashed))
            kind.__getattribute__ = _with_class(kind, shown_kind)
            stack.callback(delattr, kind, "__getattribute__")
        yield


_PYTHON_KINDS: dict[Any, type] = {torch.SymBool: bool, torch.SymFloat: float, torch.SymInt: int}
_HASH = (
    f"{_DEPENDS}: a computed number is hashed, as a key of a dict is; use operations on the tensor, without .item() "
    f"({PAGE})"
)
_OBJECT = f"{_DEPENDS}: a function of Python's library gets a computed number; leave out .item() ({PAGE})"


def _with_class(kind: type, shown: type) -> Callable[[Any, str], Any]:
    """Returns a `__getattribute__` with which `isinstance` takes a computed number for one of the Python type `shown`.
    An attribute that only Python's numbers have raises CaptureError."""

    def get(number: Any, name: str) -> Any:
        if name == "__class__":
            frame = sys._getframe(1)
            if _is_asked_by_user(frame) and free_unbacked_symbols(number):
                if is_standard_file(frame.f_code.co_filename):
                    raise CaptureError(_OBJECT)
                return shown
        try:
            return object.__getattribute__(number, name)
        except AttributeError:
            if hasattr(shown, name) and _is_asked_by_user(sys._getframe(1)):
                raise CaptureError(
                    f"{_DEPENDS}: a computed number has no .{name}; leave out .item() ({PAGE})"
                ) from None
            raise

    return get


def is_request(function: Any) -> bool:
    """Whether a function of PyTorch returns the values of a tensor to Python."""
    return function in _REQUESTS


def answered(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Calls a function for which `is_request` holds, and returns the result.

    Raises:
      CaptureError: the requested values depend on tensor values of the step.
    """
    if _REQUESTS[function] is _TEXT:
        if isinstance(args[0], FakeTensor) and _shows_user(sys._getframe(1)):
            raise CaptureError(_TEXT)
        return function(*args, **kwargs)
    if _REQUESTS[function] is _MEMORY:
        if isinstance(args[0], FakeTensor) and _is_asked_by_user(sys._getframe(1)):
            raise CaptureError(_MEMORY)
        return function(*args, **kwargs)
    try:
        return function(*args, **kwargs)
    except (DataDependentOutputException, GuardOnDataDependentSymNode):
        is_average = function is _Tensor.__float__ and _caller() == batchnorm.__file__
        raise CaptureError(_CUMULATIVE if is_average else _REQUESTS[function]) from None
    except RuntimeError as error:
        # PyTorch's messages for .numpy() and .tolist() name internal tensor classes, so they are replaced.
        if function not in (_Tensor.numpy, _Tensor.tolist, _Tensor.__array__) or args[0].requires_grad:
            raise
        raise CaptureError(_REQUESTS[function]) from error
