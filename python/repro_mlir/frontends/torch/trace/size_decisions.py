# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Handles branches in PyTorch's code on an extent that depends on tensor values, such as the row count of `x[mask]`.

PyTorch's own code has special cases for no row, one row, and few rows. All these cases give the results of the general
case, which is traced. A branch in the user's code is an error.
"""

import contextlib
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch.fx.experimental import sym_node
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

from repro_mlir.frontends.torch.base.caught_errors import note_refusal
from repro_mlir.frontends.torch.base.source_lines import is_user_file
from repro_mlir.frontends.torch.base.torch_internals import replaced

_MANY = 1_000_003
"""The number of rows that PyTorch's branches see; it differs from the extents of other tensors."""

_ASKING = (os.path.realpath(sym_node.__file__), os.path.realpath(torch.__file__))
"""The files of the Python code that compares symbolic numbers, called by the code that branches."""


def general_sizes() -> contextlib.AbstractContextManager[None]:
    """Makes PyTorch branch, within the block, on the number of rows of a selection as if there were many rows."""

    def make(former: Any) -> Callable[..., Any]:
        def evaluate(environment: Any, node: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return former(environment, node, *args, **kwargs)
            except GuardOnDataDependentSymNode as error:
                symbols = node.expr.free_symbols
                found = node.expr.xreplace(dict.fromkeys(symbols, sympy.Integer(_MANY)))
                is_python, is_users = _asking()
                if (
                    symbols - environment.size_like
                    or found not in (sympy.true, sympy.false)
                    or (is_python and is_users)
                ):
                    if is_users:
                        note_refusal(error)
                    raise
                return found

        return evaluate

    return replaced(ShapeEnv, evaluate_sym_node=make)


def _asking() -> tuple[bool, bool]:
    """Returns whether Python code compares the extent, and whether the user's code does, or calls the C++ code that
    compares it."""
    frame: types.FrameType | None = sys._getframe(2)
    last = None
    while frame is not None and os.path.realpath(frame.f_code.co_filename) in _ASKING:
        last, frame = frame, frame.f_back
    # Python code compares through torch/__init__.py; C++ code calls sym_node.py directly.
    is_python = last is not None and last.f_code.co_filename == torch.__file__
    return is_python, frame is not None and is_user_file(frame.f_code.co_filename)
