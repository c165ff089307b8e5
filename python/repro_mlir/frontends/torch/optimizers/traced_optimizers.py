# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Captures the update of any optimizer written in Python: traces the `step` of its class on a shadow of the optimizer.

The shadow has the attributes of the optimizer. Its groups, state and parameters are its own: they contain tensors of
the trace and traced numbers (`traced_numbers`). Before the trace, `step` runs on fake tensors. These runs determine the
state and its initial values, the numbers that the step changes, and the numbers that it reads.

One program is used for all steps if the first step, which creates the state, computes what a step from the initial
values computes (`expressions`). Otherwise the first step has a program of its own.
"""

from __future__ import annotations

import contextlib
import copy
import numbers
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.frontends.torch.base.errors import CaptureError, one_line
from repro_mlir.frontends.torch.base.hashable_values import hashable
from repro_mlir.frontends.torch.base.source_lines import phase
from repro_mlir.frontends.torch.base.torch_internals import (
    DisableTorchFunction,
    FakeTensorMode,
    disable_current_modes,
    replaced,
)
from repro_mlir.frontends.torch.base.user_objects import check_class
from repro_mlir.frontends.torch.optimizers.expressions import Expressions
from repro_mlir.frontends.torch.optimizers.number_calls import NumberCalls
from repro_mlir.frontends.torch.optimizers.state_slots import Owner, Slot, UpdateTensors, held_by
from repro_mlir.frontends.torch.optimizers.traced_numbers import (
    Node,
    Scalar,
    Tape,
    functions_on_numbers,
    is_traced,
    leaves_of,
    node_of,
    traced_number,
)
from repro_mlir.frontends.torch.trace.compositions import Compositions
from repro_mlir.frontends.torch.trace.recording import Recording
from repro_mlir.frontends.torch.trace.tracing import TRACE_LOCK, errors_with_lines, without_other_random_numbers

_COUNTED = (torch.float32, torch.float64, torch.int64)
"""Element types of the state tensors of shape [] that are tracked as numbers."""

_ATTEMPTS = 8
"""The maximum number of runs of a step until a run finds nothing new about its state."""

_LOOKED_AFTER = {"state", "param_groups", "step", "_opt_called", "_step_count", "_optimizer_step_pre_hooks"}
"""Attributes of optimizers that are handled elsewhere, or on which no step depends."""

_IMPLEMENTATIONS = ("foreach", "fused")
"""Options that select among implementations of the same step."""

_ABSENT = object()


class TracedUpdate:
    """An `optimizers.Update` that traces `step`.

    The structure consists of the identities of the parameters, the flags of the groups, the optimizer's attributes,
    the keys of the state, and the outcomes of the step's branches on numbers.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, names: Mapping[torch.Tensor, str], updated: Collection[str]
    ) -> None:
        """See `optimizers.Update`. Raises CaptureError with the user's line if no program can do what the step does."""
        check_class(optimizer)
        _check_groups(optimizer)
        self._optimizer = optimizer
        # Keeps the parameters alive, because the structure distinguishes them by their `id`.
        self._members = [list(group["params"]) for group in optimizer.param_groups]
        self._names: dict[torch.Tensor, str] = {each: names[each] for members in self._members for each in members}
        self._updated = set(updated)
        self._findings = _Findings()
        self.slots: list[Slot] = []
        self.constants: dict[torch.Tensor, dict[Any, Any]] = {}
        self._slot_of: dict[Node, Slot] = {}
        self._flags: list[tuple[torch.Tensor, Any, Any]] = []
        recording = Recording()
        with errors_with_lines({}), without_other_random_numbers(recording):
            self._tape, run = self._analyse(recording)
        # A step that creates these entries is a program of its own.
        self._has_new = any(each.made for each in run.states)
        self._keys = [self._keys_of(entries) for entries in run.states]
        self._make_slots(run)
        self._inputs = [leaf for leaf in run.hyper_parameters if leaf in run.read]
        self.numbers = [TensorType(self._number_name(node), "f64", ()) for node in self._inputs]
        self._form = self._present_form()

    @property
    def structure(self) -> Hashable:
        """The structure at capture; see `optimizers.Update`."""
        return self._form, self._tape.outcomes()

    def present_structure(self) -> Hashable:
        """Returns the present structure; see `optimizers.Update`."""
        _check_groups(self._optimizer)
        form = self._present_form()
        if form != self._form:
            return form, ()
        try:
            values = {leaf: self._value(leaf) for node in self._tape.guards for leaf in leaves_of(node)}
            return form, self._tape.outcomes(values)
        except (ArithmeticError, ValueError) as error:
            # An error that the step itself raises is an outcome too, which makes the structure differ from that at
            # capture.
            return form, one_line(error)

    @property
    def depends_on_state(self) -> bool:
        """Whether the structure depends on the optimizer's state; see `optimizers.Update`."""
        guarding = {leaf for node in self._tape.guards for leaf in leaves_of(node)}
        return self._has_new or not guarding.isdisjoint(self._slot_of)

    def explain(self) -> str:
        """Returns a description of how the present structure differs from that at capture."""
        if self._present_form() != self._form:
            return "flags, attributes, parameters or state of the optimizer differ from those at capture"
        return "a decision of the optimizer's step about its numbers differs from that at capture"

    def read(self) -> list[float]:
        """Returns the present values of `numbers`."""
        return [float(self._value(leaf)) for leaf in self._inputs]

    def _value(self, leaf: Node) -> Scalar:
        """Returns the present number of a leaf."""
        slot = self._slot_of.get(leaf)
        if slot is None:
            _, index, path = leaf.operands[0]
            value = self._optimizer.param_groups[index]
            for key in path:
                value = value[key]
            return _number(value)
        assert leaf.value is not None
        return _number(held_by(self._optimizer, slot.owners[0]).get(slot.key, leaf.value))

    def _number_name(self, leaf: Node) -> str:
        _, index, (first, *rest) = leaf.operands[0]
        name = str(first) + "".join(f"[{key}]" for key in rest)
        return f"{name}.{index}" if len(self._members) > 1 else name

    def _present_form(self) -> Hashable:
        optimizer = self._optimizer
        groups = tuple(
            tuple((key, _form_of(f"{key} of parameter group {index}", value)) for key, value in _options(group))
            for index, group in enumerate(optimizer.param_groups)
        )
        members = tuple(tuple(map(id, group["params"])) for group in optimizer.param_groups)
        keys = tuple(
            None if (present := optimizer.state.get(parameter, {}).keys()) in known else frozenset(present)
            for parameter, known in self._keys
        )
        flags = tuple(hashable(optimizer.state.get(each, {}).get(key, value)) for each, key, value in self._flags)
        return members, groups, _attributes(optimizer), keys, flags

    def _keys_of(self, entries: _Entries) -> tuple[torch.nn.Parameter, list[frozenset[Any]]]:
        """Returns a parameter, and the sets of keys that its state has before a step that the program computes."""
        present = frozenset(self._optimizer.state.get(entries.parameter, ()))
        return entries.parameter, [] if entries.made else [frozenset(entries), present]

    # --- Analysis ---

    def _analyse(self, recording: Recording) -> tuple[Tape, _Run]:
        """Runs the step on fake tensors until a run finds nothing new; returns the tape of the last run, and the run
        itself."""
        for _ in range(_ATTEMPTS):
            tape, expressions, size = Tape(), Expressions(), self._findings.size
            run = self._run(tape, expressions, recording)
            result = run.result()
            self._findings.learn(run)
            if self._findings.size != size:
                continue
            run.refuse_changes()
            # The first step is on the same tape, because its guards count too.
            if not any(self._findings.starts.values()):
                return tape, run
            if self._run(tape, expressions, recording, is_first=True).result() == result:
                return tape, run
            self._findings.starts.clear()
            self._findings.has_starts = False
        raise CaptureError(
            f"the step of {_name(self._optimizer)} creates other state at each step, expected the same state"
        )

    def _run(self, tape: Tape, expressions: Expressions, recording: Recording, is_first: bool = False) -> _Run:
        with TRACE_LOCK, FakeTensorMode(), Compositions(), torch.no_grad(), expressions:
            fakes = _Fakes(self._names, self._updated)
            run = _Run(self._optimizer, self._names, self._findings, tape, fakes, expressions, is_first)
            # The recording refuses a queue or a pipe before the next run, which could block on it.
            with recording.recorded():
                run.step()
        return run

    def _make_slots(self, run: _Run) -> None:
        run.refuse_shared_memory()
        shared: dict[Hashable, Slot] = {}
        for index, key in sorted(self._findings.stepped, key=str):
            value = self._optimizer.param_groups[index][key]
            initial = torch.tensor(float(value), dtype=torch.float64)
            slot = Slot(f"optimizer.param_groups.{index}.{key}", [index], key, "number", initial, None, type(value))
            self._add_slot(slot, run.leaves[index, key])
        for entries in run.states:
            if entries.parameter not in self._optimizer.state and run.has_touched(entries):
                self.constants[entries.parameter] = {}
            # Sorted, because the order in which a step creates entries differs from the order in an optimizer that has
            # them already.
            for key in sorted(entries, key=str):
                self._make_slot(run, entries, key, shared)

    def _make_slot(self, run: _Run, entries: _Entries, key: Any, shared: dict[Hashable, Slot]) -> None:
        value, before = entries[key], entries.before.get(key, _ABSENT)
        index, parameter = entries.index, entries.parameter
        kind = run.kind(entries, key, value)
        held = self._optimizer.state.get(parameter, {})
        if kind == "constant":
            self._flags.append((parameter, key, value))
            if key not in held:
                self.constants.setdefault(parameter, {})[key] = value
            return
        if isinstance(value, torch.Tensor):
            initial = torch.zeros(value.shape, dtype=value.dtype) if before is _ABSENT else before.detach().clone()
            number: Any = float
        else:
            node = node_of(run.tape, value)
            assert node is not None
            number = node.kind if before is _ABSENT else type(before)
            initial = torch.tensor(0.0 if before is _ABSENT else float(before), dtype=torch.float64)
        start = None if key in held else initial
        name = f"optimizer.{self._names[parameter]}.{key}"
        leaf = entries.leaves.get(key)
        if kind != "tensor" and (index, key) not in self._findings.apart:
            same = leaf or (index, key, kind, initial.dtype, number)
            if same in shared:
                shared[same].owners.append(parameter)
                return
            name = f"optimizer.group{index}.{key}"
            count = sum(slot.name == name or slot.name.startswith(f"{name}.") for slot in self.slots)
            name = f"{name}.{count}" if count else name
            shared[same] = slot = Slot(name, [parameter], key, kind, initial, start, number)
        else:
            slot = Slot(name, [parameter], key, kind, initial, start, number)
        self._add_slot(slot, leaf)

    def _add_slot(self, slot: Slot, leaf: Node | None) -> None:
        self.slots.append(slot)
        if leaf is not None:
            self._slot_of[leaf] = slot

    # --- The program ---

    def update(self, tensors: UpdateTensors) -> None:
        """Traces one step; see `optimizers.Update`."""
        parameters, gradients, state = tensors.parameters, tensors.gradients, tensors.state
        given = dict(zip(self._inputs, tensors.numbers, strict=True))

        def number(leaf: Node) -> torch.Tensor:
            return given[leaf] if leaf in given else state[self._slot_of[leaf].name].to(torch.float64)

        slots: dict[torch.Tensor, dict[Any, str]] = defaultdict(dict)
        for slot in self.slots:
            for owner in slot.owners:
                if not isinstance(owner, int):
                    slots[owner][slot.key] = slot.name
        traced = _Traced(self._names, dict(parameters), gradients, state, slots, number)
        with phase(f"update of {_name(self._optimizer)}"):
            run = _Run(self._optimizer, self._names, self._findings, self._tape, traced)
            run.step()
            for parameter, value in run.parameters.items():
                parameters[self._names[parameter]] = value
            new = {}
            for slot in self.slots:
                for owner in slot.owners:
                    if isinstance(owner, int) or self._names[owner] in gradients:
                        new[slot.name] = run.final(owner, slot.key, slot.initial.dtype)
                        break
            state.update(new)
        self._tape.end()


# --- One run of a step ---


class _Tensors(Protocol):
    """Supplies the tensors with which a run of the step computes."""

    def parameter(self, parameter: torch.Tensor) -> torch.Tensor:
        """Returns a new tensor with the parameter's value, which the step may modify."""

    def gradient(self, parameter: torch.Tensor) -> torch.Tensor | None: ...

    def state(self, parameter: torch.Tensor, key: Any, value: torch.Tensor) -> torch.Tensor:
        """Returns a new, writable tensor for an entry of state; `value` is the value at capture."""

    def number(self, leaf: Node) -> torch.Tensor: ...


@dataclass
class _Fakes:
    """Supplies fake tensors, which have no elements; used within a FakeTensorMode."""

    names: Mapping[torch.Tensor, str]
    updated: Collection[str]

    def parameter(self, parameter: torch.Tensor) -> torch.Tensor:
        return self._like(parameter)

    def gradient(self, parameter: torch.Tensor) -> torch.Tensor | None:
        return self._like(parameter) if self.names[parameter] in self.updated else None

    def state(self, parameter: torch.Tensor, key: Any, value: torch.Tensor) -> torch.Tensor:
        return self._like(value)

    def _like(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)

    def number(self, leaf: Node) -> torch.Tensor:
        return torch.empty((), dtype=torch.float64)


@dataclass
class _Traced:
    """Supplies the tensors of a trace, which it looks up by name."""

    names: Mapping[torch.Tensor, str]
    parameters: Mapping[str, torch.Tensor]
    gradients: Mapping[str, torch.Tensor]
    values: Mapping[str, torch.Tensor]
    slots: Mapping[torch.Tensor, Mapping[Any, str]]
    number: Callable[[Node], torch.Tensor]

    def parameter(self, parameter: torch.Tensor) -> torch.Tensor:
        return self.parameters[self.names[parameter]].detach().clone()

    def gradient(self, parameter: torch.Tensor) -> torch.Tensor | None:
        found = self.gradients.get(self.names[parameter])
        return None if found is None else found.detach().to(parameter.dtype)

    def state(self, parameter: torch.Tensor, key: Any, value: torch.Tensor) -> torch.Tensor:
        return self.values[self.slots[parameter][key]].clone()


_DEPENDENT = object()


@dataclass(frozen=True)
class _Uniform:
    """The first value of an entry of state: a tensor whose elements all equal one number."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    number: Scalar

    def make(self) -> torch.Tensor:
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype).fill_(self.number)


def _start(first: Any, last: Any) -> Any:
    """Returns the initial value of an entry of state that the first step creates as `first` and leaves as `last`."""
    if isinstance(first, _Uniform):
        return first.make()
    if type(first) in (int, float) and isinstance(last, torch.Tensor):
        # An entry that begins as a number and becomes a tensor is a tensor from the beginning.
        return torch.full(tuple(last.shape), first, dtype=last.dtype)
    return first


class _Entries(dict[Any, Any]):
    """The entries of the shadow's state for one parameter.

    Attributes:
      index: the index of the parameter group.
      before: the entries before the step: those of the optimizer, or the initial values of a first step.
      leaves: for each entry that is tracked as a number, its leaf, keyed by the entry's key.
      made: the first values of the entries that the step has created; `_DEPENDENT` for a value that is not a constant.
    """

    def __init__(
        self, index: int, parameter: torch.nn.Parameter, name: str, begin: Callable[[_Entries, Any, Any], Any]
    ) -> None:
        super().__init__()
        self.index = index
        self.parameter = parameter
        self.name = name
        self.before: dict[Any, Any] = {}
        self.leaves: dict[Any, Node] = {}
        self.made: dict[Any, Any] = {}
        self._begin = begin

    def place(self, key: Any) -> str:
        """Returns the name of an entry for error messages."""
        return f"state {key!r} of parameter {self.name}"

    def enter(self, key: Any, value: Any) -> None:
        """Sets an entry that existed before the step."""
        super().__setitem__(key, value)

    def __setitem__(self, key: Any, value: Any) -> None:
        if key not in self.before and key not in self.made:
            value = self._begin(self, key, value)
        super().__setitem__(key, value)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Returns an entry; sets it to `default` first if it is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *others: Any, **values: Any) -> None:
        """Sets entries as `dict.update` does, and records those that are new."""
        for key, value in dict(*others, **values).items():
            self[key] = value


class _Other(dict[Any, Any]):
    """The state of a parameter without a gradient, which the program does not have: any use of it is an error."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise CaptureError(
            f"the optimizer's step uses the state of {self._name}, which has no gradient: expected a step that "
            "skips a parameter whose grad is None before it uses optimizer.state[parameter]"
        )


for _method in (
    *(
        "__getitem__",
        "__setitem__",
        "__delitem__",
        "__contains__",
        "__iter__",
        "__len__",
        "__eq__",
        "__or__",
        "__ior__",
    ),
    *("get", "setdefault", "update", "pop", "popitem", "clear", "keys", "values", "items", "copy", "__reversed__"),
):
    setattr(_Other, _method, _Other._refuse)


class _States(defaultdict[Any, Any]):
    """The state of the shadow: `_Entries` for a parameter with a gradient, a dict for any other key."""

    def __init__(self, entries: Mapping[torch.Tensor, _Entries], others: Mapping[Any, _Other]) -> None:
        super().__init__(dict)
        self._entries = entries
        for key, other in others.items():
            super().__setitem__(key, other)
        for parameter, own in entries.items():
            if own.before:
                super().__setitem__(parameter, own)

    def __missing__(self, key: Any) -> Any:
        own = self._entries.get(key) if isinstance(key, torch.Tensor) else None
        found: Any = {} if own is None else own
        super().__setitem__(key, found)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        own = self[key]
        for name in [*own]:
            del own[name]
        own.update(value)

    def refuse_others(self) -> None:
        """Raises CaptureError if there is state for a key that is not a parameter with a gradient."""
        for key, value in self.items():
            if not isinstance(value, _Entries | _Other) and value:
                whose = "a parameter without a gradient" if isinstance(key, torch.Tensor) else repr(key)
                raise CaptureError(f"the optimizer's step keeps state for {whose}: expected state of its parameters")


class _Findings:
    """The facts about a step that its runs have found.

    Attributes:
      starts: for each entry of state that the first step creates, its first value and its initial value, keyed by
        parameter and key.
      has_starts: whether a step from the initial values computes what the first step computes.
      stepped: entries of groups that the step changes, as pairs of the group's index and the key.
      apart: entries of state that are numbers and differ between the parameters of a group.
      unfollowed: entries of state that are tensors of shape [] but cannot be tracked as numbers.
    """

    def __init__(self) -> None:
        self.starts: dict[torch.Tensor, dict[Any, tuple[Any, Any]]] = defaultdict(dict)
        self.has_starts = True
        self.stepped: set[tuple[int, Any]] = set()
        self.apart: set[tuple[int, Any]] = set()
        self.unfollowed: set[tuple[int, Any]] = set()

    @property
    def size(self) -> int:
        """The number of facts found."""
        return sum(map(len, (*self.starts.values(), self.stepped, self.apart, self.unfollowed)))

    def learn(self, run: _Run) -> None:
        """Adds the facts that a run has found."""
        self.stepped |= run.stepped
        shared: dict[Hashable, set[Node]] = defaultdict(set)
        for entries in run.states:
            if self.has_starts and entries.made and _DEPENDENT not in entries.made.values():
                for key, value in entries.made.items():
                    self.starts[entries.parameter][key] = value, _start(value, entries.get(key))
            for key, value in entries.items():
                place = entries.index, key
                if run.kind(entries, key, value) in ("number", "counter"):
                    node = run.node(entries.parameter, key)
                    if node is None:
                        self.unfollowed.add(place)
                    else:
                        shared[place, entries.leaves.get(key)].add(node)
        for (place, _), nodes in shared.items():  # type: ignore[misc]
            if len(nodes) > 1:
                self.apart.add(place)


class _Run:
    """A shadow of an optimizer, and the effects of a step on it.

    Attributes:
      tape: the traced numbers.
      parameters: the shadow's tensor for each of the optimizer's parameters.
      states: the shadow's entries of state for each parameter with a gradient.
      leaves: for each entry of a group that the step changes, its leaf.
      hyper_parameters: the other numbers of the groups.
      stepped: entries of groups that this step has changed and that are not known to be state yet.
      read: the leaves from which the step has computed tensors.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        names: Mapping[torch.Tensor, str],
        findings: _Findings,
        tape: Tape,
        tensors: _Tensors,
        expressions: Expressions | None = None,
        is_first: bool = False,
    ) -> None:
        """Creates the shadow.

        Args:
          expressions: compares this run with others.
          is_first: whether the step creates the state even if its initial values are known. The values that it creates
            become the inputs that a run from the initial values has.
        """
        self.tape = tape
        self.leaves: dict[tuple[int, Any], Node] = {}
        self.hyper_parameters: list[Node] = []
        self.stepped: set[tuple[int, Any]] = set()
        self.read: frozenset[Node] = frozenset()
        self._findings = findings
        self._names = names
        self._calls = NumberCalls(tape)
        self._expressions = expressions
        self._is_first = is_first
        tape.begin(tensors.number, None if expressions is None else expressions.note_number)
        self.parameters = {parameter: tensors.parameter(parameter) for parameter in names}
        own: dict[torch.Tensor, _Entries] = {}
        self._groups = []
        self._options: dict[torch.Tensor, Node] = {}
        for index, group in enumerate(optimizer.param_groups):
            for parameter in group["params"]:
                tensor = self.parameters[parameter]
                self._name(tensor, "parameter", names[parameter])
                tensor.grad = tensors.gradient(parameter)
                if tensor.grad is not None:
                    self._name(tensor.grad, "gradient", names[parameter])
                    own[tensor] = entries = _Entries(index, parameter, names[parameter], self._begin)
                    if not is_first:
                        entries.before.update({key: start for key, (_, start) in findings.starts[parameter].items()})
                    entries.before.update(optimizer.state.get(parameter, {}))
                    for key, value in entries.before.items():
                        entries.enter(key, self._input(entries, key, value, tensors))
            self._groups.append({key: self._option(index, (key,), value) for key, value in _options(group)})
        self.states = [*own.values()]
        self._state = _States(own, self._others(optimizer, own))
        self._shadow = object.__new__(type(optimizer))
        attributes = {key: _copied(value) for key, value in vars(optimizer).items() if key != "step"}
        self._shadow.__dict__.update(attributes)
        self._shadow.state = self._state
        self._shadow.param_groups = [
            _copied(options)
            | {key: False for key in _IMPLEMENTATIONS if key in options}
            | {"params": [self.parameters[parameter] for parameter in group["params"]]}
            for options, group in zip(self._groups, optimizer.param_groups, strict=True)
        ]

    def _others(
        self, optimizer: torch.optim.Optimizer, own: Mapping[torch.Tensor, _Entries]
    ) -> dict[torch.Tensor, _Other]:
        """Returns the state that is not the state of a parameter with a gradient, keyed by the shadow's tensor."""
        found: dict[torch.Tensor, _Other] = {}
        for key, value in optimizer.state.items():
            if isinstance(value, dict) and not value:
                continue
            if not isinstance(key, torch.Tensor):
                raise CaptureError(f"the optimizer keeps state for {key!r}: expected state of its parameters")
            tensor = self.parameters.get(key, key)
            if tensor not in own:
                found[tensor] = _Other(f"parameter {self._names[key]}" if key in self._names else "another tensor")
        return found

    def _name(self, tensor: torch.Tensor, *expression: Hashable) -> None:
        if self._expressions is not None:
            self._expressions.name(tensor, *expression)

    def _input(self, entries: _Entries, key: Any, value: Any, tensors: _Tensors) -> Any:
        """Returns an entry of state as an input of the step."""
        kind = self.kind(entries, key, value)
        if kind == "constant":
            return value
        if kind == "number":
            return traced_number(self.tape, self._leaf(entries, key, value))
        if kind == "counter":
            return self._counter(self._leaf(entries, key, value), value)
        tensor = tensors.state(entries.parameter, key, value)
        self._name(tensor, "state", entries.name, key)
        return tensor

    def _begin(self, entries: _Entries, key: Any, value: Any) -> Any:
        """Records an entry that the step creates, and returns its value for the rest of the step."""
        first = entries.made[key] = self._first_value(value)
        known, start = self._findings.starts[entries.parameter].get(key, (None, None))
        is_same = repr(first) == repr(known) and isinstance(value, torch.Tensor) == isinstance(start, torch.Tensor)
        if not self._is_first or not is_same:
            return value
        # The initial value is a real tensor, which the modes of the step would refuse.
        with DisableTorchFunction():
            kind = self.kind(entries, key, start)
            leaf = self._leaf(entries, key, start) if kind in ("number", "counter") else None
        if leaf is None:
            if kind == "tensor":
                self._name(value, "state", entries.name, key)
            return value
        if kind == "number":
            return traced_number(self.tape, leaf)
        self._calls.note(value, leaf)
        self._name(value, "number", leaf)
        return value

    def _leaf(self, entries: _Entries, key: Any, value: Any) -> Node:
        place = entries.index, key
        whose = entries.name if place in self._findings.apart else None
        dtype = value.dtype if isinstance(value, torch.Tensor) else None
        leaf = entries.leaves[key] = self.tape.leaf(("state", *place, whose, dtype), _number(value))
        return leaf

    def _counter(self, leaf: Node, value: torch.Tensor) -> torch.Tensor:
        """Returns a new tensor that is known to contain the leaf's number."""
        tensor = self.tape.tensor(leaf).to(value.dtype, copy=True).reshape(value.shape)
        self._calls.note(tensor, leaf)
        self._name(tensor, "number", leaf)
        return tensor

    def _option(self, index: int, path: tuple[Any, ...], value: Any) -> Any:
        """Returns the shadow's value for an entry of a group: the same value, but with traced numbers."""
        if isinstance(value, tuple | list | dict):
            return _rebuilt(value, lambda key, item: self._option(index, (*path, key), item))
        if not _is_number(value):
            return value
        if path in [(key,) for group, key in self._findings.stepped if group == index]:
            leaf = self.leaves[index, path[0]] = self.tape.leaf(("state", index, path[0], "group"), value)
        else:
            leaf = self.tape.leaf(("group", index, path), _number(value))
            self.hyper_parameters.append(leaf)
        if not isinstance(value, torch.Tensor):
            return traced_number(self.tape, leaf)
        tensor = self._counter(leaf, value)
        self._options[tensor] = leaf
        return tensor

    def _first_value(self, value: Any) -> Any:
        if is_traced(value):
            return _DEPENDENT
        if not isinstance(value, torch.Tensor):
            return value
        node = self._calls.known(value)
        if node is None or node.operation != "constant":
            return _DEPENDENT
        assert node.value is not None
        return _Uniform(tuple(value.shape), tuple(value.stride()), value.dtype, node.value)

    def step(self) -> None:
        """Runs the `step` of the optimizer's class on the shadow."""
        kind = type(self._shadow)
        modules = {sys.modules[base.__module__] for base in kind.__mro__ if base.__module__ in sys.modules}
        before = dict(vars(self._shadow)), _attributes(self._shadow)
        profiler = replaced(torch.autograd.profiler, record_function=lambda _: contextlib.nullcontext)
        with functions_on_numbers(modules, self._calls.known), profiler, self._calls:
            kind.step(self._shadow)
        if _attributes(self._shadow) != before[1]:
            now = dict(_attributes(self._shadow))
            name = next(key for key in {**now, **dict(before[1])} if now.get(key) != dict(before[1]).get(key))
            raise CaptureError(
                f"the optimizer's step changes the attribute {name} of the optimizer: keep values that change in "
                "optimizer.state[parameter] or in the parameter groups"
            )
        self._state.refuse_others()
        self._see_groups()
        self.read = frozenset(self.tape.read)

    def _see_groups(self) -> None:
        if len(self._shadow.param_groups) != len(self._groups):
            raise CaptureError("the optimizer's step adds or removes parameter groups: expected the same groups")
        for index, (group, was) in enumerate(zip(self._shadow.param_groups, self._groups, strict=True)):
            for key in {**group, **was}:
                if key == "params" or (key in _IMPLEMENTATIONS and key in was):
                    continue
                value, former = group.get(key, _ABSENT), was.get(key, _ABSENT)
                if self._is_same(value, former) or (index, key) in self.leaves:
                    continue
                if not is_traced(former) or not (is_traced(value) or type(value) in (int, float)):
                    raise CaptureError(
                        f"the optimizer's step changes {key!r} of parameter group {index}: expected changes only of "
                        "Python numbers that exist before the first step"
                    )
                self.stepped.add((index, key))

    def _is_same(self, one: Any, other: Any) -> bool:
        if isinstance(one, torch.Tensor):
            return one is other and self._calls.known(one) is self._options[one]
        if is_traced(one) or is_traced(other):
            return is_traced(one) and is_traced(other) and one.number is other.number
        if isinstance(one, tuple | list | dict) and type(one) is type(other) and len(one) == len(other):
            pairs = ((one[key], other[key]) for key in (one if isinstance(one, dict) else range(len(one))))
            return all(self._is_same(*pair) for pair in pairs)
        return one is other or hashable(one) == hashable(other)

    def kind(self, entries: _Entries, key: Any, value: Any) -> Any:
        """Returns `number`, `counter`, `tensor` or `constant` for an entry; raises CaptureError for other values."""
        if is_traced(value) or type(value) in (int, float):
            return "number"
        if isinstance(value, bool | str | None):
            return "constant"
        if not isinstance(value, torch.Tensor):
            raise CaptureError(f"{entries.place(key)} is a {type(value).__name__}, expected tensors and numbers")
        if value.layout is not torch.strided:
            raise CaptureError(f"{entries.place(key)} is a tensor of layout {value.layout}, expected a dense one")
        followed = value.dim() == 0 and value.dtype in _COUNTED
        return "counter" if followed and (entries.index, key) not in self._findings.unfollowed else "tensor"

    def _value(self, owner: Owner, key: Any) -> Any:
        if isinstance(owner, int):
            return self._shadow.param_groups[owner][key]
        return self._state[self.parameters[owner]][key]

    def node(self, owner: Owner, key: Any) -> Node | None:
        """Returns the number that the step has left in an entry; None if the number is not tracked."""
        value = self._value(owner, key)
        return self._calls.known(value) if isinstance(value, torch.Tensor) else node_of(self.tape, value)

    def final(self, owner: Owner, key: Any, dtype: torch.dtype) -> torch.Tensor:
        """Returns, as a tensor of the program, the value that the step has left in an entry."""
        node = self.node(owner, key)
        value = self._value(owner, key)
        if node is None or (isinstance(value, torch.Tensor) and value.dim() > 0):
            return value
        return self.tape.tensor(node).to(dtype)

    def result(self) -> Hashable:
        """Returns the expressions of all that the step has left; see `Expressions`."""
        expressions = self._expressions
        assert expressions is not None

        def of(entries: _Entries, key: Any, value: Any) -> Hashable:
            kind = self.kind(entries, key, value)
            node = self.node(entries.parameter, key) if kind in ("number", "counter") else None
            if node is not None:
                return kind, node.kind, getattr(value, "dtype", None), expressions.of_number(node)
            return kind, expressions.of_tensor(value) if isinstance(value, torch.Tensor) else hashable(value)

        parameters = tuple(map(expressions.of_tensor, self.parameters.values()))
        states = tuple(
            (self.has_touched(entries), frozenset((key, of(entries, key, value)) for key, value in entries.items()))
            for entries in self.states
        )
        groups = {place: expressions.of_number(node) for place in self.leaves if (node := self.node(*place))}
        return parameters, states, frozenset(groups.items())

    def has_touched(self, entries: _Entries) -> bool:
        """Whether the step has accessed the state of a parameter, which creates an entry in `optimizer.state`."""
        return self.parameters[entries.parameter] in self._state

    def refuse_changes(self) -> None:
        """Raises CaptureError if the step changes the type or shape of state, or reads a number that it changes: each
        step would need its own program."""
        changing = {leaf for place, leaf in self.leaves.items() if self.node(*place) is not leaf}
        for entries in self.states:
            for key, before in entries.before.items():
                if key not in entries:
                    raise CaptureError(
                        f"the optimizer's step removes {entries.place(key)}: expected state that is kept"
                    )
                self._refuse_change(entries, key, before)
            numbers = ((key, leaf) for key, leaf in entries.leaves.items() if key in entries.before)
            changing |= {leaf for key, leaf in numbers if self.node(entries.parameter, key) is not leaf}
        for node, guard in self.tape.guards.items():
            if guard.exact and not changing.isdisjoint(leaves_of(node)):
                line = f"{guard.line}: " if guard.line else ""
                raise CaptureError(
                    f"{line}the optimizer's step reads the value of a number that changes at each step (by float(), "
                    "int(), a string or an argument that cannot be a tensor): use arithmetic, comparisons, math.sqrt, "
                    "exp, log or pow on it, or a tensor instead"
                )

    def _refuse_change(self, entries: _Entries, key: Any, before: Any) -> None:
        value, kind = entries[key], self.kind(entries, key, entries[key])
        change = f"the optimizer's step changes {entries.place(key)}"
        if kind != self.kind(entries, key, before):
            raise CaptureError(f"{change} to a {type(value).__name__}")
        if kind == "constant" and hashable(value) != hashable(before):
            raise CaptureError(f"{change} from {before!r} to {value!r}: expected tensors and numbers")
        if isinstance(value, torch.Tensor) and (value.shape, value.dtype) != (before.shape, before.dtype):
            raise CaptureError(
                f"{change} to shape {list(value.shape)} of {value.dtype}, "
                f"expected {list(before.shape)} of {before.dtype} as before"
            )
        node = self.node(entries.parameter, key) if kind == "number" else None
        if node is not None and type(before) is int and node.kind is not int:
            raise CaptureError(f"{change} to a float, expected an int as before")

    def refuse_shared_memory(self) -> None:
        """Raises CaptureError if the step leaves two entries, or an entry and a parameter, in the same memory."""
        places: dict[int, str] = {}
        for entries in self.states:
            places[_memory(self.parameters[entries.parameter])] = f"parameter {entries.name}"
        for entries in self.states:
            for key, value in entries.items():
                if isinstance(value, torch.Tensor) and value.numel():
                    place = entries.place(key)
                    other = places.setdefault(_memory(value), place)
                    if other != place:
                        raise CaptureError(
                            f"the optimizer's step makes {place} share memory with {other}: expected separate tensors, "
                            "as of clone()"
                        )


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


# --- The user's optimizer ---


def _name(optimizer: torch.optim.Optimizer) -> str:
    return type(optimizer).__qualname__


def _check_groups(optimizer: torch.optim.Optimizer) -> None:
    for index, group in enumerate(optimizer.param_groups):
        if group.get("differentiable"):
            raise CaptureError(f"optimizer parameter group {index}: differentiable=True is not supported")


def _attributes(optimizer: torch.optim.Optimizer) -> tuple[tuple[str, Hashable], ...]:
    return tuple((key, hashable(value)) for key, value in vars(optimizer).items() if key not in _LOOKED_AFTER)


def _options(group: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Returns the entries of a group except its parameters; sorted, because load_state_dict changes their order."""
    return [(key, group[key]) for key in sorted(group) if key != "params"]


def _is_number(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.numel() == 1 and value.dtype in _COUNTED
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _number(value: Any) -> Scalar:
    """Returns the Python number; raises ValueError if the value is not a number."""
    if isinstance(value, torch.Tensor):
        # The tensor belongs to the user, so its value is read outside the modes of a trace.
        with disable_current_modes():
            return value.item()
    if not _is_number(value):
        raise ValueError(f"expected a number, got {value!r}")
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def _form_of(what: str, value: Any) -> Hashable:
    """Returns the properties of a group's entry that determine the program; numbers themselves are inputs."""
    if isinstance(value, torch.Tensor):
        if not _is_number(value):
            raise CaptureError(
                f"{what} is a tensor of shape {list(value.shape)} of {value.dtype}, expected a number or one element"
            )
        return value.dtype, value.shape
    if _is_number(value):
        return "number", isinstance(value, numbers.Integral)
    if isinstance(value, tuple | list):
        return type(value), tuple(_form_of(what, item) for item in value)
    if isinstance(value, dict):
        return type(value), tuple((hashable(key), _form_of(what, item)) for key, item in value.items())
    return hashable(value)


def _rebuilt(value: Any, function: Callable[[Any, Any], Any]) -> Any:
    """Returns a tuple, list or dict of the type of `value`, whose items are `function(key, item)`."""
    if isinstance(value, dict):
        return {key: function(key, item) for key, item in value.items()}
    items = [function(key, item) for key, item in enumerate(value)]
    if isinstance(value, list):
        return items
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def _copied(value: Any) -> Any:
    """Copies nested containers, but not the other items in them."""
    if type(value) in (tuple, list, dict):
        return _rebuilt(value, lambda _, item: _copied(item))
    return copy.copy(value) if isinstance(value, list | dict | set | deque) else value
