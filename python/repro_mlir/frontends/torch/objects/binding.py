# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The tensors of the user's model and optimizer as the memory in which a program's state is kept.

A step works on the memory of the tensors themselves. A tensor whose memory cannot be used as it is, since it is not
contiguous or stands for several, has an array beside it, which `pull` and `push` keep equal to it: wherever the values
are, after `push` the user's tensors have them, and between `leave` and `push` whoever uses one has them pushed first.
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
from repro_mlir.frontends.torch.objects.captured_program import Captured
from repro_mlir.frontends.torch.objects.device_tensors import Residents, as_they_are
from repro_mlir.frontends.torch.objects.subject import Subject
from repro_mlir.frontends.torch.optimizers.state_slots import Slot, held_by

_versions = attrgetter("_version")


class Stale(Exception):
    """The user's objects no longer have the form in which the program was captured: it must be captured again."""


class Binding:
    """The state of a program in the user's tensors.

    Attributes:
      arrays: the state tensors by name, in the order of the program: contiguous, writable, apart from each other.
      tensors: those of the user's tensors that hold state.
      residents: these and the optimizer's counters, as long as the values are on a device; some of these, as long as
        other ranks have them.
    """

    def __init__(
        self,
        subject: Subject,
        captured: Captured,
        own: Mapping[str, np.ndarray],
        others: Iterable[Binding] = (),
        added: Sequence[TensorType] = (),
    ) -> None:
        """
        Args:
          subject, captured: what was captured, and from what.
          own: by name, arrays for the state that no object of the user's holds: `seed`, `step`, gradient compression,
            `added`.
          others: of other programs on the same objects, whose counters it shares.
          added: the state that the program has behind what was captured.
        Raises:
          CaptureError: a tensor that a step writes shares memory with another one, or within itself.
          Stale: the optimizer's counters differ where the program has one, or it has not the state of the program.
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
            # In the order of the program; the tensors' memory comes later.
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
        """Whether Python numbers hold state, which nobody can bring up to date when they are looked at."""
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
        """The tensor in the optimizer's state; a new one, which the optimizer gets with the first step."""
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
            raise CaptureError(f"state {kind.name} is an inference tensor: expected one made outside of inference_mode")
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
        """Brings the arrays up to date with what the user wrote into tensors that have an array beside them.

        Raises:
          Stale: as for the constructor.
        """
        if self.residents and not self._foreign:
            return
        # Always: a write through `Tensor.data` or NumPy leaves a version as it is.
        for tensor, kind, _ in self._copies:
            if kind.name not in self._foreign:
                self._copy_in(tensor, kind)
        for counter in self._counters:
            counter.pull()

    def see(self) -> None:
        """Takes the tensors as they are to be what the arrays have."""
        self._seen = list(map(_versions, self.tensors))

    @property
    def touched(self) -> bool:
        """Whether somebody else wrote into the tensors since `see`, as far as their version counters tell."""
        with as_they_are():
            return list(map(_versions, self.tensors)) != self._seen

    def adopt(self) -> bool:
        """Gives the optimizer the tensors of its state, as its own first step does.

        Returns:
          whether there were any that it had not.
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
        """Lets the optimizer know that a step has run, as its own step does: schedulers look at that.

        Returns:
          whether it was the optimizer's first.
        """
        optimizer: Any = self._optimizer
        is_first = not getattr(optimizer, "_opt_called", False)
        if is_first:
            optimizer._opt_called = True
        return is_first

    def leave(self, bring_back: Callable[[], None], foreign: frozenset[str] = frozenset()) -> None:
        """The values are elsewhere from now on, until `bring_back`, which calls `push`, or raises.

        Args:
          foreign: the names of the state tensors whose values are elsewhere; none of them: all.
        """
        self._foreign = foreign
        if foreign:
            named = zip(self._names, self.tensors, strict=True)
            self.residents.enter([tensor for name, tensor in named if name in foreign], bring_back)
            return
        counters = (tensor for counter in self._counters for tensor in counter.tensors())
        self.residents.enter([*self.tensors, *counters], bring_back)

    def give_up(self) -> None:
        """The tensors are what they were before `leave`, without the values."""
        self.residents.leave()

    @float_environment()
    def push(self, stepped: bool = True, foreign: frozenset[str] = frozenset()) -> bool:
        """Brings the user's tensors up to date: what autograd saved before it counts as overwritten.

        Args:
          stepped: whether the state has seen a step, by which the optimizer gets state that it has not.
          foreign: the names of state tensors whose values are elsewhere still, see `leave`.
        Returns:
          as `adopt`, which it does then.
        """
        new = stepped and self.adopt()
        for counter in self._counters:
            if not counter.is_new:
                counter.push()
        # The tensors as they are; an exception leaves them on the device, and all this is done again.
        with as_they_are():
            for tensor, kind, written in self._copies:
                if written and kind.name not in foreign:
                    # Not within no_grad: a Ctrl-C as it ends would leave gradients off.
                    tensor.detach().copy_(to_tensor(self.arrays[kind.name], kind))
            torch.autograd.graph.increment_version(self._written)
            self.see()
        if not foreign:
            self._foreign = frozenset()
            self.residents.leave()
        return new


_EMPTY = np.empty(0)


class _Counter:
    """A value of the program of which the optimizer has a tensor for each of several parameters.

    Attributes:
      array: of shape []: the program's.
    """

    def __init__(self, slot: Slot, optimizer: torch.optim.Optimizer) -> None:
        self._slot = slot
        self._optimizer = optimizer
        self._held: np.ndarray | None = None
        self._tensors: list[torch.Tensor] = []
        if slot.kind == "count":
            # Of ours alone: whether torch.optim.SGD would find a momentum buffer.
            found = [float(state.get("momentum_buffer") is not None) for state in self._states()]
        else:
            if slot.start is None and any(slot.key not in state for state in self._states()):
                raise Stale
            start = 0.0 if slot.start is None else slot.start.item()
            found = [_item(state.get(slot.key, start)) for state in self._states()]
        self.array = np.zeros((), slot.initial.numpy().dtype)
        self.array[...] = found[0]
        # A NaN is one.
        if not np.array_equal(found, [found[0]] * len(found), equal_nan=True):
            raise Stale

    @property
    def is_new(self) -> bool:
        """Whether the optimizer's own tensors do not follow yet."""
        return self._held is None and self._slot.kind != "count"

    def serves(self, slot: Slot) -> bool:
        """Whether it is the value of another program's slot, in the tensors that the optimizer still has."""
        own = self._slot
        same = (own.kind, own.key, own.initial.dtype) == (slot.kind, slot.key, slot.initial.dtype)
        if not same or not len(own.owners) == len(slot.owners) == len(self._tensors):
            return False
        found = (state.get(own.key) for state in self._states())
        return all(map(is_, own.owners, slot.owners)) and all(map(is_, found, self._tensors))

    def _states(self) -> list[dict[Any, Any]]:
        return [held_by(self._optimizer, owner) for owner in self._slot.owners]

    def pull(self) -> None:
        if self._held is not None and (self._held != self.array).any():
            if (self._held != self._held[0]).any():
                raise Stale
            self.array[...] = self._held[0]

    def push(self) -> None:
        if self._held is not None:
            self._held.fill(self.array[()])

    def tensors(self) -> list[torch.Tensor]:
        """The optimizer's, once it has them."""
        return self._tensors

    def adopt(self) -> None:
        """Gives each parameter a tensor for its counter; their elements are together in one array."""
        if not self.is_new:
            return
        key = self._slot.key
        states = [self._optimizer.state[owner] for owner in self._slot.owners if not isinstance(owner, int)]
        kept = next((state[key] for state in states if isinstance(state.get(key), torch.Tensor)), None)
        dtype = np.float64 if kept is not None and kept.dtype == torch.float64 else self.array.dtype
        held = np.empty(len(states), dtype)
        # Each a storage of its own, as torch.optim has it.
        self._tensors = [torch.from_numpy(held[i : i + 1]).reshape([]) for i in range(len(states))]
        for state, tensor in zip(states, self._tensors, strict=True):
            state[key] = tensor
        self._held = held


class _Number:
    """A value of the program that the optimizer has as Python numbers.

    Attributes:
      array: f64 of shape []: the program's.
    """

    def __init__(self, slot: Slot, optimizer: torch.optim.Optimizer) -> None:
        self.array = np.zeros((), np.float64)
        self._slot = slot
        self._optimizer = optimizer
        self.pull()

    @property
    def is_new(self) -> bool:
        """Whether the optimizer has not all of them yet."""
        return any(self._slot.key not in held_by(self._optimizer, owner) for owner in self._slot.owners)

    def pull(self) -> None:
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
        value = self._slot.number(self.array[()])
        for owner in self._slot.owners:
            held = self._optimizer.param_groups[owner] if isinstance(owner, int) else self._optimizer.state[owner]
            held[self._slot.key] = value

    adopt = push

    def tensors(self) -> list[torch.Tensor]:
        return []


def _item(value: Any) -> float:
    return value.item() if isinstance(value, torch.Tensor) else float(value)


def _apart(tensors: Sequence[tuple[torch.Tensor, TensorType]], written: frozenset[str]) -> list[bool]:
    """Whether each tensor shares no memory with another one or within itself; CaptureError if a step writes it then."""
    alone = [not _overlaps_itself(tensor) for tensor, _ in tensors]
    for (_, kind), single in zip(tensors, alone, strict=True):
        if not single and kind.name in written:
            raise CaptureError(f"state {kind.name} has elements that share memory, expected a tensor of its own")
    spans = sorted((*_span(tensor), i) for i, (tensor, _) in enumerate(tensors) if tensor.numel())
    for (_, end, i), (start, _, j) in itertools.pairwise(spans):
        if start < end:
            alone[i] = alone[j] = False
            names = tensors[i][1].name, tensors[j][1].name
            if written.intersection(names):
                raise CaptureError(
                    f"state {names[0]} and state {names[1]} share memory, expected tensors of their own; "
                    "one Parameter that has both names is tied"
                )
    return alone


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses from the first to behind the last element."""
    begin = tensor.data_ptr()
    last = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return begin, begin + (last + 1) * tensor.element_size()


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    return any(extent > 1 and stride == 0 for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
