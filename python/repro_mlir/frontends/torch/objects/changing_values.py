# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Python values that differ from step to step: numbers that are inputs of the program, and strings that it does not
use.

During the trace, a `TracedNumber` replaces a number: where PyTorch's operators compute with the number, the program
computes with an input, and each Python branch on the number becomes a guard of the program. A string is replaced by an
object that records whether the string is used.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from repro_mlir.frontends.torch.base.code_names import names_of
from repro_mlir.frontends.torch.base.source_lines import is_package_file, is_user_file
from repro_mlir.frontends.torch.base.torch_internals import pytree
from repro_mlir.frontends.torch.optimizers.number_calls import NumberCalls
from repro_mlir.frontends.torch.optimizers.traced_numbers import Node, Scalar, Tape, is_traced, leaves_of, traced_number

_MOST = 2**53
_ABSENT = object()


@dataclass(frozen=True)
class ValueLocation:
    """The location of a value: in a module, in the globals of a function or in a variable of an enclosing function."""

    owner: torch.nn.Module | dict[str, Any] | types.CellType
    key: str

    def get(self) -> Any:
        """Returns the value; `_ABSENT` if there is none."""
        if not isinstance(self.owner, types.CellType):
            return self._namespace().get(self.key, _ABSENT)
        try:
            return self.owner.cell_contents
        except ValueError:
            return _ABSENT

    def put(self, value: Any) -> None:
        """Sets the value; `_ABSENT` removes it."""
        if isinstance(self.owner, types.CellType):
            if value is _ABSENT:
                del self.owner.cell_contents
            else:
                self.owner.cell_contents = value
        elif value is _ABSENT:
            self._namespace().pop(self.key, None)
        else:
            self._namespace()[self.key] = value

    def _namespace(self) -> dict[str, Any]:
        # The user may have replaced the dictionary of a module, so it is looked up at each access.
        owner: Any = self.owner
        return owner.__dict__ if isinstance(owner, torch.nn.Module) else owner


class Mark:
    """A placeholder for a changing value while the user's objects are inspected."""


def places_of(model: torch.nn.Module, loss_fn: Any) -> dict[str, ValueLocation]:
    """Returns the locations of values that a step may read, keyed by their names in a `Form`: attributes of modules,
    globals of the functions of model and loss, variables of enclosing functions. A name with several locations has no
    entry."""
    found: dict[str, list[ValueLocation]] = {}
    functions = [loss_fn]
    for root, module in (("model", model), ("loss_fn", loss_fn)):
        if isinstance(module, torch.nn.Module):
            for path, inner in module.named_modules():
                functions.append(type(inner).forward)
                for key in inner.__dict__:
                    name = f"{root}.{path}.{key}" if path else f"{root}.{key}"
                    found.setdefault(name, []).append(ValueLocation(inner, key))
    seen: set[int] = set()
    for function in functions:
        function = getattr(function, "__func__", function)
        if not isinstance(function, types.FunctionType) or id(function) in seen:
            continue
        seen.add(id(function))
        code = function.__code__
        for variable, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            found.setdefault(f"{variable} of {function.__qualname__}", []).append(ValueLocation(cell, variable))
        if (
            is_user_file(code.co_filename)
            and not is_package_file(code.co_filename)
            and id(function.__globals__) not in seen
        ):
            seen.add(id(function.__globals__))
            for key in function.__globals__:
                found.setdefault(key, []).append(ValueLocation(function.__globals__, key))
    return {name: places[0] for name, places in found.items() if len(places) == 1}


def can_change(value: Any) -> bool:
    """Whether a value may differ in the next step without requiring another program."""
    if type(value) is int:
        return abs(value) <= _MOST
    return type(value) in (float, str)


class _Unused:
    """A placeholder for a string in a trace, which records whether the step uses the string."""

    def __init__(self, name: str, used: set[str]) -> None:
        object.__setattr__(self, "_note", lambda: used.add(name))

    def __getattribute__(self, name: str) -> Any:
        object.__getattribute__(self, "_note")()
        if name == "__class__":
            return str
        raise TypeError("a string of the batch is used")


def _use(self: Any, *arguments: Any, **keywords: Any) -> Any:
    object.__getattribute__(self, "_note")()
    raise TypeError("a string of the batch is used")


for _name in (
    *("eq", "ne", "lt", "le", "gt", "ge", "hash", "bool", "len", "iter", "contains", "getitem", "add", "radd", "mul"),
    *("rmul", "mod", "rmod", "str", "repr", "format", "bytes", "int", "float", "index", "fspath", "reduce_ex", "copy"),
    *("deepcopy", "dir", "setattr", "delattr", "sizeof", "complex", "call", "enter", "next", "reversed"),
):
    setattr(_Unused, f"__{_name}__", _use)


def is_stand_in(value: Any) -> bool:
    """Whether a value is a placeholder for a number or a string; placeholders are valid only within their trace."""
    return is_traced(value) or type(value) is _Unused


class ChangingValues:
    """The values of one capture that may change.

    Attributes:
      names: the names of the values that may differ at a later step.
      inputs: the names of the numbers, in the order of the program's inputs.
    """

    def __init__(
        self, names: Collection[str], model: torch.nn.Module, loss_fn: Any, leaves: Sequence[tuple[str, Any]]
    ) -> None:
        """Selects the values that may change.

        Args:
          names: the names of the values that have changed, as in a `Form`.
          leaves: the leaves of the batch, with their names.
        """
        self._tape = Tape()
        known = places_of(model, loss_fn) if names else {}
        self._places = {name: place for name in sorted(names) if (place := known.get(name)) and _is_number(place.get())}
        self._leaves = {name: i for i, (name, leaf) in enumerate(leaves) if name in names and can_change(leaf)}
        self._marks = {name: Mark() for name in self._places}
        self._used: set[str] = set()
        self.names = frozenset({*self._places, *self._leaves})
        numbers = {name: place.get() for name, place in self._places.items()}
        numbers |= {name: leaf for name, leaf in leaves if name in self._leaves and _is_number(leaf)}
        self.inputs = [*numbers]
        self._nodes: dict[str, Node] = {name: self._tape.leaf(name, value) for name, value in numbers.items()}

    def __bool__(self) -> bool:
        return bool(self.names)

    @contextlib.contextmanager
    def marked(self) -> Iterator[list[Mark]]:
        """Within the block, replaces the values in the user's objects by placeholders, which are the same in each
        block."""
        former = {name: place.get() for name, place in self._places.items()}
        try:
            for name, place in self._places.items():
                place.put(self._marks[name])
            yield [*self._marks.values()]
        finally:
            for name, place in self._places.items():
                place.put(former[name])

    def is_of_batch(self, name: str) -> bool:
        """Whether the changing value with this name is a leaf of the batch."""
        return name in self._leaves

    def has(self, index: int) -> bool:
        """Whether the leaf of the batch at this position is one of the values that may change."""
        return index in self._leaves.values()

    def fits(self, leaves: Sequence[Any]) -> bool:
        """Whether the program applies to the present numbers, including those in the leaves of a batch."""
        return not self.names or self.outcomes(leaves) == self._tape.outcomes()

    def replaced(self, leaves: Sequence[Any]) -> list[Any]:
        """Returns the leaves of a batch with placeholders instead of the values that may change."""
        found = [*leaves]
        for name, index in self._leaves.items():
            node = self._nodes.get(name)
            found[index] = _Unused(name, self._used) if node is None else traced_number(self._tape, node)
        return found

    @contextlib.contextmanager
    def tracing(self, tensors: Sequence[torch.Tensor]) -> Iterator[None]:
        """Replaces the numbers in the user's objects by traced ones within the block; `tensors` are f64 of shape []."""
        if not self.inputs:
            yield
            return
        given = dict(zip(self.inputs, tensors, strict=True))
        self._tape.begin(lambda leaf: given[leaf.operands[0]])
        numbers = {name: traced_number(self._tape, self._nodes[name]) for name in self._places}
        former = {name: place.get() for name, place in self._places.items()}
        try:
            for name, place in self._places.items():
                place.put(numbers[name])
            with _ValueCalls(self._tape):
                yield
        finally:
            for name, place in self._places.items():
                now = place.get()
                if now is numbers[name]:
                    place.put(former[name])
                elif is_traced(now):
                    # The step has changed the number; the next comparison of forms finds the new value.
                    place.put(now.number.value)
            self._tape.end()

    def used(self, codes: Iterable[types.CodeType]) -> frozenset[str]:
        """Returns the names of values on which the program depends, after a trace in which `codes` of the user ran."""
        # Code that calls `type` can distinguish a value from its placeholder.
        asks = any("type" in names_of(code).variables for code in codes)
        return self.names if asks else frozenset(self._used)

    def values(self, leaves: Sequence[Any]) -> dict[str, Scalar]:
        """Returns the present numbers, including those in the leaves of a batch."""
        return {
            name: self._places[name].get() if name in self._places else leaves[self._leaves[name]]
            for name in self.inputs
        }

    def tensors(self, leaves: Sequence[Any]) -> list[torch.Tensor]:
        """Returns the present numbers as the program's inputs, f64 of shape []."""
        return [torch.tensor(float(value), dtype=torch.float64) for value in self.values(leaves).values()]

    def outcomes(self, leaves: Sequence[Any]) -> Hashable:
        """Returns the outcomes of the step's branches on the present numbers; steps with equal outcomes have the same
        program."""
        if any(type(leaves[index]) is not str for name, index in self._leaves.items() if name not in self._nodes):
            return "another type"
        values = self.values(leaves)
        if any(type(values[name]) is not type(node.value) for name, node in self._nodes.items()):
            return tuple(map(type, values.values()))
        if not all(map(can_change, values.values())):
            return "a number that f64 does not have"
        try:
            return self._tape.outcomes({node: values[name] for name, node in self._nodes.items()})
        except (ArithmeticError, ValueError) as error:
            return str(error)

    def asked(self) -> Mapping[str, str]:
        """Returns the names of the numbers whose value the step has read. Each name maps to the user's source line that
        reads the number, or to "" if the line is unknown."""
        return {
            leaf.operands[0]: guard.line
            for node, guard in self._tape.guards.items()
            if guard.exact
            for leaf in leaves_of(node)
        }


def _is_number(value: Any) -> bool:
    return type(value) is not str and can_change(value)


class _ValueCalls(NumberCalls):
    """Handles the PyTorch calls of a forward pass that have traced numbers as arguments. Other calls run unchanged."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        leaves = pytree.tree_leaves((args, kwargs))
        if not any(is_traced(leaf) or isinstance(leaf, slice) for leaf in leaves):
            return function(*args, **kwargs)
        name = getattr(function, "__name__", "")
        if "pow" in name:
            # PyTorch has special implementations for some exponents, so the program needs the exact exponent.
            args, kwargs = pytree.tree_map(_exact, (args, kwargs))
            return function(*args, **kwargs)
        args, kwargs = pytree.tree_map_only(slice, _exact, (args, kwargs))
        return self._call_on_numbers(function, name, args, kwargs)


def _exact(value: Any) -> Any:
    if isinstance(value, slice):
        return slice(*map(_exact, (value.start, value.stop, value.step)))
    return value.exact() if is_traced(value) else value
