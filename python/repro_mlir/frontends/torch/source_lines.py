# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The user's Python source line of every operator of a trace."""

import functools
import os
import sys
import sysconfig
import types
from typing import Any

import torch
import torch.fx.traceback
from torch.utils._python_dispatch import TorchDispatchMode

_LIBRARIES = tuple(
    os.path.join(os.path.realpath(path), "")
    for path in (
        os.path.dirname(torch.__file__),
        # The build tree holds a link for each file: the folder that counts is that of what they point to.
        os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))),
        sysconfig.get_path("stdlib"),
    )
)
_PACKAGES = os.path.join(os.path.realpath(sysconfig.get_path("purelib")), "")


@functools.cache
def is_user_file(path: str) -> bool:
    """Whether code of this file is the user's, or of a package that stands between the user and PyTorch."""
    path = os.path.realpath(path)
    # The standard library's folder contains site-packages, whose other packages are the user's.
    return not path.startswith(_LIBRARIES) or (
        path.startswith(_PACKAGES) and not path.startswith((_LIBRARIES[0], _LIBRARIES[1]))
    )


def is_package_file(path: str) -> bool:
    """Whether this is a file of an installed package."""
    return os.path.realpath(path).startswith(_PACKAGES)


# Where the user's code hands over to a library, its own line is the best there is: a model of nothing but
# torch.nn modules, and the optimizer, which has no line in the user's code.
_SPEAKING = tuple(
    (os.path.join(os.path.realpath(folder), ""), name)
    for folder, name in (
        (os.path.join(os.path.dirname(torch.__file__), "nn"), "torch/nn/"),
        (os.path.dirname(os.path.realpath(__file__)), "repro_mlir/frontends/torch/"),
    )
)
_UPDATES = ("optimizers.py", "optimizer_rules.py")


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


_library_names: dict[str, str | None] = {}


def _library_name(path: str) -> str | None:
    """The name by which a library's file is shown, None for one that says nothing to the user."""
    if path not in _library_names:
        real = os.path.realpath(path)
        names = [name + real.removeprefix(folder) for folder, name in _SPEAKING if real.startswith(folder)]
        shown = names[0] if names else None
        if shown and not shown.startswith("torch/nn/") and not shown.endswith(_UPDATES):
            shown = None
        _library_names[path] = shown
    return _library_names[path]


def _is_user_frame(code: types.CodeType) -> bool:
    return not code.co_filename.startswith("<") and is_user_file(code.co_filename)


def line_of_traceback(traceback: types.TracebackType | None) -> str | None:
    """`file:line` of the innermost frame of user code below the last frame of this package, None without one."""
    found = None
    own = os.path.dirname(__file__)
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if os.path.dirname(code.co_filename) == own and found is None:
            found = ""
        elif found is not None and _is_user_frame(code):
            found = f"{source_name(code.co_filename)}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return found or None


def parse_stack_trace(stack_trace: str | None) -> str | None:
    """`file:line` of a node's `stack_trace` that this module wrote."""
    if not stack_trace:
        return None
    _, path, rest = stack_trace.split('"', 2)
    return f"{path}:{rest.removeprefix(', line ').split(',')[0]}"


class SourceLines(TorchDispatchMode):
    """Records the innermost user frame of each operator as its node's `stack_trace`.

    An operator of the backward pass gets the line of the forward operator whose gradient it computes. Without a line of
    the user there may be one of torch.nn or of the optimizer's update. The caller holds
    `torch.fx.traceback.preserve_node_meta`.
    """

    def __init__(self, boundary: types.CodeType) -> None:
        """`boundary`: code of the traced function; its callers are not looked at."""
        super().__init__()
        self._boundary = boundary
        self._lines: dict[int, str] = {}

    def _current(self) -> tuple[str | None, str | None]:
        """The lines of the user and of a library from which an operator is called."""
        library = None
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code is not self._boundary:
            code = frame.f_code
            if _is_user_frame(code):
                return _frame_line(source_name(code.co_filename), frame), library
            if library is None and (name := _library_name(code.co_filename)):
                library = _frame_line(name, frame)
            frame = frame.f_back
        return None, library

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        line, library = self._current()
        node = torch._C._current_autograd_node()
        if line is None and node is not None:
            line = self._lines.get(node._sequence_nr(), library)
        else:
            line = line or library
            if line is not None:
                # The autograd node of this operator was made just before it was dispatched.
                self._lines.setdefault(torch.autograd._get_sequence_nr() - 1, line)
        torch.fx.traceback.set_stack_trace([line] if line else [])
        return function(*args, **(kwargs or {}))


def _frame_line(path: str, frame: types.FrameType) -> str:
    return f'File "{path}", line {frame.f_lineno}, in {frame.f_code.co_name}\n'
