# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The values that the user's functions read, in addition to the tensors of the model.

A program depends on the values that `forward`, the loss function and the optimizer's step read while they were traced:
globals, variables of enclosing functions, attributes, elements of containers, tensors that are not state. `find_reads`
follows references from the modules, the functions and the optimizer; a `Recording` lists the functions that ran and the
names that they used. `_Search._visit` handles each type of object whose changes can be detected. Any other object, such
as an iterator, is refused.
"""

from __future__ import annotations

import abc
import contextlib
import decimal
import functools
import gc
import importlib.util
import itertools
import logging
import operator
import os
import pickle
import random
import sys
import threading
import types
import weakref
from _abc import _get_dump  # type: ignore[import-not-found]
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeGuard

import blake3
import numpy as np
import torch

from repro_mlir.frontends.torch.base.code_names import Names, names_of
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.hooks import MODULE_HOOKS
from repro_mlir.frontends.torch.base.object_kinds import (
    CONTAINERS,
    GENERATORS,
    HELD,
    is_annotation,
    is_atom,
    is_extended,
    is_log,
    is_opaque,
    is_plain,
    is_python_object,
    is_value,
)
from repro_mlir.frontends.torch.base.source_lines import is_package_file, is_user_file
from repro_mlir.frontends.torch.base.torch_internals import FakeTensor, get_fp32_precision, pytree
from repro_mlir.frontends.torch.trace.recording import DYNAMIC_READS, Recording, computes

PLUMBING = {
    *MODULE_HOOKS,
    "_parameters",
    "_buffers",
    "_modules",
    "_non_persistent_buffers_set",
    "_is_full_backward_hook",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
}
"""Attributes of modules that other code checks, or on which no step depends."""

_ROOTS = ("model", "loss_fn", "optimizer", "metric", "average")
"""The first words of the names of objects that the user passes to a `Trainer`."""

# Methods that Python and PyTorch call implicitly.
_CALLED = {"forward", "backward", "jvp", "setup_context", "vjp", "vmap", "__call__"}
_FUNCTIONS = types.FunctionType, types.MethodType, functools.partial, property, classmethod, staticmethod
_NOTHING_SAYS = {"__doc__", "__module__", "__annotations__", "__dict__", "__weakref__", "__abstractmethods__"}
"""Entries of classes that do not affect what a step computes."""

_OF_TENSORS = "grad", "grad_fn", "is_leaf", "retains_grad", "_version"
"""Attributes of tensors that neither `TensorContents` nor `_facts` covers."""

_OF_FUNCTIONS = "__annotations__", "__doc__", "__module__", "__name__", "__qualname__"
"""Attributes of functions that are not in a function's namespace."""

_FP32_PRECISIONS = (
    ("generic", "all"),
    *((backend, operation) for backend in ("cuda", "mkldnn") for operation in ("all", "conv", "matmul", "rnn")),
)
"""The settings of `torch.backends` that are called `fp32_precision`."""

_Held = torch.Tensor | np.ndarray | bytearray | memoryview | Any
_ABSENT = object()


@dataclass
class Reads:
    """The objects that a step reads.

    Attributes:
      modules: torch modules that are not part of the model, keyed by name.
      tensors: tensors and arrays that are not state, keyed by name.
      unknown: objects whose changes cannot be detected, keyed by name.
      followed: the code of the functions whose reads are found.
    """

    modules: dict[str, torch.nn.Module] = field(default_factory=dict)
    tensors: dict[str, _Held] = field(default_factory=dict)
    unknown: dict[str, object] = field(default_factory=dict)
    followed: set[types.CodeType] = field(default_factory=set)
    _noted: list[tuple[str, _View]] = field(default_factory=list)

    def views(self) -> Iterator[Iterable[object]]:
        """Yields live views of all values whose identity is compared; views of many small objects are joined for
        speed."""
        views = [view for _, view in self._noted]
        names = [view for view in views if isinstance(view, _Names)]
        # Functions often use the same globals, so each global is yielded once.
        calls = {(id(view._names), key): (view._names.get, key) for view in names for key in view._keys}
        yield _Joined([*calls.values()])
        yield _Keys([view._names for view in names if isinstance(view, _Attributes)])
        yield _Results([view for view in views if isinstance(view, _Got)])
        others: list[Any] = [view for view in views if not isinstance(view, _Names | _Got)]
        empty = [each._container for each in others if isinstance(each, _Elements) and each.is_empty]
        yield Looked(len, empty)
        yield from (each for each in others if not isinstance(each, _Elements) or not each.is_empty)

    def parts(self) -> Iterator[tuple[str, object]]:
        """Yields the present values with their names."""
        for name, view in self._noted:
            yield from view.parts(name)

    def refuse_unknown(self, recording: Recording) -> None:
        """Raises CaptureError for the first object in `unknown`, with the user's line that reads it.

        Objects that only code of installed packages refers to are skipped: the packages are trusted not to change them.
        """
        for name, value in self.unknown.items():
            line = recording.line_of(name)
            if not line and not name.startswith(_ROOTS):
                continue
            raise CaptureError(
                f"{line}the step reads {recording.written(name)}, a {type(value).__name__}, whose changes a compiled "
                "step cannot detect: expected numbers, strings, tensors, containers or objects of Python classes"
            )


class _View:
    """The part of an object on which a program depends; its iterator yields the values whose identity is compared."""

    def __iter__(self) -> Iterator[object]:
        raise NotImplementedError

    def parts(self, name: str) -> Iterator[tuple[str, object]]:
        """Yields the values on which a program depends, with names."""
        raise NotImplementedError


class _Names(_View):
    """The values of some names of a namespace; each name may be missing."""

    def __init__(self, names: Mapping[str, Any], keys: Iterable[str]) -> None:
        self._names = names
        self._keys = tuple(keys)

    def parts(self, name: str) -> Iterator[tuple[str, object]]:
        prefix = f"{name}." if name else ""
        return ((f"{prefix}{key}", self._names[key]) for key in self._keys if key in self._names)


class _Attributes(_Names):
    """The values of those names for which `counts` is true, in the namespace of an object or class; names may be added
    later.
    """

    def __init__(self, names: Mapping[str, Any], counts: Callable[[str], bool]) -> None:
        super().__init__(names, filter(counts, [*names]))
        self._counts = counts

    def parts(self, name: str) -> Iterator[tuple[str, object]]:
        return ((f"{name}.{key}", value) for key, value in [*self._names.items()] if self._counts(key))


class _Elements(_View):
    """All elements of a container."""

    def __init__(self, container: Any) -> None:
        self._container = container
        self.is_empty = type(container) in (*CONTAINERS, OrderedDict) and not container

    def __iter__(self) -> Iterator[object]:
        held = self._container
        if isinstance(held, dict | types.MappingProxyType):
            return itertools.chain([*held.keys()], [*held.values()])
        if isinstance(held, type({}.items())):
            return itertools.chain.from_iterable([*held])
        return iter([*held])

    def parts(self, name: str) -> Iterator[tuple[str, object]]:
        held = self._container
        yield name, held if isinstance(held, list | tuple | set | frozenset | dict) else [*self]


class _Values(_View):
    """All values in the namespace of a library class; names that are added later come last."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names

    def __iter__(self) -> Iterator[object]:
        return iter(self._names.values())

    def parts(self, name: str) -> Iterator[tuple[str, object]]:
        return ((f"{name}.{key}", value) for key, value in self._names.items())


class _Got(_View):
    """A value that is read with a function: the value of a variable, a slot or a reference."""

    def __init__(self, get: Callable[[], object], gone: type[Exception] | tuple[()] = ()) -> None:
        """Creates the view; `gone` is the exception that `get` raises while there is no value."""
        self._get = get
        self._gone = gone

    def get(self) -> Callable[[], object]:
        """Returns a function that returns the value, or `_ABSENT` if there is none."""
        return self._value if self._gone else self._get

    def _value(self) -> object:
        try:
            return self._get()
        except self._gone:
            return _ABSENT

    def parts(self, name: str) -> Iterator[tuple[str, object]]:
        value = self._value()
        return iter(()) if value is _ABSENT else iter([(name, value)])


class _Fact(_Got):
    """A value that is created at each access, such as a string: equal values are represented by the same object."""

    def __init__(self, get: Callable[[], object], gone: type[Exception] | tuple[()] = ()) -> None:
        super().__init__(get, gone)
        self._first = super()._value()

    def get(self) -> Callable[[], object]:
        """Returns a function that returns the first value as long as the present one is equal."""
        return self._value

    def _value(self) -> object:
        value = super()._value()
        return self._first if type(value) is type(self._first) and value == self._first else value


_OF_LOGGERS = ("isEnabledFor", "getEffectiveLevel", "hasHandlers")


def _logger_settings(logger: logging.Logger) -> tuple[object, ...]:
    """Returns the settings of a logger, partly inherited from its parents, that affect its methods `_OF_LOGGERS`."""
    return logger.disabled, logger.manager.disable, logger.getEffectiveLevel(), logger.hasHandlers()


def _decimal_settings() -> tuple[object, ...]:
    """Returns the settings that affect Python's decimal arithmetic; the context's flags are results of operations."""
    context = decimal.getcontext()
    traps = tuple(signal for signal, is_on in context.traps.items() if is_on)
    return context.prec, context.rounding, context.Emin, context.Emax, context.clamp, context.capitals, traps


class _Namespace(_Got):
    """The namespace of an object as a whole, which the user may replace. Views of the names in it are noted
    separately."""

    def parts(self, name: str) -> Iterator[tuple[str, object]]:
        return iter(())


class _Kept(_View):
    """The entries of a functools.lru_cache, regardless of the order of their use."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __iter__(self) -> Iterator[object]:
        return iter(gc.get_referents(self._function))

    def parts(self, name: str) -> Iterator[tuple[str, object]]:
        yield f"the cache of {name}", {id(each) if type(each).__hash__ is None else each for each in self}


class _Registered(_View):
    """The classes that are registered as subclasses of an abstract class."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def __iter__(self) -> Iterator[object]:
        return iter(_get_dump(self._cls)[0])

    def parts(self, name: str) -> Iterator[tuple[str, object]]:
        yield f"classes registered with {name}", {each() for each in _get_dump(self._cls)[0]}


class _Derived(_View):
    """The classes that derive from a class directly."""

    def __init__(self, cls: type) -> None:
        self._cls = cls

    def __iter__(self) -> Iterator[object]:
        return iter(type.__subclasses__(self._cls))

    def parts(self, name: str) -> Iterator[tuple[str, object]]:
        yield f"classes derived from {name}", [*self]


class _Functions(_View):
    """The code and defaults of functions, and the attributes of functions that a step reads."""

    def __init__(self, attributes: Iterable[str]) -> None:
        self.functions: list[types.FunctionType] = []
        self._parts = {"code": "__code__", "defaults": "__defaults__", "keyword defaults": "__kwdefaults__"}
        self._parts |= {each: each for each in attributes}

    def __iter__(self) -> Iterator[object]:
        return itertools.chain.from_iterable(map(attrgetter(part), self.functions) for part in self._parts.values())

    def parts(self, name: str) -> Iterator[tuple[str, object]]:
        for function in self.functions:
            for part, key in self._parts.items():
                yield f"{part} of {function.__qualname__}", getattr(function, key)


class Looked:
    """A live view that yields the present results of a function for several objects, such as their classes."""

    def __init__(self, look: Callable[[Any], object], objects: Collection[object]) -> None:
        self._look = look
        self._objects = objects

    def __iter__(self) -> Iterator[object]:
        return map(self._look, self._objects)


class _Joined:
    """A live view that calls each function with its own key and yields the results, `_ABSENT` for a missing key."""

    def __init__(self, calls: Sequence[tuple[Callable[[str, object], object], str]]) -> None:
        self._functions = [function for function, _ in calls]
        self._keys = [key for _, key in calls]

    def __iter__(self) -> Iterator[object]:
        return map(operator.call, self._functions, self._keys, itertools.repeat(_ABSENT))


class _Keys:
    """A live view that yields all present keys of several namespaces."""

    def __init__(self, namespaces: Sequence[Mapping[str, Any]]) -> None:
        self._namespaces = namespaces

    def __iter__(self) -> Iterator[object]:
        return itertools.chain.from_iterable(self._namespaces)


class _Results:
    """A live view that yields the present values of variables, slots and references."""

    def __init__(self, got: Sequence[_Got]) -> None:
        self._functions = [each.get() for each in got]

    def __iter__(self) -> Iterator[object]:
        return map(operator.call, self._functions)


def find_reads(
    model: torch.nn.Module,
    functions: Mapping[str, Any],
    optimizer: torch.optim.Optimizer | None,
    recording: Recording | None = None,
) -> Reads:
    """Returns the objects that are read by the functions of model and optimizer, and by those in `functions`.

    Args:
      recording: the code that ran in a trace; None: every function that is found is treated as if it ran.
    """
    attributes = _CALLED.copy()
    while True:
        # Repeats the search, because a function that is found late may read attributes of objects that were visited
        # before.
        search = _Search(model, attributes, recording)
        for name, function in functions.items():
            search.follow(name, function)
        if optimizer is not None:
            search.follow_step(optimizer)
        search.follow_rest()
        if search.attributes == attributes and search.is_complete():
            return search.reads
        attributes = search.attributes


class _Search:
    def __init__(self, model: torch.nn.Module, attributes: Collection[str], recording: Recording | None) -> None:
        self.reads = Reads()
        self.attributes = set(attributes) | (recording.names if recording is not None else set())
        self._known = frozenset(self.attributes)
        self._recording = recording
        self._everything = recording is not None and recording.everything
        self._seen: dict[int, object] = {}
        self._open: list[tuple[str, object]] = []
        self._functions = _Functions(self._known.intersection(_OF_FUNCTIONS))
        self._note("", self._functions)
        own = list(model.named_modules())
        self._seen.update((id(module), module) for _, module in own)
        # The tensors of the model are its state and are not followed.
        self._seen.update((id(tensor), tensor) for tensor in (*model.parameters(), *model.buffers()))
        # The recording's own containers do not belong to the user.
        self._seen[id(recording)] = recording
        self._class(torch.Tensor)
        for path, module in own:
            self._module(f"model.{path}" if path else "model", module)
        self._close()

    def is_complete(self) -> bool:
        """Whether the search need not be repeated with all attributes. All attributes matter only if code that ran
        reads an attribute whose name is not known."""
        return self._recording is None or self._everything == self._recording.everything

    def follow(self, name: str, value: object) -> None:
        """Follows a value and everything that it refers to."""
        self._open.append((name, value))
        self._close()

    def follow_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Follows an optimizer's step and the values of the optimizer's attributes; `Watch` compares the attributes."""
        self._class(type(optimizer))
        own = vars(optimizer)
        for key in self._known.intersection(own) - {"state", "param_groups", "step"}:
            self._open.append((f"optimizer.{key}", own[key]))
        for index, group in enumerate(optimizer.param_groups):
            for key in group.keys() - {"params"}:
                # The numbers and containers of a group are compared elsewhere.
                objects = (each for each in pytree.tree_leaves(group[key]) if not isinstance(each, torch.Tensor))
                self._open += ((f"optimizer.param_groups[{index}][{key!r}]", each) for each in objects)
        home = sys.modules[type(optimizer).__module__]
        if not is_made_by_user(home):
            # If a rule replaces the step, none of the module's functions ran, so all names of the module count, except
            # those with two leading underscores, which torch.compile adds.
            self._note(home.__name__, _Attributes(vars(home), lambda key: not key.startswith("__")))
        self.follow("optimizer.step", type(optimizer).step)

    def follow_rest(self) -> None:
        """Follows the rest of the recording: settings, namespaces that code requested as a whole, and code that ran but
        whose functions were not found."""
        if self._recording is None:
            return
        for get in self._recording.settings:
            # A function that requires arguments is not a setting.
            with contextlib.suppress(TypeError, RuntimeError):
                if is_plain(get()):
                    self._note(f"{get.__name__}()", _Fact(get))
        for setting in _FP32_PRECISIONS if "fp32_precision" in self._known else ():
            self._note("fp32_precision", _Fact(functools.partial(get_fp32_precision, *setting)))
        for namespace in self._recording.asked:
            # The code may read any global; those that it names are followed.
            self._note("globals()", _Attributes(namespace, lambda _: True))
            self._open += ((key, namespace[key]) for key in self._known.intersection(namespace))
        for key in self._known.intersection(sys.modules):
            if is_made_by_user(sys.modules[key]):
                self._names("sys.modules", _Names(sys.modules, [key]))
        for code, namespace in self._recording.namespaces.items():
            if code not in self.reads.followed:
                found = self._recording.functions_of(code)
                self._open += ((each.__qualname__, each) for each in found)
                if not found:
                    self._globals(namespace, names_of(code))
        self._close()

    def _close(self) -> None:
        while self._open:
            name, value = self._open.pop()
            kind: Any = value if issubclass(type(value), type) else type(value)
            if issubclass(kind, decimal.Decimal):
                self._decimals()
            if is_atom(value) or id(value) in self._seen:
                continue
            self._seen[id(value)] = value
            # Objects that this package attaches to the user's objects are skipped.
            if not str(type(value).__module__).startswith("repro_mlir."):
                self._visit(name, value)

    def _decimals(self) -> None:
        if id(_decimal_settings) not in self._seen:
            self._seen[id(_decimal_settings)] = _decimal_settings
            self._note("decimal.getcontext()", _Fact(_decimal_settings))

    def _note(self, name: str, view: _View) -> None:
        self.reads._noted.append((name, view))

    def _visit(self, name: str, value: Any) -> None:
        """Notes the parts of a value on which a program depends; the value's type determines these parts. Reads no
        attribute that could run the user's code."""
        kind = type(value)
        if issubclass(kind, torch.jit.ScriptModule):
            # The code of a ScriptModule is fixed, but its tensors are not.
            self._open += ((f"{name}.{key}", tensor) for key, tensor in value.state_dict(keep_vars=True).items())
        elif issubclass(kind, torch.nn.Module):
            self.reads.modules[name] = value
            self._module(name, value)
            self._open += ((f"{name}.{key}", each) for key, each in value._modules.items())
            for key, tensor in (*value._parameters.items(), *value._buffers.items()):
                self._open.append((f"{name}.{key}", tensor))
        elif issubclass(kind, (torch.Tensor, np.ndarray, *HELD)):
            self._held(name, value)
        elif issubclass(kind, CONTAINERS):
            self._container(name, value)
        elif issubclass(kind, types.ModuleType):
            self._python_module(name, value, self._known.intersection(vars(value)))
        elif issubclass(kind, type):
            self._class(value)
        elif issubclass(kind, weakref.ref):
            # A weak reference does not keep its object alive, so the death of the object is watched.
            self._note(name, _Got(lambda: value() is None))
            self._open.append((name, value()))
        elif issubclass(kind, ContextVar):
            self._got(name, value.get, LookupError)
        elif issubclass(kind, weakref.finalize):
            self._note(f"{name}.alive", _Got(lambda: value.alive))
        elif is_log(value):
            self._log(name, value)
        elif value is os.environ:
            self._container("os.environ", vars(value)["_data"])
        elif issubclass(kind, logging.LoggerAdapter):
            self._open.append((f"{name}.logger", value.logger))
            self._object(name, value)
        elif issubclass(kind, threading.local):
            self._object(name, value)
        elif issubclass(kind, GENERATORS):
            self.reads.tensors[name] = value
        elif issubclass(kind, slice):
            self._open += ((name, each) for each in (value.start, value.stop, value.step))
        elif issubclass(kind, BaseException):
            self._open.append((f"{name}.args", value.args))
            self._object(name, value)
        elif issubclass(kind, types.BuiltinFunctionType | types.MethodWrapperType):
            if value in DYNAMIC_READS and self._recording is not None:
                # C code such as `map` may call this function with names that the recording did not see.
                self._recording.everything = True
            if not isinstance(value.__self__, (types.ModuleType, *GENERATORS)):
                self._open.append((name, value.__self__))
        elif is_annotation(value):
            own = vars(value) if hasattr(value, "__dict__") else {}
            self._open += ((name, own[key]) for key in ("__origin__", "__args__") if key in own)
        elif (generator := _global_generator(value)) is not None:
            # A step that draws from a global generator is refused, so only functions that return the state read it.
            if value.__name__.startswith("get"):
                self._open.append((name, generator))
        elif self._callable(name, value):
            if is_extended(kind):
                self._object(name, value)
        elif is_python_object(value) or is_value(value):
            self._object(name, value)
        elif not is_opaque(value):
            self.reads.unknown[name] = value

    def _log(self, name: str, value: Any) -> None:
        """Watches a logger's attributes and its level, if the step reads them; logging calls return no values."""
        if not _is_of_library(type(value)):
            self._class(type(value))
        self._names(name, _Attributes(vars(value), self._known.__contains__))
        if isinstance(value, logging.Logger) and not self._known.isdisjoint(_OF_LOGGERS):
            self._note(f"the level or the handlers of {name}", _Fact(lambda: _logger_settings(value)))

    def _held(self, name: str, value: _Held) -> None:
        if isinstance(value, FakeTensor):
            return
        self.reads.tensors[name] = value
        if isinstance(value, torch.Tensor):
            for key in self._known.intersection(_OF_TENSORS):
                view = _Fact(functools.partial(getattr, value, key), RuntimeError)
                self._note(f"{name}.{key}", view)
                self._open += view.parts(f"{name}.{key}") if key == "grad" else ()
        if isinstance(value, np.ndarray) and value.dtype.hasobject:
            self._open += ((f"{name}.flat[{index}]", each) for index, each in enumerate(value.flat))
        if isinstance(value, np.ma.MaskedArray):
            self._open.append((f"{name}.mask", value.mask))
        with contextlib.suppress(TypeError):
            self._names(name, _Attributes(vars(value), self._counts_in(value)))

    def _container(self, name: str, value: Any) -> None:
        if not isinstance(value, tuple | frozenset):
            self._note(name, _Elements(value))
        items: list[tuple[str, Any]]
        if isinstance(value, dict | types.MappingProxyType):
            items = [(f"{name}[{key!r}]", each) for key, each in value.items()]
            items += ((f"a key of {name}", key) for key in value)
        elif isinstance(value, type({}.items())):
            pairs: list[Any] = [*value]
            items = [(f"{name}[{key!r}]", each) for key, each in pairs]
        else:
            items = [(f"{name}[{index}]", each) for index, each in enumerate(value)]
        if isinstance(value, defaultdict):
            self._got(f"{name}.default_factory", lambda: value.default_factory)
        self._open += items
        if type(value) not in CONTAINERS:
            self._object(name, value)

    def _got(self, name: str, get: Callable[[], object], gone: type[Exception] | tuple[()] = ()) -> None:
        view = _Got(get, gone)
        self._note(name, view)
        self._open += view.parts(name)

    def _python_module(self, name: str, module: types.ModuleType, names: Collection[str]) -> None:
        if is_made_by_user(module):
            self._names(name, _Attributes(vars(module), self._counts_in(module)))
        else:
            machinery = [key for key in names if key.startswith("__")]
            self._note(name, _Names(vars(module), sorted(machinery)))
            self._names(name, _Names(vars(module), sorted({*names}.difference(machinery))))

    def _module(self, name: str, module: torch.nn.Module) -> None:
        self._class(type(module))
        own = module.__dict__
        # `Watch` compares the attributes themselves; here their values are followed.
        self._open += ((f"{name}.{key}", own[key]) for key in filter(self._counts_in(module), own.keys() - PLUMBING))
        for kind, called in MODULE_HOOKS.items():
            self._open += ((f"a {called} of {name}", hook) for hook in own[kind].values())
        for key, parameter in module._parameters.items():
            hooks = (parameter._backward_hooks or {}) if parameter is not None else {}
            self._open += ((f"a hook of {name}.{key}", hook) for hook in hooks.values())

    def _callable(self, name: str, value: Any) -> bool:
        """Visits functions and objects that wrap them; returns False for anything else."""
        kind = type(value)
        if issubclass(kind, types.MethodType):
            self._open += ((name, value.__self__), (name, value.__func__))
        elif issubclass(kind, functools.partial):
            for part in ("func", "args", "keywords"):
                self._got(f"{name}.{part}", functools.partial(getattr, value, part))
            self._names(name, _Attributes(vars(value), self._counts_in(value)))
        elif issubclass(kind, property):
            self._open.append((name, value.fget))
        elif issubclass(kind, classmethod | staticmethod):
            self._open.append((name, value.__func__))
        elif issubclass(kind, functools._lru_cache_wrapper):
            view = _Kept(value)
            self._note(name, view)
            self._open += ((name, each) for each in view)
        elif issubclass(kind, operator.attrgetter | operator.itemgetter | operator.methodcaller):
            _, arguments = value.__reduce__()[:2]
            self.attributes.update(
                word for each in arguments if isinstance(each, str) for word in each.split(".") if word.isidentifier()
            )
            self._open.append((name, arguments))
        elif issubclass(kind, types.FunctionType):
            self._function(name, value)
        else:
            return False
        return True

    def _function(self, name: str, function: types.FunctionType) -> None:
        code, called = function.__code__, function.__qualname__
        self._functions.functions.append(function)
        is_idle = self._recording is not None and not self._recording.ran(code)
        # State that a function of a package keeps in enclosing variables, such as a generator, counts only if the
        # function ran.
        cells = () if is_idle and not _is_users(code) else function.__closure__ or ()
        for variable, cell in zip(code.co_freevars, cells, strict=False):
            self._got(f"{variable} of {called}", functools.partial(attrgetter("cell_contents"), cell), ValueError)
        names = names_of(code)
        if self._recording is None:
            if not is_user_file(code.co_filename):
                return
            self.attributes |= names.attributes
            if is_package_file(code.co_filename):
                return
        # Attributes of a function count even if it did not run.
        counts = self._counts_in(function)
        if is_user_file(code.co_filename) or any(map(counts, vars(function))):
            self._names(called, _Attributes(vars(function), counts))
        if self._recording is not None:
            if not self._recording.ran(code) or not (code in self._recording.namespaces or computes(code)):
                return
        self._follow_code(code)
        defaults = function.__defaults__ or ()
        last = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
        given = dict(zip(last, defaults, strict=False)) | (function.__kwdefaults__ or {})
        self._open += ((f"{called}.{key}", value) for key, value in given.items())
        if function.__kwdefaults__:
            self._note(called, _Elements(function.__kwdefaults__))
        self._globals(function.__globals__, names)

    def _follow_code(self, code: types.CodeType) -> None:
        """Records that the code and the functions inside it are followed."""
        self.reads.followed.add(code)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._follow_code(constant)

    def _globals(self, namespace: dict[str, Any], names: Names) -> None:
        """Notes the globals whose names occur in code; names that are missing among the globals are builtins."""
        view = _Names(namespace, sorted(names.variables))
        self._note("", view)
        value: Any
        for name, value in view.parts(""):
            if issubclass(type(value), types.ModuleType):
                self._python_module(name, value, names.attributes)
            self._open.append((name, value))
        builtins = namespace.get("__builtins__", {})
        held = vars(builtins) if isinstance(builtins, types.ModuleType) else builtins
        self._note("builtins", _Names(held, sorted(names.variables - namespace.keys())))
        for name, level in names.imports:
            found = importlib.util.resolve_name("." * level + name, namespace.get("__package__")) if level else name
            self._names("sys.modules", _Names(sys.modules, [found]))

    def _class(self, cls: type) -> None:
        if type(cls) not in (type, abc.ABCMeta):
            self._open.append((type(cls).__qualname__, type(cls)))
        self._note(cls.__qualname__, _Got(lambda: cls.__mro__))
        for base in cls.__mro__:
            if id(base) in self._seen and base is not cls:
                continue
            self._seen[id(base)] = base
            own = vars(base)
            if not is_extended(base):
                continue
            if _is_of_library(base):
                self._note(base.__qualname__, _Values(own))
                for function in filter(_is_function, own.values()):
                    if self._recording is not None and self._recording.ran(function.__code__):
                        self._open.append((function.__qualname__, function))
                continue
            if isinstance(arguments := own.get("__match_args__"), tuple):
                # A class written in C may have a descriptor as `__match_args__`.
                self.attributes.update(arguments)
            if "__subclasses__" in self._known:
                self._note(base.__qualname__, _Derived(base))
            if "_abc_impl" in own:
                self._note(base.__qualname__, _Registered(base))
            self._names(base.__qualname__, _Attributes(own, self._counts_in_class))

    def _counts_in_class(self, key: str) -> bool:
        if key == "__init__":
            return self._recording is not None
        return self._everything or key in self._known or (key.startswith("__") and key not in _NOTHING_SAYS)

    def _counts_in(self, value: object) -> Callable[[str], bool]:
        """Returns a predicate for the attributes that count: those whose names occur in the user's code or in methods
        of the class.

        All attributes count for a SimpleNamespace, which Python itself compares.
        """
        if type(value) is types.SimpleNamespace or self._everything:
            return lambda _: True
        kind: Any = type(value)
        return (self._known | _attributes_of_class(kind, self._recording)).__contains__

    def _object(self, name: str, value: object) -> None:
        self._class(type(value))
        self._note(name, _Got(lambda: type(value)))
        counts = self._counts_in(value)
        for base in type(value).__mro__:
            for key, slot in vars(base).items():
                if isinstance(slot, types.MemberDescriptorType) and key != "__dict__" and counts(key):
                    self._got(f"{name}.{key}", functools.partial(slot.__get__, value), AttributeError)
        home = threading.local if issubclass(type(value), threading.local) else object
        namespace = functools.partial(home.__getattribute__, value, "__dict__")
        with contextlib.suppress(AttributeError):
            own = namespace()
            self._note(name, _Namespace(namespace))
            self._names(name, _Attributes(own, counts))

    def _names(self, name: str, view: _Names) -> None:
        self._note(name, view)
        self._open += view.parts(name)


def _global_generator(value: Any) -> object:
    """Returns the global generator of random numbers to which a function of the module random or numpy.random belongs;
    None for any other object."""
    owner = value.__self__ if type(value) is types.MethodType else None
    numpy: Any = np.random
    if owner is random._inst or owner is numpy.mtrand._rand:
        return owner
    return numpy.mtrand._rand if value is numpy.get_bit_generator else None


def _is_users(code: types.CodeType) -> bool:
    """Whether code is in the user's own files."""
    return is_user_file(code.co_filename) and not is_package_file(code.co_filename)


def is_made_by_user(module: types.ModuleType) -> bool:
    """Whether a module is the user's, including modules without a file."""
    path = vars(module).get("__file__")
    if path:
        return is_user_file(path) and not is_package_file(path)
    package = sys.modules.get(module.__name__.partition(".")[0], module)
    return vars(module).get("__spec__") is None and (package is module or is_made_by_user(package))


def _is_function(value: object) -> TypeGuard[types.FunctionType]:
    return type(value) is types.FunctionType


def _is_of_library(cls: type) -> bool:
    """Whether a class belongs to the libraries of Python or PyTorch, or to this package."""
    module = sys.modules.get(cls.__module__)
    path = None if module is None else vars(module).get("__file__")
    return not is_user_file(path) if path else module is not None and not is_made_by_user(module)


@functools.lru_cache(maxsize=4096)
def _attributes_of_class(cls: type, recording: Recording | None) -> frozenset[str]:
    """Returns the attributes whose names occur in library methods of a class; only methods that ran count."""
    found = set[str]()
    for base in cls.__mro__:
        if base is torch.nn.Module:
            break
        for value in vars(base).values():
            function = value.fget if type(value) is property else value
            if _is_function(function) and not is_user_file(function.__code__.co_filename):
                if recording is None or recording.ran(function.__code__):
                    found |= names_of(function.__code__).attributes
    return frozenset(found)


class TensorContents:
    """The contents of tensors and arrays, to detect writes."""

    def __init__(self, values: Iterable[_Held]) -> None:
        found = {id(value): value for value in values}
        self._copies = {key: (value, _facts(value), _bytes(value).copy()) for key, value in found.items()}

    def __contains__(self, value: object) -> bool:
        return id(value) in self._copies

    def unchanged(self) -> bool:
        """Whether the contents and properties are unchanged since this object was created."""
        return all(
            _facts(value) == facts and np.array_equal(_bytes(value), copy)
            for value, facts, copy in self._copies.values()
        )


def contents(value: _Held) -> Hashable:
    """Returns a value that is equal for equal contents."""
    return _facts(value), blake3.blake3(_bytes(value).data).digest()


def is_generator(part: Hashable) -> bool:
    """Whether `contents` has returned this value for a generator of random numbers."""
    return isinstance(part, tuple) and len(part) == 2 and part[0] in _GENERATOR_NAMES


_GENERATOR_NAMES = {kind.__name__ for kind in GENERATORS}


def _state_of(generator: Any) -> object:
    """Returns the state of a generator of random numbers, which can be pickled."""
    if isinstance(generator, torch.Generator):
        return generator.get_state().numpy()
    return generator.bit_generator.state if isinstance(generator, np.random.Generator) else generator.__reduce__()[2]


def _facts(value: _Held) -> Hashable:
    """Returns the properties of a tensor or array that a step can read, without the contents."""
    if isinstance(value, torch.Tensor):
        strides = value.stride() if value.layout is torch.strided else ()
        return value.shape, value.dtype, strides, value.requires_grad
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype, value.strides, value.flags.num
    return type(value).__name__


def _bytes(value: _Held) -> np.ndarray:
    """Returns the elements of a tensor or array, or the state of a generator, as bytes; copies only elements that are
    not contiguous. For a tensor without a NumPy view, returns the version counter instead."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.device.type != "cpu" or value.is_quantized:
            return np.array([0 if value.is_inference() else value._version]).view(np.uint8)
        value = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8).numpy()
    if isinstance(value, random.SystemRandom):
        # The system's random numbers have no state.
        return np.empty(0, np.uint8)
    if isinstance(value, GENERATORS):
        return np.frombuffer(pickle.dumps(_state_of(value)), np.uint8)
    if not isinstance(value, np.ndarray):
        return np.frombuffer(value, np.uint8)
    if value.dtype.hasobject:
        return np.array([id(each) for each in value.flat]).view(np.uint8)
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)
