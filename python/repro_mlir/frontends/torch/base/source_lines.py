# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Records the origin of every operator of a trace: the user's Python line, a module of the model, or a phase.

A step that consists only of torch.nn modules, and the update of torch.optim, run no line of the user's code. Lines of
PyTorch or of this package would not help the user, so the origin of such an operator is the module or the phase.
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

from repro_mlir.frontends.torch.base import torch_internals as internals
from repro_mlir.frontends.torch.base.caught_errors import note_error
from repro_mlir.frontends.torch.base.recomputation import recomputation_mark

_LIBRARIES = tuple(
    os.path.join(os.path.realpath(path), "")
    for path in (
        os.path.dirname(torch.__file__),
        # The build tree contains a symbolic link per file; resolve() leads to the folder of the source files.
        str(Path(__file__).resolve().parents[3]),
        sysconfig.get_path("stdlib"),
    )
)
_FRONTEND = os.path.join(Path(__file__).parents[1], "")
_PACKAGES = os.path.join(os.path.realpath(sysconfig.get_path("purelib")), "")
_BENEATH = tuple(os.path.join(_PACKAGES, name, "") for name in ("mpmath", "numpy", "sympy", "torch_mlir"))
"""Packages that PyTorch and this package use internally; their code in a trace does not count as the user's code."""


@functools.cache
def is_user_file(path: str) -> bool:
    """Whether a file contains code of the user, or of a package that uses PyTorch."""
    path = os.path.realpath(path)
    if path.startswith((_LIBRARIES[0], _LIBRARIES[1], *_BENEATH)):
        return False
    # The folder of the standard library may contain site-packages, whose other packages count as the user's code.
    return path.startswith(_PACKAGES) or not path.startswith(_LIBRARIES[2])


@functools.cache
def is_standard_file(path: str) -> bool:
    """Whether a file belongs to Python's standard library; frozen modules count too."""
    path = os.path.realpath(path) if not path.startswith("<frozen") else path
    return path.startswith(("<frozen", _LIBRARIES[2])) and not path.startswith(_PACKAGES)


@functools.cache
def is_package_file(path: str) -> bool:
    """Whether a file belongs to an installed package."""
    return os.path.realpath(path).startswith(_PACKAGES)


@functools.cache
def source_name(path: str) -> str:
    """Returns the name of a user's file in messages and locations: its path relative to the folder of `sys.path` that
    contains it.

    For a script and the modules next to it, this is the script's folder. A program therefore contains no paths of the
    machine on which it was captured. A file outside of `sys.path` is named by its base name.
    """
    real = os.path.realpath(path)
    folders = [os.path.join(os.path.realpath(folder), "") for folder in sys.path]
    inside = [folder for folder in folders if real.startswith(folder)]
    return real.removeprefix(max(inside, key=len)) if inside else os.path.basename(real)


_PHASE = contextvars.ContextVar("phase", default="step")


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Within the block, operators that have neither a line of the user's code nor a module get the origin `name`."""
    token = _PHASE.set(name)
    # Nodes that are copied get this origin too; no operator is called for them, so `SourceLines` does not see them.
    torch.fx.traceback.set_stack_trace([name])
    try:
        yield
    except Exception as error:
        vars(error).setdefault(_PHASE_OF_ERROR, name)
        raise
    finally:
        _PHASE.reset(token)


_PHASE_OF_ERROR = "repro_mlir_phase"


def phase_of_error(error: BaseException) -> str | None:
    """Returns the innermost phase that an error has left; None if there is none."""
    name: str | None = vars(error).get(_PHASE_OF_ERROR)
    return name


WHOLE = "model"
"""The name of the whole model in messages."""


def module_names(model: torch.nn.Module) -> dict[int, str]:
    """Returns the names of the modules of `model` in messages, keyed by the modules' ids."""
    return {id(module): f"module {name}" if name else WHOLE for name, module in model.named_modules()}


def named_modules(name: str, module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yields a module, named `name`, and its submodules, named by their paths below `name`."""
    return ((f"{name}.{path}" if path else name, inner) for path, inner in module.named_modules())


def is_user_frame(code: types.CodeType) -> bool:
    """Whether the code of a frame lies in a file of the user, or of a package that uses PyTorch."""
    return not code.co_filename.startswith("<") and is_user_file(code.co_filename)


def _module_of_frame(frame: types.FrameType, modules: Mapping[int, str]) -> str | None:
    """Returns the name of the module whose method this frame runs; None if it runs no method of a module."""
    return modules.get(id(frame.f_locals.get("self")))


def layer_of_traceback(traceback: types.TracebackType | None, modules: Mapping[int, str]) -> str | None:
    """Returns the layer of torch.nn in which an error was raised, and the shape of its input, such as
    "Linear(in_features=8, out_features=16, bias=True) gets [4, 9] of torch.float32"; None if no layer raised it."""
    frame = None
    while traceback is not None:
        if _module_of_frame(traceback.tb_frame, modules) is not None:
            frame = traceback.tb_frame
        elif is_user_frame(traceback.tb_frame.f_code):
            frame = None
        traceback = traceback.tb_next
    if frame is None or not type(frame.f_locals["self"]).__module__.startswith("torch.nn."):
        return None
    layer = frame.f_locals["self"]
    names = frame.f_code.co_varnames[1 : frame.f_code.co_argcount]
    given = next((value for name in names if isinstance(value := frame.f_locals.get(name), torch.Tensor)), None)
    if given is None or layer._modules:
        return None
    return f"{type(layer).__name__}({layer.extra_repr()}) gets {[*given.shape]} of {given.dtype}"


def origin_of_traceback(traceback: types.TracebackType | None, modules: Mapping[int, str]) -> str | None:
    """Returns the origin of an error: the user's line and the module, or one of them; None if there is neither.

    The line is `file:line` of the innermost frame of user code below the first frame of this package. The module is
    that of the innermost frame that runs a module's method.
    """
    line = module = None
    inside = False
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code.co_filename.startswith(_FRONTEND):
            inside = True
        elif inside and is_user_frame(frame.f_code):
            line = f"{source_name(frame.f_code.co_filename)}:{traceback.tb_lineno}"
        if inside:
            module = _module_of_frame(frame, modules) or module
        traceback = traceback.tb_next
    return _origin(line, module)


def _origin(line: str | None, module: str | None) -> str | None:
    """Joins a line and a module; omits the module if it is the whole model."""
    return f"{line}: {module}" if line and module and module != WHOLE else line or module


def origin_of_frame(boundary: types.FrameType, modules: Mapping[int, str]) -> str | None:
    """Returns the origin of the current call, in the format of `origin_of_traceback`. Frames from `boundary` outwards
    are ignored."""
    line = module = None
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame is not boundary and not (line and module):
        module = module or _module_of_frame(frame, modules)
        if line is None and is_user_frame(frame.f_code):
            line = f"{source_name(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return _origin(line, module)


def user_line() -> str | None:
    """Returns `file:line` of the innermost frame of user code that calls this package within a trace; None if there is
    none."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_FRONTEND):
        frame = frame.f_back
    while frame is not None and not frame.f_code.co_filename.startswith(_FRONTEND):
        if is_user_frame(frame.f_code):
            return f"{source_name(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


_MODULE = "repro_mlir.module"
_LINE = re.compile(r'File "([^"]*)", line (\d+)')


def origin_of_node(node: torch.fx.Node) -> str | None:
    """Returns the origin of a node, in the format of `origin_of_traceback`."""
    origin = origin_of_trace(node.stack_trace)
    return origin if origin == caller_of(node) else _origin(origin, caller_of(node))


def origin_of_trace(stack_trace: str | None) -> str | None:
    """Returns the `file:line`, module or phase that this module has written to a node's `stack_trace`."""
    line = _LINE.match(stack_trace or "")
    return f"{line[1]}:{line[2]}" if line else stack_trace or None


def caller_of(node: torch.fx.Node) -> str | None:
    """Returns the name (see `module_names`) of the module whose forward called the operator; None without a module."""
    module: str | None = node.meta.get("custom", {}).get(_MODULE)
    return module


class SourceLines(internals.TorchDispatchMode):
    """Records the origin of each operator as its node's `stack_trace`, and the calling module (`caller_of`).

    The origin is the innermost frame of user code; without one, the innermost module; without a module, the phase.
    An operator of the backward pass gets the origin of the forward operator whose gradient it computes. A recomputed
    operator gets a mark (`recomputation`). The caller must be in a `torch.fx.traceback.preserve_node_meta` block.
    """

    def __init__(self, boundary: types.CodeType, modules: Mapping[int, str]) -> None:
        """Creates the mode.

        Args:
          boundary: the code of the traced function; frames of its callers are ignored.
          modules: the result of `module_names`.
        """
        super().__init__()
        self._boundary = boundary
        self._modules = modules
        self._origins: dict[int, tuple[str, str | None]] = {}

    def _current(self) -> tuple[str | None, str | None]:
        """Returns the user's line and the module from which the current operator is called."""
        line = module = None
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code is not self._boundary and not (line and module):
            code = frame.f_code
            module = module or _module_of_frame(frame, self._modules)
            if line is None and is_user_frame(code):
                line = f'File "{source_name(code.co_filename)}", line {frame.f_lineno}, in {code.co_name}\n'
            frame = frame.f_back
        return line, module

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        line, module = self._current()
        node = internals.current_autograd_node()
        if line is None and node is not None:
            origin, module = self._origins.get(node._sequence_nr(), (module or "backward pass", module))
        else:
            origin = line or module or _PHASE.get()
            # Autograd created the node of this operator just before the dispatch, with the preceding sequence number.
            self._origins.setdefault(internals.get_sequence_number() - 1, (origin, module))
        torch.fx.traceback.set_stack_trace([origin])
        mode = internals.get_proxy_mode()
        last = None if mode is None else next(iter(reversed(mode.tracer.graph.nodes)), None)
        with torch.fx.traceback.annotate({_MODULE: module} | recomputation_mark()):
            try:
                return function(*args, **(kwargs or {}))
            except Exception as error:
                if mode is not None:
                    _erase_after(last, mode.tracer.graph)
                note_error(error, function, args, kwargs or {})
                raise


def _erase_after(last: torch.fx.Node | None, graph: torch.fx.Graph) -> None:
    """Erases the nodes of an operator that has failed, because the user's code may catch the error."""
    for node in reversed(graph.nodes):
        if node is last:
            return
        graph.erase_node(node)
