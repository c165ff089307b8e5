# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Where every operator of a trace comes from: the user's Python line, or what of the model or the step it computes.

A step of nothing but torch.nn modules, and the update of torch.optim, have no line of the user. Lines of PyTorch or of
this package would say nothing to the user, so that such an operator is named by its module or by its phase.
"""

import contextlib
import contextvars
import functools
import os
import re
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.fx.traceback
from torch.utils._python_dispatch import TorchDispatchMode

from repro_mlir.frontends.torch.base.recomputation import recomputation_mark

_LIBRARIES = tuple(
    os.path.join(os.path.realpath(path), "")
    for path in (
        os.path.dirname(torch.__file__),
        # The build tree holds a link for each file: the folder that counts is that of what they point to.
        str(Path(__file__).resolve().parents[3]),
        sysconfig.get_path("stdlib"),
    )
)
_FRONTEND = os.path.join(Path(__file__).parents[1], "")
_PACKAGES = os.path.join(os.path.realpath(sysconfig.get_path("purelib")), "")
_BENEATH = tuple(os.path.join(_PACKAGES, name, "") for name in ("mpmath", "numpy", "sympy", "torch_mlir"))
"""Packages that PyTorch and this package compute with, which run in a trace as their code does."""


@functools.cache
def is_user_file(path: str) -> bool:
    """Whether code of this file is the user's, or of a package that stands between the user and PyTorch."""
    path = os.path.realpath(path)
    if path.startswith((_LIBRARIES[0], _LIBRARIES[1], *_BENEATH)):
        return False
    # The standard library's folder may contain site-packages, whose other packages are the user's.
    return path.startswith(_PACKAGES) or not path.startswith(_LIBRARIES[2])


@functools.cache
def is_standard_file(path: str) -> bool:
    """Whether this is a file of Python's standard library, or code without a file that it has made."""
    path = os.path.realpath(path) if not path.startswith("<frozen") else path
    return path.startswith(("<frozen", _LIBRARIES[2])) and not path.startswith(_PACKAGES)


@functools.cache
def is_package_file(path: str) -> bool:
    """Whether this is a file of an installed package."""
    return os.path.realpath(path).startswith(_PACKAGES)


@functools.cache
def source_name(path: str) -> str:
    """The name under which a file of the user is written: its path below the folder from which Python imports it.

    For a script and the modules beside it that is the script's folder: a program says nothing of the machine on which
    it was captured. A file from elsewhere has its last part alone.
    """
    real = os.path.realpath(path)
    folders = [os.path.join(os.path.realpath(folder), "") for folder in sys.path]
    inside = [folder for folder in folders if real.startswith(folder)]
    return real.removeprefix(max(inside, key=len)) if inside else os.path.basename(real)


_PHASE = contextvars.ContextVar("phase", default="step")


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Names the operators that are called inside and have neither a line of the user nor a module."""
    token = _PHASE.set(name)
    # For nodes that are copied, with no operator called.
    torch.fx.traceback.set_stack_trace([name])
    try:
        yield
    finally:
        _PHASE.reset(token)


WHOLE = "model"
"""The name of the whole model."""


def module_names(model: torch.nn.Module) -> dict[int, str]:
    """The name of each module of `model` in messages, by the module's id."""
    return {id(module): f"module {name}" if name else WHOLE for name, module in model.named_modules()}


def named_modules(name: str, module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """A module and those inside of it, by the paths from a name."""
    return ((f"{name}.{path}" if path else name, inner) for path, inner in module.named_modules())


def _is_user_frame(code: types.CodeType) -> bool:
    return not code.co_filename.startswith("<") and is_user_file(code.co_filename)


def _module_of(frame: types.FrameType, modules: Mapping[int, str]) -> str | None:
    """The name of the module of which this frame runs a method."""
    return modules.get(id(frame.f_locals.get("self")))


def origin_of_traceback(traceback: types.TracebackType | None, modules: Mapping[int, str]) -> str | None:
    """`file:line` of the innermost frame of user code below the first frame of this package, and the module of the
    innermost frame that has one; None without either."""
    line = module = None
    inside = False
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code.co_filename.startswith(_FRONTEND):
            inside = True
        elif inside and _is_user_frame(frame.f_code):
            line = f"{source_name(frame.f_code.co_filename)}:{traceback.tb_lineno}"
        if inside:
            module = _module_of(frame, modules) or module
        traceback = traceback.tb_next
    return _origin(line, module)


def _origin(line: str | None, module: str | None) -> str | None:
    """A line and the module beside it, unless that is the whole model."""
    return f"{line}: {module}" if line and module and module != WHOLE else line or module


def user_line() -> str | None:
    """`file:line` of the innermost frame of user code that calls this package within a trace; None without one."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_FRONTEND):
        frame = frame.f_back
    while frame is not None and not frame.f_code.co_filename.startswith(_FRONTEND):
        if _is_user_frame(frame.f_code):
            return f"{source_name(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


_MODULE = "repro_mlir.module"
_LINE = re.compile(r'File "([^"]*)", line (\d+)')


def origin_of_node(node: torch.fx.Node) -> str | None:
    """Where a node comes from, as `origin_of_traceback` says it."""
    origin = origin_of_trace(node.stack_trace)
    return origin if origin == module_of(node) else _origin(origin, module_of(node))


def origin_of_trace(stack_trace: str | None) -> str | None:
    """`file:line`, module or phase of a node's `stack_trace` that this module wrote."""
    line = _LINE.match(stack_trace or "")
    return f"{line[1]}:{line[2]}" if line else stack_trace or None


def module_of(node: torch.fx.Node) -> str | None:
    """The name, as of `module_names`, of the module whose forward called an operator; None where none did."""
    module: str | None = node.meta.get("custom", {}).get(_MODULE)
    return module


class SourceLines(TorchDispatchMode):
    """Records where each operator comes from as its node's `stack_trace`, and the module that calls it (`module_of`).

    Where it comes from is the innermost frame of user code; without one, the innermost module; without that, the phase.
    An operator of the backward pass has what the forward operator has whose gradient it computes. One that is computed
    again has its mark (`recomputation`). The caller holds `torch.fx.traceback.preserve_node_meta`.
    """

    def __init__(self, boundary: types.CodeType, modules: Mapping[int, str]) -> None:
        """`boundary`: code of the traced function, whose callers are not looked at. `modules`: of `module_names`."""
        super().__init__()
        self._boundary = boundary
        self._modules = modules
        self._origins: dict[int, tuple[str, str | None]] = {}

    def _current(self) -> tuple[str | None, str | None]:
        """The line of the user and the module from which an operator is called."""
        line = module = None
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code is not self._boundary and not (line and module):
            code = frame.f_code
            module = module or _module_of(frame, self._modules)
            if line is None and _is_user_frame(code):
                line = f'File "{source_name(code.co_filename)}", line {frame.f_lineno}, in {code.co_name}\n'
            frame = frame.f_back
        return line, module

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        line, module = self._current()
        node = torch._C._current_autograd_node()
        if line is None and node is not None:
            origin, module = self._origins.get(node._sequence_nr(), (module or "backward pass", module))
        else:
            origin = line or module or _PHASE.get()
            # The autograd node of this operator was made just before it was dispatched.
            self._origins.setdefault(torch.autograd._get_sequence_nr() - 1, (origin, module))
        torch.fx.traceback.set_stack_trace([origin])
        with torch.fx.traceback.annotate({_MODULE: module} | recomputation_mark()):
            return function(*args, **(kwargs or {}))
