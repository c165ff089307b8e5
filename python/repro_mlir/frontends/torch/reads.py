# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What the user's functions read, beside the tensors of the model: found by the names in their code.

A program has the values that `forward` and the loss function read when they were traced: globals, variables of
enclosing functions, class attributes, attributes of objects, elements of containers, tensors that are no state. The
search begins at the modules and the loss function and follows the names that the code of their functions has; of
functions of installed packages only the names of attributes, as nobody changes their globals between two steps.
"""

from __future__ import annotations

import dis
import functools
import types
from collections import deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import blake3
import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

from repro_mlir.frontends.torch.hooks import MODULE_HOOKS
from repro_mlir.frontends.torch.source_lines import is_package_file, is_user_file

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
"""Attributes of modules that others look after, or that take no part in a step."""

# Called without being named.
_CALLED = {"forward", "__call__"}
_FUNCTIONS = types.FunctionType, types.MethodType, functools.partial, property, classmethod, staticmethod
_CONTAINERS = list, tuple, set, frozenset, dict, deque


@dataclass
class Reads:
    """What is read.

    Attributes:
      modules: torch modules that are no part of the model, by name.
      tensors: tensors and arrays that are no state, by name.
    """

    modules: dict[str, torch.nn.Module] = field(default_factory=dict)
    tensors: dict[str, torch.Tensor | np.ndarray] = field(default_factory=dict)
    _named: list[tuple[str, _Namespace | _Cell | _Slot]] = field(default_factory=list)
    _containers: list[Iterable[object]] = field(default_factory=list)

    def views(self) -> Iterator[Iterable[object]]:
        """Live views of all values whose identity counts."""
        for _, view in self._named:
            yield view
        yield from self._containers

    def parts(self) -> Iterator[tuple[str, object]]:
        """The present values with their names."""
        for name, view in self._named:
            yield from view.parts(name)


class _Namespace:
    """Some names of a namespace."""

    def __init__(self, names: Mapping[str, Any], keys: Iterable[str]) -> None:
        self._names = names
        self._keys = tuple(keys)

    def __iter__(self) -> Iterator[object]:
        return map(self._names.get, self._keys)

    def parts(self, name: str) -> Iterator[tuple[str, object]]:
        prefix = f"{name}." if name else ""
        return ((f"{prefix}{key}", self._names.get(key)) for key in self._keys)


class _Cell:
    """A variable of an enclosing function."""

    def __init__(self, cell: types.CellType) -> None:
        self._cell = cell

    def __iter__(self) -> Iterator[object]:
        try:
            yield self._cell.cell_contents
        except ValueError:
            # It has no value yet.
            return

    def parts(self, name: str) -> Iterator[tuple[str, object]]:
        return ((name, value) for value in self)


class _Slot:
    """An attribute that has a place of its own in an object (`__slots__`)."""

    def __init__(self, owner: object, slot: types.MemberDescriptorType) -> None:
        self._owner = owner
        self._slot = slot

    def __iter__(self) -> Iterator[object]:
        try:
            yield self._slot.__get__(self._owner)
        except AttributeError:
            # It has no value yet.
            return

    def parts(self, name: str) -> Iterator[tuple[str, object]]:
        return ((name, value) for value in self)


def find_reads(model: torch.nn.Module, functions: Mapping[str, Any], optimizer: torch.optim.Optimizer | None) -> Reads:
    """What the functions of model and optimizer, and other ones by name, read, as far as their code names it."""
    attributes = _CALLED.copy()
    while True:
        # A function that is found late may name attributes of objects that were passed.
        search = _Search(model, attributes)
        for name, function in functions.items():
            search.follow(name, function)
        if optimizer is not None:
            search.follow_step(optimizer)
        if search.attributes == attributes:
            return search.reads
        attributes = search.attributes


class _Search:
    def __init__(self, model: torch.nn.Module, attributes: Collection[str]) -> None:
        self.reads = Reads()
        self.attributes = set(attributes)
        self._known = frozenset(attributes)
        self._seen: dict[int, object] = {}
        self._open: list[tuple[str, object]] = []
        own = list(model.named_modules())
        self._seen.update((id(module), module) for _, module in own)
        # Nobody follows the tensors of the model: they are the state.
        self._seen.update((id(tensor), tensor) for tensor in (*model.parameters(), *model.buffers()))
        for path, module in own:
            self._module(f"model.{path}" if path else "model", module)

    def follow(self, name: str, value: object) -> None:
        self._open.append((name, value))
        while self._open:
            self._visit(*self._open.pop())

    def follow_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Its attributes themselves are looked at elsewhere; here what is in them."""
        self._class(type(optimizer))
        own = vars(optimizer)
        for key in self._known.intersection(own) - {"state", "param_groups", "step"}:
            self._open.append((f"optimizer.{key}", own[key]))
        self.follow("optimizer.step", type(optimizer).step)

    def _visit(self, name: str, value: Any) -> None:
        if isinstance(value, str | bytes | int | float | complex | None | torch.dtype | torch.device):
            return
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, torch.jit.ScriptModule):
            # Its code is fixed, its tensors are not.
            self._open += ((f"{name}.{key}", tensor) for key, tensor in value.state_dict(keep_vars=True).items())
        elif isinstance(value, torch.nn.Module):
            self.reads.modules[name] = value
            self._module(name, value)
            self._open += ((f"{name}.{key}", each) for key, each in value._modules.items())
            for key, tensor in (*value._parameters.items(), *value._buffers.items()):
                self._open.append((f"{name}.{key}", tensor))
        elif isinstance(value, torch.Tensor | np.ndarray):
            if not isinstance(value, FakeTensor):
                self.reads.tensors[name] = value
        elif isinstance(value, _CONTAINERS):
            items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
            if items:
                self.reads._containers.append(value.values() if isinstance(value, dict) else value)
            self._open += ((f"{name}[{key!r}]", each) for key, each in items)
        elif isinstance(value, _FUNCTIONS):
            self._callable(name, value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.ModuleType):
            path = getattr(value, "__file__", None)
            if path and is_user_file(path) and not is_package_file(path):
                self._names(value.__name__, vars(value), self._known.intersection(vars(value)))
        elif not isinstance(value, types.BuiltinFunctionType | torch.Generator):
            self._object(name, value)

    def _module(self, name: str, module: torch.nn.Module) -> None:
        self._class(type(module))
        own = module.__dict__
        # The attributes themselves are looked at elsewhere; here what is in them.
        self._open += ((f"{name}.{key}", own[key]) for key in self._known.intersection(own) - PLUMBING)
        for kind, called in MODULE_HOOKS.items():
            self._open += ((f"a {called} of {name}", hook) for hook in own[kind].values())
        for key, parameter in module._parameters.items():
            hooks = (parameter._backward_hooks or {}) if parameter is not None else {}
            self._open += ((f"a hook of {name}.{key}", hook) for hook in hooks.values())

    def _callable(self, name: str, value: Any) -> None:
        if isinstance(value, types.MethodType):
            self._open += ((name, value.__self__), (name, value.__func__))
        elif isinstance(value, functools.partial):
            self._open += ((name, value.func), (name, value.args), (name, value.keywords))
        elif isinstance(value, property):
            self._open.append((name, value.fget))
        elif isinstance(value, classmethod | staticmethod):
            self._open.append((name, value.__func__))
        else:
            self._function(name, value)

    def _function(self, name: str, function: types.FunctionType) -> None:
        code = function.__code__
        for variable, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            view = _Cell(cell)
            self.reads._named.append((f"{variable} of {function.__qualname__}", view))
            self._open += view.parts(variable)
        if not is_user_file(code.co_filename):
            return
        names, attributes = _named(code)
        self.attributes |= attributes
        if is_package_file(code.co_filename):
            return
        defaults = function.__defaults__ or ()
        last = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
        given = dict(zip(last, defaults, strict=True)) | (function.__kwdefaults__ or {})
        self._names(function.__qualname__, given, given)
        self._names("", function.__globals__, names & function.__globals__.keys())

    def _class(self, cls: type) -> None:
        for base in cls.__mro__:
            if id(base) in self._seen and base is not cls:
                continue
            self._seen[id(base)] = base
            own = vars(base)
            functions = [value for value in own.values() if isinstance(value, types.FunctionType)]
            if not any(is_user_file(function.__code__.co_filename) for function in functions) and functions:
                continue
            if base.__module__ in ("builtins", "torch.nn.modules.module"):
                continue
            special = {key for key, value in own.items() if key.startswith("__") and isinstance(value, _FUNCTIONS)}
            self._names(base.__qualname__, own, (self._known.intersection(own) | special) - {"__init__"})

    def _object(self, name: str, value: object) -> None:
        self._class(type(value))
        self._slots(name, value)
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            # What hides an attribute of the class may come later.
            self._names(name, own, self._known.intersection({*own, *dir(type(value))}))

    def _slots(self, name: str, value: object) -> None:
        for base in type(value).__mro__:
            for key in self._known.intersection(vars(base)):
                if isinstance(vars(base)[key], types.MemberDescriptorType):
                    slot = _Slot(value, vars(base)[key])
                    self.reads._named.append((f"{name}.{key}", slot))
                    self._open += slot.parts(f"{name}.{key}")

    def _names(self, name: str, namespace: Mapping[str, Any], keys: Iterable[str]) -> None:
        view = _Namespace(namespace, sorted(keys))
        self.reads._named.append((name, view))
        self._open += view.parts(name)


@functools.cache
def _named(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """The globals and the attributes that code names, that of functions inside of it too."""
    names, attributes = set[str](), set[str]()
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.add(instruction.argval)
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, str) and constant.isidentifier():
            # For getattr.
            attributes.add(constant)
        if isinstance(constant, types.CodeType):
            inner = _named(constant)
            names |= inner[0]
            attributes |= inner[1]
    return frozenset(names), frozenset(attributes)


class Contents:
    """What tensors and arrays contain, to see whether somebody writes them."""

    def __init__(self, values: Iterable[torch.Tensor | np.ndarray]) -> None:
        found = {id(value): value for value in values}
        self._copies = {key: (value, _bytes(value).copy()) for key, value in found.items()}

    def __contains__(self, value: object) -> bool:
        return id(value) in self._copies

    def unchanged(self) -> bool:
        """Whether nobody has written since."""
        return all(np.array_equal(_bytes(value), copy) for value, copy in self._copies.values())


def contents(value: torch.Tensor | np.ndarray) -> Hashable:
    """Equal for equal contents."""
    return tuple(value.shape), str(value.dtype), blake3.blake3(_bytes(value).data).digest()


def _bytes(value: torch.Tensor | np.ndarray) -> np.ndarray:
    """The elements as bytes, without a copy where they are together; of a tensor that NumPy cannot hold its version."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.device.type != "cpu" or value.is_quantized:
            return np.array(0 if value.is_inference() else value._version)
        value = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8).numpy()
    if value.dtype.hasobject:
        return np.array([id(each) for each in value.flat])
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)
