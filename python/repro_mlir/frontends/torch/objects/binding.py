# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The tensors of the user's model and optimizer as the memory of a program's state.

A step works on the memory of the tensors themselves. If a tensor's memory cannot be used directly, because it is not
contiguous or several tensors share it, `pull` and `push` synchronize the tensor with a separate array.
After `push` the user's tensors have the present values; between `leave` and `push` any use of a tensor calls `push`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter, is_
from typing import Any

import numpy as np
import torch

from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.tensors.arrays import as_array
from repro_mlir.base.tensors.torch_tensors import to_tensor
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.objects.captured_program import TorchBindings
from repro_mlir.frontends.torch.objects.device_tensors import Residents, as_they_are
from repro_mlir.frontends.torch.objects.subject import Subject
from repro_mlir.frontends.torch.optimizers.state_slots import Slot, held_by

_versions = attrgetter("_version")


class Stale(Exception):
    """The user's objects no longer match the captured program, so they must be captured again."""


def mark_stepped(optimizer: Any) -> bool:
    """Marks an optimizer as having run a step, without which learning rate schedulers warn at their first step. Returns
    whether it was not marked before."""
    is_first = not getattr(optimizer, "_opt_called", False)
    if is_first:
        optimizer._opt_called = True
    return is_first


class Binding:
    """The state of a program in the user's tensors.

    Attributes:
      arrays: the state tensors, keyed by name, in the order of the program: contiguous, writable and disjoint.
      tensors: the user's tensors that contain state.
      residents: the tensors whose newest values are elsewhere: if on a device, all `tensors` and the optimizer's
        counters; if on other ranks, some of `tensors`.
    """

    def __init__(
        self,
        subject: Subject,
        captured: TorchBindings,
        own: Mapping[str, np.ndarray],
        others: Iterable[Binding] = (),
        added: Sequence[TensorType] = (),
    ) -> None:
        """Binds a program's state to the user's tensors.

        Args:
          subject, captured: the objects that were captured, and the captured program.
          own: arrays, keyed by name, for the state that no object of the user contains: `seed`, `step`, gradient
            compression, `added`.
          others: bindings of other programs to the same objects; this binding shares their counters.
          added: the state tensors that follow the captured state in the program.
        Raises:
          CaptureError: a tensor that a step writes shares memory with another tensor, or some of its elements share
            memory.
          Stale: counters of the optimizer that the program represents by one tensor have different values, or the
            optimizer lacks state of the program.
        """
        self.arrays: dict[str, np.ndarray] = {}
        self.tensors: list[torch.Tensor] = []
        self._names: list[str] = []
        self._optimizer = subject.optimizer
        self._copies: list[tuple[torch.Tensor, TensorType, bool]] = []
        self._written: list[torch.Tensor] = []
        self._new: list[tuple[Any, Any, torch.Tensor]] = []
        self._constants = {**captured.optimizer_constants}
        self._counters: list[_Counter | _Number] = []
        self.residents = Residents()
        self._foreign: frozenset[str] = frozenset()
        held = dict(subject.model.named_parameters()) | dict(subject.model.named_buffers()) | subject.extra
        written, beside = captured.written, {*captured.own}
        shared: list[tuple[torch.Tensor, TensorType]] = []
        for kind, slot in zip(captured.state, captured.slots, strict=True):
            # Reserves the position in the program's order. `_hold` later sets the entry of a tensor of the user.
            self.arrays[kind.name] = own[kind.name] if kind.name in beside else _EMPTY
            if kind.name in held:
                shared.append((held[kind.name], kind))
            elif slot is None:
                continue
            elif slot.kind != "tensor":
                assert self._optimizer is not None
                counter = self._counter(slot, others)
                self._counters.append(counter)
                self.arrays[kind.name] = counter.array
            else:
                shared.append((self._slot(slot), kind))
        self.arrays.update((kind.name, own[kind.name]) for kind in added)
        apart = _apart(shared, written)
        for (tensor, kind), alone in zip(shared, apart, strict=True):
            self._hold(tensor, kind, kind.name in written, alone)
        self._seen: list[int] = []
        self.see()

    @property
    def has_numbers(self) -> bool:
        """Whether the optimizer stores state in Python numbers, which, unlike tensors, cannot be updated when they are
        read.
        """
        return any(isinstance(counter, _Number) for counter in self._counters)

    def _counter(self, slot: Slot, others: Iterable[Binding]) -> _Counter | _Number:
        assert self._optimizer is not None
        if slot.kind == "number":
            return _Number(slot, self._optimizer)
        for counter in itertools.chain.from_iterable(other._counters for other in others):
            if isinstance(counter, _Counter) and counter.serves(slot):
                counter.pull()
                return counter
        return _Counter(slot, self._optimizer)

    def _slot(self, slot: Slot) -> torch.Tensor:
        """Returns the slot's tensor in the optimizer's state; if there is none yet, a new one, which the optimizer gets
        after the first step."""
        assert self._optimizer is not None
        (owner,) = slot.owners
        found = held_by(self._optimizer, owner).get(slot.key)
        if isinstance(found, torch.Tensor):
            if found.shape != slot.initial.shape or found.dtype != slot.initial.dtype:
                raise Stale
            return found
        if slot.start is None:
            raise Stale
        tensor = slot.start.detach().clone(memory_format=torch.contiguous_format)
        self._new.append((owner, slot.key, tensor))
        return tensor

    def _hold(self, tensor: torch.Tensor, kind: TensorType, written: bool, alone: bool) -> None:
        if tensor.is_inference():
            raise CaptureError(f"state {kind.name} is an inference tensor: create it outside of torch.inference_mode")
        self.tensors.append(tensor)
        self._names.append(kind.name)
        if alone and tensor.is_contiguous() and not tensor.is_neg():
            self.arrays[kind.name] = as_array(tensor, kind, "state")
            if written:
                self._written.append(tensor)
            return
        self.arrays[kind.name] = np.empty(kind.shape, kind.dtype)
        self._copies.append((tensor, kind, written))
        self._copy_in(tensor, kind)

    def _copy_in(self, tensor: torch.Tensor, kind: TensorType) -> None:
        value = tensor.detach().clone(memory_format=torch.contiguous_format).resolve_neg()
        np.copyto(self.arrays[kind.name], as_array(value, kind, "state"))

    @float_environment()
    def pull(self) -> None:
        """Updates the arrays with the values that the user wrote into tensors that have a separate array.

        Raises:
          Stale: see the constructor.
        """
        if self.residents and not self._foreign:
            return
        # Copies even if the version is unchanged: a write through `Tensor.data` or NumPy does not change a tensor's
        # version.
        for tensor, kind, _ in self._copies:
            if kind.name not in self._foreign:
                self._copy_in(tensor, kind)
        for counter in self._counters:
            counter.pull()

    def see(self) -> None:
        """Records the version counters of the tensors, whose values the arrays now have."""
        self._seen = list(map(_versions, self.tensors))

    @property
    def touched(self) -> bool:
        """Whether other code wrote into the tensors since `see`, according to their version counters."""
        with as_they_are():
            return list(map(_versions, self.tensors)) != self._seen

    def adopt(self) -> bool:
        """Puts missing state tensors into the optimizer, as the optimizer's own first step does.

        Returns:
          whether any state tensor was missing.
        """
        new = bool(self._new or self._constants) or any(counter.is_new for counter in self._counters)
        if new:
            assert self._optimizer is not None
            for parameter, key, value in self._new:
                self._optimizer.state[parameter][key] = value
            for parameter, constants in self._constants.items():
                self._optimizer.state[parameter].update(constants | self._optimizer.state[parameter])
            self._new, self._constants = [], {}
            for counter in self._counters:
                counter.adopt()
        return new

    def note_step(self) -> bool:
        """Marks the optimizer as having run a step, as `optimizer.step` does: learning rate schedulers check the mark.

        Returns:
          whether this step was the optimizer's first one.
        """
        return mark_stepped(self._optimizer)

    def leave(self, bring_back: Callable[[], None], foreign: frozenset[str] = frozenset()) -> None:
        """Records that the newest values are elsewhere, for example on a device, until `bring_back` is called.

        Args:
          bring_back: calls `push`, or raises.
          foreign: the names of the state tensors whose values are elsewhere; if empty, all of them.
        """
        self._foreign = foreign
        if foreign:
            named = zip(self._names, self.tensors, strict=True)
            self.residents.enter([tensor for name, tensor in named if name in foreign], bring_back)
            return
        counters = (tensor for counter in self._counters for tensor in counter.tensors())
        self.residents.enter([*self.tensors, *counters], bring_back)

    def give_up(self) -> None:
        """Reverts `leave` without fetching the newest values: the tensors keep their older values."""
        self.residents.leave()

    @float_environment()
    def push(self, stepped: bool = True, foreign: frozenset[str] = frozenset()) -> bool:
        """Brings the user's tensors up to date and marks them as modified for autograd.

        Args:
          stepped: whether a step has run on the state, so that the optimizer gets its missing state.
          foreign: the names of state tensors whose values are still elsewhere (see `leave`).
        Returns:
          the result of `adopt`; False if `stepped` is False.
        """
        new = stepped and self.adopt()
        for counter in self._counters:
            if not counter.is_new:
                counter.push()
        # In this block, accesses to tensors do not call `push` again. After an exception the tensors still count as
        # being on the device, so that their next use calls `push` again.
        with as_they_are():
            for tensor, kind, written in self._copies:
                if written and kind.name not in foreign:
                    # `no_grad` is avoided, because a Ctrl-C at its end would leave gradients disabled.
                    tensor.detach().copy_(to_tensor(self.arrays[kind.name], kind))
            torch.autograd.graph.increment_version(self._written)
            self.see()
        if not foreign:
            self._foreign = frozenset()
            self.residents.leave()
        return new


_EMPTY = np.empty(0)


class _Counter:
    """A value of the program, such as a step counter, that the optimizer stores in one tensor per parameter.

    Attributes:
      array: the program's array of shape [].
    """

    def __init__(self, slot: Slot, optimizer: torch.optim.Optimizer) -> None:
        self._slot = slot
        self._optimizer = optimizer
        self._held: np.ndarray | None = None
        self._tensors: list[torch.Tensor] = []
        if slot.kind == "count":
            # Only the program has this value, which says whether torch.optim.SGD would find a momentum buffer.
            found = [float(state.get("momentum_buffer") is not None) for state in self._states()]
        else:
            if slot.start is None and any(slot.key not in state for state in self._states()):
                raise Stale
            start = 0.0 if slot.start is None else slot.start.item()
            found = [_item(state.get(slot.key, start)) for state in self._states()]
        self.array = np.zeros((), slot.initial.numpy().dtype)
        self.array[...] = found[0]
        # All NaNs count as equal.
        if not np.array_equal(found, [found[0]] * len(found), equal_nan=True):
            raise Stale

    @property
    def is_new(self) -> bool:
        """Whether the optimizer's own tensors are not connected to the array yet."""
        return self._held is None and self._slot.kind != "count"

    def serves(self, slot: Slot) -> bool:
        """Whether the counter can also represent this slot of another program: the owners are the same, and the
        optimizer still has the counter's tensors."""
        own = self._slot
        same = (own.kind, own.key, own.initial.dtype) == (slot.kind, slot.key, slot.initial.dtype)
        if not same or not len(own.owners) == len(slot.owners) == len(self._tensors):
            return False
        found = (state.get(own.key) for state in self._states())
        return all(map(is_, own.owners, slot.owners)) and all(map(is_, found, self._tensors))

    def _states(self) -> list[dict[Any, Any]]:
        return [held_by(self._optimizer, owner) for owner in self._slot.owners]

    def pull(self) -> None:
        """Updates the array with the common value of the optimizer's tensors; raises Stale if their values differ."""
        if self._held is not None and (self._held != self.array).any():
            if (self._held != self._held[0]).any():
                raise Stale
            self.array[...] = self._held[0]

    def push(self) -> None:
        """Updates the optimizer's tensors with the value of the array."""
        if self._held is not None:
            self._held.fill(self.array[()])

    def tensors(self) -> list[torch.Tensor]:
        """Returns the optimizer's tensors; none until they are connected to the array."""
        return self._tensors

    def adopt(self) -> None:
        """Puts a tensor into the state of each parameter; the elements of these tensors share one array."""
        if not self.is_new:
            return
        key = self._slot.key
        states = [self._optimizer.state[owner] for owner in self._slot.owners if not isinstance(owner, int)]
        kept = next((state[key] for state in states if isinstance(state.get(key), torch.Tensor)), None)
        dtype = np.float64 if kept is not None and kept.dtype == torch.float64 else self.array.dtype
        held = np.empty(len(states), dtype)
        # Each tensor has its own storage, as with torch.optim.
        self._tensors = [torch.from_numpy(held[i : i + 1]).reshape([]) for i in range(len(states))]
        for state, tensor in zip(states, self._tensors, strict=True):
            state[key] = tensor
        self._held = held


class _Number:
    """A value of the program that the optimizer stores as Python numbers.

    Attributes:
      array: the program's array, an f64 of shape [].
    """

    def __init__(self, slot: Slot, optimizer: torch.optim.Optimizer) -> None:
        self.array = np.zeros((), np.float64)
        self._slot = slot
        self._optimizer = optimizer
        self.pull()

    @property
    def is_new(self) -> bool:
        """Whether some owner does not have the number yet."""
        return any(self._slot.key not in held_by(self._optimizer, owner) for owner in self._slot.owners)

    def pull(self) -> None:
        """Updates the array with the optimizer's numbers; raises Stale if they differ or are not of the slot's type."""
        slot, start = self._slot, self._slot.start
        found = {held_by(self._optimizer, owner).get(slot.key, start) for owner in slot.owners}
        if len(found) > 1:
            raise Stale
        (value,) = found
        if value is start:
            if start is None:
                raise Stale
            value = slot.number(start.item())
        if type(value) is not slot.number:
            raise Stale
        self.array[...] = value

    def push(self) -> None:
        """Sets the optimizer's numbers to the value of the array."""
        value = self._slot.number(self.array[()])
        for owner in self._slot.owners:
            held = self._optimizer.param_groups[owner] if isinstance(owner, int) else self._optimizer.state[owner]
            held[self._slot.key] = value

    adopt = push

    def tensors(self) -> list[torch.Tensor]:
        """Returns an empty list, because no tensor contains the value."""
        return []


def _item(value: Any) -> float:
    return value.item() if isinstance(value, torch.Tensor) else float(value)


def _apart(tensors: Sequence[tuple[torch.Tensor, TensorType]], written: frozenset[str]) -> list[bool]:
    """Returns, for each tensor, whether its elements share memory neither with each other nor with another tensor.

    Raises:
      CaptureError: a step writes a tensor that shares memory.
    """
    alone = [not _overlaps_itself(tensor) for tensor, _ in tensors]
    for (_, kind), single in zip(tensors, alone, strict=True):
        if not single and kind.name in written:
            raise CaptureError(f"elements of state {kind.name} share memory, expected separate elements: use clone()")
    spans = sorted((*_span(tensor), i) for i, (tensor, _) in enumerate(tensors) if tensor.numel())
    for (_, end, i), (start, _, j) in itertools.pairwise(spans):
        if start < end:
            alone[i] = alone[j] = False
            names = tensors[i][1].name, tensors[j][1].name
            if written.intersection(names):
                raise CaptureError(
                    f"state {names[0]} and state {names[1]} share memory, expected separate tensors; to tie "
                    "parameters, "
                    "register one Parameter under both names"
                )
    return alone


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Returns the address of a tensor's first element, and the address after the last one."""
    begin = tensor.data_ptr()
    last = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return begin, begin + (last + 1) * tensor.element_size()


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    return any(extent > 1 and stride == 0 for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
