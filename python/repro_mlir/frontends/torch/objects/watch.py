# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Detects, before each step, changes of the values on which a captured program depends, except the state.

`Watch.unchanged` compares identities and flags of the user's objects, which takes microseconds. If any differs,
`form_of` returns the present form of the objects. Equal forms have the same program.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter, is_
from typing import Any

import torch

from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.hashable_values import Same, hashable
from repro_mlir.frontends.torch.base.hooks import MODULE_HOOKS, computes_attributes
from repro_mlir.frontends.torch.base.source_lines import named_modules
from repro_mlir.frontends.torch.base.torch_internals import GLOBAL_HOOKS, GLOBAL_STEP_HOOKS
from repro_mlir.frontends.torch.objects.changing_values import ChangingValues, Mark
from repro_mlir.frontends.torch.objects.device_tensors import as_they_are
from repro_mlir.frontends.torch.objects.flat_batch import FlatBatch
from repro_mlir.frontends.torch.objects.read_values import (
    PLUMBING,
    Looked,
    Recording,
    TensorContents,
    contents,
    find_reads,
)
from repro_mlir.frontends.torch.objects.subject import Subject
from repro_mlir.frontends.torch.trace.tracing import TRACE_LOCK

Form = tuple[tuple[str, Hashable], ...]

_END = object()
_address = torch.Tensor.data_ptr
_contiguous = torch.Tensor.is_contiguous
_shape = attrgetter("shape")
_flags = attrgetter("requires_grad")
_gradient_hooks = attrgetter("_backward_hooks")
_accumulation_hooks = attrgetter("_post_accumulate_grad_hooks")


def check_environment() -> None:
    """Raises CaptureError for settings of this thread that a compiled step would not follow."""
    if torch.is_autocast_enabled("cpu"):
        raise CaptureError("the step runs within torch.autocast: pass autocast= to Trainer instead")
    if torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled():
        raise CaptureError(
            "torch.autograd.detect_anomaly is active, which reads the values of each gradient: leave it out; "
            "nonfinite_loss='stop' of Trainer ends a run at the first loss that is not finite"
        )
    if _TINY * _HALF == 0.0:
        raise CaptureError("torch.set_flush_denormal(True) is set: a compiled step keeps subnormals; set it to False")


# Variables instead of literals, so that Python multiplies them at run time.
_TINY, _HALF = 2.0**-1022, 0.5


class Watch:
    """A snapshot of the user's objects."""

    def __init__(
        self,
        subject: Subject,
        held: Sequence[torch.Tensor],
        constants: TensorContents,
        changing: ChangingValues | None = None,
        recording: Recording | None = None,
    ) -> None:
        """Takes the snapshot.

        Args:
          subject: the objects that were captured.
          held: the tensors whose memory contains the state.
          constants: tensors that are constants of the program.
          changing: values that may differ at later steps.
          recording: the code that ran in the trace.
        """
        with TRACE_LOCK:
            self._take(subject, held, constants, changing, recording)

    def _take(
        self,
        subject: Subject,
        held: Sequence[torch.Tensor],
        constants: TensorContents,
        changing: ChangingValues | None,
        recording: Recording | None,
    ) -> None:
        model = subject.model
        reads = find_reads(model, subject.functions, subject.optimizer, recording)
        self._parameters = list(model.parameters())
        self._held = [*held]
        self._constants = constants
        self._read = TensorContents(tensor for tensor in reads.tensors.values() if tensor not in constants)
        beside = () if subject.average is None else subject.average.modules()
        self._views = [*_views([*model.modules(), *beside, *reads.modules.values()], self._parameters)]
        if subject.optimizer is not None:
            self._views += _optimizer_views(subject.optimizer)
        if subject.scaler is not None:
            self._views.append(vars(subject.scaler).values())
        self._views += [*reads.views(), (_END,)]
        self._objects = tuple(chain.from_iterable(self._views))
        self._open = self._positions(changing) if changing else []
        self._tensors = self._look()

    def _positions(self, changing: ChangingValues) -> list[int]:
        """Returns the positions of the changing values among the watched objects."""
        with changing.marked() as marks:
            return [
                i for i, each in enumerate(chain.from_iterable(self._views)) if type(each) is Mark and each in marks
            ]

    def _look(self) -> tuple[Any, ...]:
        held, parameters = self._held, self._parameters
        return (
            [*map(_address, held)],
            [*map(_contiguous, held)],
            [*map(_shape, held)],
            [*map(_flags, parameters)],
            torch.get_default_dtype(),
        )

    @property
    def moved(self) -> bool:
        """Whether the memory of the state has moved."""
        with as_they_are():
            return [*map(_address, self._held)] != self._tensors[0]

    def unchanged(self) -> bool:
        """Whether everything on which the program depends is the same as at the snapshot."""
        with TRACE_LOCK, as_they_are():
            # An added or removed object shifts all later objects, including `_END`.
            found: Iterable[object] = chain.from_iterable(self._views)
            if self._open:
                found = [*found]
                for i in self._open:
                    if i < len(found) and type(found[i]) is type(self._objects[i]):
                        found[i] = self._objects[i]
            same = all(map(is_, found, self._objects)) and self._look() == self._tensors
        return same and self._constants.unchanged() and self._read.unchanged()


def form_of(
    subject: Subject,
    structure: Hashable = None,
    batch: FlatBatch | None = None,
    changing: ChangingValues | None = None,
    recording: Recording | None = None,
) -> Form:
    """Returns the present form of the user's objects: everything on which a captured program depends, with names.

    Args:
      structure: the structure of the optimizer (see `TorchBindings.optimizer_structure`).
      changing: values that are not part of the form.
      recording: the code that ran in the trace of a program. None: the form contains everything that is found from the
        user's objects.
    Raises:
      CaptureError: the recorded trace read an object whose changes cannot be detected.
    """
    with TRACE_LOCK:
        if changing:
            with changing.marked():
                form = form_of(subject, structure, batch, recording=recording)
            return tuple((name, _CHANGES if changing.is_of_batch(name) else value) for name, value in form)
        parts: list[tuple[str, Hashable]] = [("torch.get_default_dtype()", torch.get_default_dtype())]
        model = subject.model
        parts.extend((name, Same(function)) for name, function in subject.functions.items())
        reads = find_reads(model, subject.functions, subject.optimizer, recording)
        if recording is not None:
            reads.refuse_unknown(recording)
        own = {"model": model} if subject.average is None else {"model": model, "average": subject.average}
        inner = chain.from_iterable(named_modules(name, module) for name, module in own.items())
        for name, module in (*inner, *reads.modules.items()):
            parts.append((name, (Same(module), Same(type(module)))))
            parts.extend(_module_parts(name, module))
        parts.extend((name, hashable(value)) for name, value in reads.parts())
        parts.extend((name, contents(value)) for name, value in reads.tensors.items())
        parts.append(("optimizer.param_groups", structure))
        parts.extend(subject.choices)
        parts.append(("the structure or shape of the batch", None if batch is None else batch.kind))
        if batch is not None:
            parts.extend((name, hashable(value)) for name, value in batch.constants)
        return tuple(parts)


def has_hidden_code(subject: Subject, recording: Recording) -> bool:
    """Whether code of the user's files ran in a trace that is not found from the user's objects, such as the function
    of a custom operator. `form_of` without the recording does not contain what such code reads."""
    with TRACE_LOCK:
        followed = find_reads(subject.model, subject.functions, subject.optimizer).followed
    return any(code not in followed for code in recording.codes_of_user())


_CHANGES = "any number or string"


def changed_values(one: Form, other: Form) -> list[str]:
    """Returns the names of the Python values in which two forms differ; an empty list if anything else differs too."""
    before, after = dict(one), dict(other)
    if before.keys() != after.keys():
        return []
    names = [name for name, value in before.items() if after[name] != value]
    if not all(_is_value(before[name]) and _is_value(after[name]) for name in names):
        return []
    return sorted(names)


def _is_value(part: Hashable) -> bool:
    return isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], type)


def difference(one: Form, other: Form) -> str:
    """Returns the name of the first entry in which two forms differ."""
    values, others = dict(one), dict(other)
    for name, value in values.items():
        if name in others and others[name] != value:
            return name
    names = [*(values.keys() ^ others.keys())]
    return min(names) if names else "a tensor that is a constant of the program"


def _module_parts(name: str, module: torch.nn.Module) -> Iterator[tuple[str, Hashable]]:
    for key, value in module.__dict__.items():
        if key not in PLUMBING and not (isinstance(value, torch.Tensor) and computes_attributes(module)):
            yield f"{name}.{key}", hashable(value)
    for kind, called in MODULE_HOOKS.items():
        yield f"a {called} of {name}", tuple(map(Same, getattr(module, kind).values()))
    for key, parameter in module._parameters.items():
        if parameter is not None:
            hooks = tuple(map(Same, (parameter._backward_hooks or {}).values()))
            yield f"{name}.{key}", (Same(parameter), parameter.shape, parameter.dtype, hooks)
            yield f"{name}.{key}.requires_grad", parameter.requires_grad
    for key, buffer in module._buffers.items():
        if buffer is not None:
            yield f"{name}.{key}", (buffer.shape, buffer.dtype)


def _views(modules: Sequence[torch.nn.Module], parameters: Sequence[torch.nn.Parameter]) -> Iterator[Iterable[object]]:
    """Yields live views of the objects whose identity is compared: those in modules, the hooks of parameters, and
    global hooks."""
    yield Looked(type, modules)
    yield Looked(vars, modules)
    empty: list[dict[str, Any]] = []
    for module in modules:
        attributes = module.__dict__
        yield attributes.values()
        for key in ("_parameters", "_buffers", "_modules", *MODULE_HOOKS):
            if attributes[key]:
                yield attributes[key].values()
            else:
                empty.append(attributes[key])
        for key, value in attributes.items():
            if key not in PLUMBING and isinstance(value, list | dict):
                yield value.values() if isinstance(value, dict) else value
    for parameter in parameters:
        for hooks in (parameter._backward_hooks, parameter._post_accumulate_grad_hooks):
            if hooks is not None:
                yield hooks.values()
    yield Looked(len, empty)
    yield Looked(_gradient_hooks, parameters)
    yield Looked(_accumulation_hooks, parameters)
    yield from (hooks.values() for hooks in GLOBAL_HOOKS)


def _optimizer_views(optimizer: torch.optim.Optimizer) -> Iterator[Iterable[object]]:
    """Yields live views of the objects whose identity is compared: those in an optimizer, and global step hooks."""
    yield optimizer._optimizer_step_pre_hooks.values()
    yield optimizer._optimizer_step_post_hooks.values()
    yield from (hooks.values() for hooks in GLOBAL_STEP_HOOKS)
    yield Looked(vars, [optimizer])
    yield vars(optimizer).values()
    yield optimizer.param_groups
    for group in optimizer.param_groups:
        yield group["params"]
    yield optimizer.state.values()
    for state in optimizer.state.values():
        values = state.values()
        # A number is a new object after each step, so the identity of numbers is not compared.
        yield Looked(_but_numbers, values) if any(type(value) in (int, float) for value in values) else values


def _but_numbers(value: object) -> object:
    kind = type(value)
    return kind if kind in (int, float) else value
