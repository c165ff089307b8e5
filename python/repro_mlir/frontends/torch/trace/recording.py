# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Records the Python code that ran while a step was traced, and the attribute names that it read.

Python's profiler reports each call. The profiler is off within operators, which take most of the time and call no user
code. The attribute names are those in the code that ran, and those passed to `getattr` and `hasattr`.
"""

from __future__ import annotations

import _socket
import builtins
import contextlib
import copy
import cProfile
import datetime
import functools
import gc
import importlib
import importlib.util
import io
import os
import queue
import random
import re
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from repro_mlir.frontends.torch.base.code_names import dotted_names, line_of, names_of
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.object_kinds import LOCKS, is_opaque, is_plain
from repro_mlir.frontends.torch.base.source_lines import is_package_file, is_standard_file, is_user_file, source_name
from repro_mlir.frontends.torch.base.torch_internals import (
    TorchDispatchMode,
    get_blas_preferred_backend,
    load_dynamo_tables,
    replaced,
)

_LIBRARY, _COMPUTING, _PACKAGE, _USER, _STANDARD, _ACTION = range(6)
_ACTIONS = re.compile(
    r"^<frozen importlib|/(logging|importlib)/|/(warnings|traceback|linecache|inspect|tokenize|typing)\.py$"
)
"""Standard library files that PyTorch uses for effects, and not for values on which its results depend."""

_ACTIONS_OF_VALUE = (importlib.import_module.__code__, importlib.util.find_spec.__code__)
_VALUES = re.compile(r"/(linecache|inspect|tokenize|typing)\.py$")
"""The exceptions to `_ACTIONS`, as functions and as files: they return values that a step may use."""

_TORCH = tuple(os.path.join(os.path.dirname(torch.__file__), each) for each in ("nn", "optim", "distributions"))

_PURE = {
    *("builtins", "math", "cmath", "_operator", "itertools", "_functools", "_collections", "_bisect", "_heapq"),
    *("_struct", "binascii", "zlib", "_json", "_sre", "_string", "unicodedata", "array", "_abc", "_weakref"),
    *("_warnings", "_thread", "_codecs", "_statistics", "_decimal", "_contextvars", "_hashlib", "_md5", "_sha1"),
    *("_sha256", "_sha512", "_sha3", "_blake2", "_pickle", "_typing", "_datetime", "atexit", "_ast", "_imp", "marshal"),
}
"""Modules written in C whose functions depend on nothing but their arguments."""

_PURE_PACKAGES = ("torch", "numpy", "repro_mlir")
_IMPURE = {"open", "input", "breakpoint", "getrefcount", "get_ident", "fromfile"}
_OPENING = frozenset({io.open, os.open, np.fromfile})
"""Functions written in C with which libraries read files."""

_SETTING = re.compile("_?(get|is|are|has)_|.*_enabled$")
_OF_TRACES = re.compile(
    ".*(torch_function|tracing|autocast|grad_enabled|inference_mode|autograd|dispatch|functorch|sequence_nr|profiler)"
)
"""`_SETTING` matches names of PyTorch functions that return a setting; `_OF_TRACES` matches the names of those whose
result a trace changes, and of those on which no step depends: autograd's count of nodes, whether a profiler runs."""

_HOMES = (types.ModuleType, type(get_blas_preferred_backend.__self__), types.NoneType)
"""Types of `__self__` for module functions written in C; for methods, `__self__` is the object."""

_PURE_OF_SYS = {"_getframe", "exc_info", "intern", "getsizeof", "getrecursionlimit", "getdefaultencoding", "audit"}
DYNAMIC_READS = getattr, hasattr
"""The functions that read an attribute by a computed name; a trace replaces these originals."""

_NOW = {"now", "utcnow", "today"}
_OF_ALL_ATTRIBUTES = frozenset({"__dict__", "__getattribute__", "__reduce_ex__", "__getstate__"})
_ALL_ATTRIBUTES = {id(function.__code__) for function in (copy.copy, copy.deepcopy)}


class Recording:
    """The code that ran in a trace.

    Attributes:
      names: the names of the attributes that were read by the user's code or by code that it called.
      everything: whether code read all attributes of some object, as `vars` does.
      namespaces: the globals of the user's code that ran, keyed by code object.
      asked: globals that code requested as a whole.
      settings: PyTorch and NumPy functions written in C that were called and may return a setting.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.everything = False
        self.namespaces: dict[types.CodeType, dict[str, Any]] = {}
        self.asked: list[dict[str, Any]] = []
        self.settings: set[Callable[[], Any]] = set()
        self._ran: dict[int, types.CodeType] = {}
        self._functions: dict[types.CodeType, list[types.FunctionType]] | None = None
        self._kinds: dict[int, int] = {}
        self._refusal: str | None = None

    def ran(self, code: types.CodeType) -> bool:
        """Returns whether code ran."""
        return id(code) in self._ran

    def functions_of(self, code: types.CodeType) -> list[types.FunctionType]:
        """Returns the functions with this code object (a key of `namespaces`) that still exist after the trace."""
        if self._functions is None:
            # One pass over all objects of the process finds the functions of all code objects.
            found = (each for each in gc.get_referrers(*self.namespaces) if isinstance(each, types.FunctionType))
            self._functions = {each: [] for each in self.namespaces}
            for function in found:
                if function.__code__ in self._functions:
                    self._functions[function.__code__].append(function)
        return self._functions.get(code, [])

    def line_of(self, path: str) -> str:
        """Returns the `file:line: ` of a value in the user's code that ran; empty if no such code contains its name.

        Args:
          path: the name of the value, such as "model.scale" or "hist[0]". Its last part that occurs in the code counts.
        """
        for name in reversed(_parts(path)):
            for code in self.codes_of_user():
                line = line_of(code, name)
                if line is not None:
                    return f"{source_name(code.co_filename)}:{line}: "
        return ""

    def written(self, path: str) -> str:
        """Returns the name of a value as the user's code that ran writes it: the end of `path`, or else `path`."""
        for code in self.codes_of_user():
            for names, _ in dotted_names(code):
                name = ".".join(names)
                if path.endswith(f".{name}"):
                    return name
        return path

    def lines_with_method(self, owner: object) -> str:
        """Returns the `file:line: ` of each line of the user's code that ran that names a method of `owner` in a
        module, such as `np.random.rand`; empty if there is none."""
        found = []
        for code in filter(_is_users, self.namespaces):
            imported = [sys.modules.get(name) for name, _ in names_of(code).imports]
            for (name, *attributes), line in dotted_names(code):
                for value in (self.namespaces[code].get(name), *imported):
                    for each in attributes:
                        value = vars(value).get(each) if isinstance(value, types.ModuleType) else None
                    if isinstance(value, types.MethodType | types.BuiltinMethodType) and value.__self__ is owner:
                        found.append(f"{source_name(code.co_filename)}:{line}")
        return f"{' or '.join(dict.fromkeys(found))}: " if found else ""

    def codes_of_user(self) -> Iterator[types.CodeType]:
        """Yields the user's code that ran."""
        return (code for code in self.namespaces if self._kinds[id(code)] == _USER)

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Records the calls of the block. Raises CaptureError if the block calls a function whose result may vary."""
        with _paused_profiler(), self._dynamic_names(), _without_garbage_collection(), _Suspended():
            former = sys.getprofile()

            def profile(frame: types.FrameType, event: Any, argument: Any) -> None:
                self._see(frame, event, argument)
                former(frame, event, argument)  # type: ignore[misc]  # where there is one

            sys.setprofile(self._see if former is None else profile)
            try:
                yield
            finally:
                sys.setprofile(former)
        if self._refusal is not None:
            raise CaptureError(self._refusal)

    def _see(self, frame: types.FrameType, event: Any, argument: Any) -> None:
        if event == "call":
            code = frame.f_code
            key = id(code)
            kind = self._kinds.get(key)
            if kind is None:
                kind = self._kinds[key] = _kind_of_file(_file_of(code, frame.f_globals))
                if kind != _ACTION:
                    self._ran[key] = code
                if kind in (_USER, _PACKAGE):
                    self._add(code, frame.f_globals)
            if kind == _STANDARD or code in _ACTIONS_OF_VALUE:
                self._see_library(frame, code)
        elif event == "return":
            caller = frame.f_back
            is_asked = caller is not None and self._kinds.get(id(caller.f_code)) == _USER and argument is not None
            if is_asked and not frame.f_code.co_name.startswith("__"):
                # A library function that returns numbers or strings may read variables of its module. Special methods
                # read only their object; a trace replaces some of these methods, such as `Module.__getattr__`.
                if self._kinds.get(id(frame.f_code)) == _LIBRARY and is_plain(argument):
                    self._add(frame.f_code, frame.f_globals)
        elif event == "c_call":
            if type(getattr(argument, "__self__", None)) in _HOMES and _tells_setting(argument):
                self.settings.add(argument)
            # A code object without a kind was already running when the recording started.
            kind = self._kinds.get(id(frame.f_code))
            if kind != _ACTION and argument in _OPENING and not _imports(frame):
                self._refuse(frame, argument.__name__)
            if kind == _USER or (kind is None and _kind_of(frame.f_code) == _USER):
                self._see_builtin(frame, argument)
            elif kind == _ACTION and self._is_called_by_user(frame):
                self._see_builtin(frame, argument)
        elif event == "c_exception" and getattr(argument, "__module__", None) == "torch._C":
            # PyTorch's modes do not see these functions, such as `to_dlpack`. The error is noted where it is made.
            if self._kinds.get(id(frame.f_code)) in (_USER, _PACKAGE):
                CaptureError(
                    f"the function {argument.__name__} that is called here cannot be captured: call it before the step"
                )

    def _is_called_by_user(self, frame: types.FrameType | None) -> bool:
        """Returns whether this frame runs code of a file in `_VALUES` that the user's code called, directly or through
        other such files."""
        while frame is not None and _VALUES.search(frame.f_code.co_filename):
            frame = frame.f_back
        return frame is not None and self._kinds.get(id(frame.f_code)) == _USER

    def _see_library(self, frame: types.FrameType, code: types.CodeType) -> None:
        """Treats standard library code that the user's code calls as the user's code."""
        caller = frame.f_back
        if caller is None or self._kinds.get(id(caller.f_code)) not in (_USER, _PACKAGE) or _is_callback(code):
            return
        if code is importlib.util.find_spec.__code__:
            if self._kinds[id(caller.f_code)] == _USER:
                self._refuse(frame, "importlib.util.find_spec")
            return
        if code is threading.Condition.wait.__code__:
            raise self._waiting(frame)
        if id(code) in _ALL_ATTRIBUTES:
            self.everything = True
        if code is importlib.import_module.__code__:
            self.names.add(frame.f_locals["name"])
        if self._kinds[id(caller.f_code)] == _USER:
            self._kinds[id(code)] = _USER
        self._add(code, frame.f_globals)

    def _reads_of_users(self, code: types.CodeType) -> bool:
        """Returns whether code may read the user's objects, as PyTorch's modules, optimizers and distributions do."""
        kind = self._kinds.get(id(code))
        return (_kind_of(code) if kind is None else kind) not in (_LIBRARY, _STANDARD, _ACTION)

    def _add(self, code: types.CodeType, namespace: dict[str, Any]) -> None:
        if code not in self.namespaces:
            self.namespaces[code] = namespace
            self.names |= names_of(code).attributes
            if names_of(code).attributes & _OF_ALL_ATTRIBUTES:
                self.everything = True

    def _see_builtin(self, frame: types.FrameType, function: Any) -> None:
        owner, name = getattr(function, "__self__", None), function.__name__
        if isinstance(owner, types.ModuleType) or owner is None:
            home = function.__module__ or ""
            if name in ("vars", "dir", "repr", "locals") or function in DYNAMIC_READS:
                # `vars`, `dir`, `repr` and `locals` read all attributes. The original getattr and hasattr run only if
                # the user's code stored them before the trace; their arguments are not known.
                self.everything = True
            elif name == "globals" and not any(each is frame.f_globals for each in self.asked):
                self.asked.append(frame.f_globals)
            is_pure = home in _PURE or home.split(".")[0] in _PURE_PACKAGES or (home == "sys" and name in _PURE_OF_SYS)
            if (is_pure and name not in _IMPURE) or name in ("sleep", "fspath", "text_encoding"):
                return
            what = f"{home}.{name}" if home and home != "builtins" else name
        elif isinstance(owner, type):
            if not issubclass(owner, datetime.date) or name not in _NOW:
                return
            what = f"{owner.__name__}.{name}"
        elif (isinstance(owner, queue.SimpleQueue) and name.startswith("get")) or (
            isinstance(owner, _socket.socket) and name.startswith(("recv", "accept"))
        ):
            raise self._waiting(frame)
        elif isinstance(owner, LOCKS) and name == "locked":
            what = "locked of a lock"
        elif isinstance(owner, random.Random) and name != "getstate" and owner is not random._inst:
            if self._refusal is None:
                line = _user_line(frame)
                self._refusal = (
                    f"{line}the step draws random numbers from a random.Random: use torch's, without a generator"
                )
            return
        elif isinstance(owner, io.IOBase) and not isinstance(owner, io.StringIO | io.BytesIO) and not is_opaque(owner):
            what = f"{type(owner).__name__}.{name}"
        else:
            if isinstance(owner, str) and name in ("format", "format_map"):
                self.names.update(re.findall(r"\w+", owner))
            return
        self._refuse(frame, what)

    def _refuse(self, frame: types.FrameType, what: str) -> None:
        if self._refusal is None:
            self._refusal = (
                f"{_user_line(frame)}the step calls {what}, which may return another value each time: a compiled "
                "step keeps the value from the capture; pass the value in the batch or in a buffer of the model"
            )

    def _waiting(self, frame: types.FrameType) -> CaptureError:
        """Returns the error for a call that may block. The error is raised before the call, because a trace runs a step
        repeatedly, and a later run could block.
        """
        self._refusal = (
            f"{_user_line(frame)}the step waits for another thread, or takes a value from a queue or a socket: a "
            "compiled step keeps the value from the capture; pass the value in the batch"
        )
        return CaptureError(self._refusal)

    def _dynamic_names(self) -> contextlib.AbstractContextManager[None]:
        """Within the block, notes the names that the user's code, and code that it called, passes to getattr and
        hasattr."""
        thread = threading.get_ident()

        def noting(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(value: Any, name: str, *default: Any) -> Any:
                if threading.get_ident() == thread and self._reads_of_users(sys._getframe(1).f_code):
                    self.names.add(name)
                    self.everything = self.everything or name in _OF_ALL_ATTRIBUTES
                return function(value, name, *default)

            return call

        # Dynamo keeps tables of the builtins that it finds at its first use, which may be within the block.
        load_dynamo_tables()
        return replaced(builtins, getattr=noting, hasattr=noting)


def _parts(path: str) -> list[str]:
    """Returns the identifiers in the name of a value, such as ["model", "scale"], without the function after "of"."""
    return re.split(r"[.\[]", path.partition(" of ")[0])


@contextlib.contextmanager
def _paused_profiler() -> Iterator[None]:
    """Pauses cProfile: Python has one profiler at a time, and the recording cannot call a profiler written in C."""
    former: Any = sys.getprofile()
    if former is None or callable(former):
        yield
        return
    if not isinstance(former, cProfile.Profile):
        raise CaptureError(
            f"a step is captured under a {type(former).__name__}, which cannot be paused: use cProfile, or start the "
            "profiler after the first step"
        )
    warnings.warn(
        "cProfile pauses while a step is captured, so it counts the functions around the capture only up to there",
        RuntimeWarning,
        stacklevel=3,
    )
    former.disable()
    try:
        yield
    finally:
        former.enable()


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disables garbage collection, whose callbacks (JAX registers one) and finalizers are not part of the step."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Suspended(TorchDispatchMode):
    """Pauses the recording in operators, which run far more PyTorch code than the rest of a trace."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.namespace not in ("aten", "prims", "prim"):
            return function(*args, **(kwargs or {}))
        return unrecorded(function, *args, **(kwargs or {}))


def unrecorded(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls `function` without recording, to save time. The function must not run user code."""
    former = sys.getprofile()
    sys.setprofile(None)
    try:
        return function(*args, **kwargs)
    finally:
        sys.setprofile(former)


def _is_callback(code: types.CodeType) -> bool:
    """Returns whether Python calls this code when an object dies, which may happen in any function."""
    file = os.path.basename(code.co_filename)
    return code.co_name in ("remove", "_remove") and file in ("weakref.py", "_weakrefset.py")


@functools.cache
def _tells_setting(function: Any) -> bool:
    """Returns whether the name of a PyTorch or NumPy function suggests that it returns a setting."""
    home = function.__self__.__name__ if isinstance(function.__self__, types.ModuleType) else function.__module__ or ""
    name = function.__name__
    return bool(home.startswith(("torch", "numpy")) and _SETTING.match(name) and not _OF_TRACES.match(name))


def _imports(frame: types.FrameType | None) -> bool:
    """Returns whether Python imports or searches for a module in a call below the user's function."""
    while frame is not None and (kind := _kind_of(frame.f_code)) != _USER:
        if kind == _ACTION:
            return True
        frame = frame.f_back
    return False


def computes(code: types.CodeType) -> bool:
    """Returns whether this is PyTorch code, as in torch.nn, that computes with functions that a user may replace."""
    return _kind_of(code) == _COMPUTING


def _kind_of(code: types.CodeType) -> int:
    return _kind_of_file(code.co_filename)


def _file_of(code: types.CodeType, namespace: dict[str, Any]) -> str:
    """Returns the file of code; for code made from a string, such as a dataclass' `__init__`, the file of the code's
    globals."""
    path = code.co_filename
    return str(namespace.get("__file__") or path) if path.startswith("<") and not path.startswith("<frozen") else path


@functools.cache
def _kind_of_file(path: str) -> int:
    if path.startswith(_TORCH):
        return _COMPUTING
    if is_standard_file(path):
        return _ACTION if _ACTIONS.search(path) else _STANDARD
    if not is_user_file(path):
        return _LIBRARY
    return _PACKAGE if is_package_file(path) else _USER


def _user_line(frame: types.FrameType | None) -> str:
    """Returns the `file:line: ` of the innermost frame of the user's code."""
    while frame is not None:
        if _is_users(frame.f_code):
            return f"{source_name(frame.f_code.co_filename)}:{frame.f_lineno}: "
        frame = frame.f_back
    return ""


def _is_users(code: types.CodeType) -> bool:
    """Returns whether code is in a file of the user, which excludes installed packages."""
    path = code.co_filename
    return not path.startswith("<") and is_user_file(path) and not is_package_file(path)
