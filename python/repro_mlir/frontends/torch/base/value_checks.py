# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Turns assertions on tensor values into checks of a step (E1): `torch._assert_async`, or `assert` in torch.compile."""

import functools
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributions
import torch.fx

from repro_mlir.frontends.torch.base import torch_internals as internals
from repro_mlir.frontends.torch.base.repro_operations import Builder, define
from repro_mlir.frontends.torch.base.source_lines import is_user_file
from repro_mlir.frontends.torch.base.value_requests import with_placeholders

_UNNAMED = "an assertion failed"
_ASSERTS = (torch.ops.aten._assert_async.default, torch.ops.aten._assert_async.msg)


def is_assert(function: Any) -> bool:
    """Whether `function` is an operator that fails if its one-element tensor is false."""
    return function in _ASSERTS


def is_all_true(tensor: torch.Tensor) -> Any:
    """Replaces `torch._is_all_true`, and differs from it only in the argument validation of a distribution.

    In that validation, it returns True and adds a check to the step, because a trace has no values to validate.
    """
    caller = sys._getframe(1)
    while caller.f_code.co_name == "__torch_function__" and caller.f_back is not None:
        # Skips the frames of torch-function modes of the trace.
        caller = caller.f_back
    if caller.f_code.co_filename != torch.distributions.distribution.__file__:
        return internals.torch_is_all_true(tensor)
    known = caller.f_locals
    what = f"parameter {known['param']} of" if "param" in known else "a value is not in the support of"
    constraint = f": expected {_shown(known['constraint'])}" if "param" in known else f" ({_shown(known['support'])})"
    internals.assert_async(tensor.all(), f"{what} the distribution {type(known['self']).__name__}{constraint}")
    return True


def _shown(constraint: Any) -> str:
    """Formats a constraint as PyTorch does, or only its name if a bound is a tensor, which has no values in a trace."""
    has_tensor = any(isinstance(each, torch.Tensor) for each in vars(constraint).values())
    return type(constraint).__name__.lstrip("_") if has_tensor else repr(constraint)


def checked_numbers() -> AbstractContextManager[None]:
    """Within the block, turns `torch._check` in the user's code into a check of the step if the condition depends on
    tensor values."""

    def make(former: Any) -> Callable[..., None]:
        def check(error: Any, condition: Any, message: Callable[[], str] | None) -> None:
            # Frame 1 is `torch._check` itself, and frame 2 is its caller.
            if isinstance(condition, torch.SymBool) and is_user_file(sys._getframe(2).f_code.co_filename):
                told = _UNNAMED if message is None else _told(message)
                torch.ops.aten._assert_scalar(condition, told)
            former(error, condition, None if message is None else functools.partial(_told, message))

        return check

    return internals.replace_check_with(make)


def _told(message: Callable[[], str]) -> str:
    """Returns the message of a check, which may contain placeholders for values."""
    with with_placeholders():
        return str(message())


def checked_matrices() -> AbstractContextManager[None]:
    """Replaces, within the block, the check of `constraints.positive_definite`: PyTorch's check branches on a tensor
    value."""
    return internals.replaced(
        type(torch.distributions.constraints.positive_definite), check=lambda _: _is_positive_definite
    )


def _is_positive_definite(constraint: Any, value: torch.Tensor) -> torch.Tensor:
    symmetric = torch.isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1)
    # The Cholesky factor of a matrix that is not positive definite contains a NaN.
    return symmetric & (torch.linalg.cholesky(value.detach()).diagonal(dim1=-2, dim2=-1) > 0).all(-1)


def call_assert(condition: torch.Tensor, message: str = "") -> None:
    """Adds a check to the step that fails if `condition`, one element of any type, is zero or false."""
    _CHECK(condition.reshape(()) != 0, " ".join(message.split()) or _UNNAMED)


def _check_eager(condition: torch.Tensor, message: str) -> None:
    internals.assert_async(condition, message)


def _write(build: Builder, condition: Any, message: str) -> Sequence[Any]:
    return build.create("cf.assert", [[build.scalar(condition)]], [], {"msg": build.string(message)})


_CHECK = define(
    "check(Tensor condition, str message) -> ()",
    eager=_check_eager,
    meta=lambda condition, message: None,
    write=_write,
)
for _operator in (*_ASSERTS, _CHECK):
    # Dead-code elimination would remove these operators, because they have no results. PyTorch itself marks only one of
    # them as having side effects.
    torch.fx.node.has_side_effect(_operator)
