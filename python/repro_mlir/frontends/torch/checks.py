# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks of values, `torch._assert_async`, which torch.compile also makes of `assert`: checks of the step (E1)."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from repro_mlir.frontends.torch.operations import Builder, define

_ASSERTS = (torch.ops.aten._assert_async.default, torch.ops.aten._assert_async.msg)


def is_assert(function: Any) -> bool:
    """Whether `function` fails where its tensor of one element is false."""
    return function in _ASSERTS


def call_assert(condition: torch.Tensor, message: str = "") -> None:
    """A check of the step: it fails where `condition`, of one element of any type, is zero or false."""
    _CHECK(condition.reshape(()) != 0, " ".join(message.split()) or "an assertion failed")


def _check_eager(condition: torch.Tensor, message: str) -> None:
    torch._assert_async(condition, message)


def _write(build: Builder, condition: Any, message: str) -> Sequence[Any]:
    return build.create("cf.assert", [[build.scalar(condition)]], [], {"msg": build.string(message)})


_CHECK = define(
    "check(Tensor condition, str message) -> ()",
    eager=_check_eager,
    meta=lambda condition, message: None,
    write=_write,
)
for _operator in (*_ASSERTS, _CHECK):
    # They have no result that anything would use, and PyTorch's own list has only one of them.
    torch.fx.node.has_side_effect(_operator)
