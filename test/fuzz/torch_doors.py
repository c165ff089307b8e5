# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs several PyTorch functions as one program through each entry point ("door") of the package; all targets must
return equal bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import repro_mlir
import torch
from repro_mlir.execute.executable import compile as compile_program
from repro_mlir.frontends.torch.compile_backend.graph_calls import Calls
from repro_mlir.frontends.torch.compile_backend.graphs import CapturedGraph
from repro_mlir.program import Program as CanonicalProgram
from repro_mlir.program import program_of
from repro_mlir.program.imported import ImportedProgram
from repro_mlir.torch_compile import Backend
from torch_programs import Program, functions

RATE = 0.5
"""The learning rate of the gradient-descent step."""

Function = Callable[..., tuple[torch.Tensor, ...]]


class Mismatch(AssertionError):
    """Raised if two targets return different bits."""


@dataclass(frozen=True)
class Case:
    """A program and whether its gradients are computed.

    Attributes:
      differentiated: whether to compute gradients; there are none unless an input and a result are floats.
    """

    program: Program
    differentiated: bool

    def tensors(self) -> list[torch.Tensor]:
        """Returns the input tensors."""
        found = [each.tensor() for each in self.program.inputs]
        return [t.requires_grad_() if self.differentiated and t.is_floating_point() else t for t in found]


@dataclass(frozen=True)
class Results:
    """The results of a program, and for each input its gradient, or None if it has none."""

    values: list[torch.Tensor]
    gradients: list[torch.Tensor | None]


def weights(value: torch.Tensor) -> torch.Tensor:
    """Returns nonzero factors for the elements of a result. The loss is the sum of all elements times their factors."""
    count = torch.arange(value.numel(), dtype=torch.float64)
    return ((count * 7 % 11 - 4.5) / 4).reshape(value.shape).to(value.dtype)


def gradients(values: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    """Returns the gradient of each input, or None for an input that requires no gradient or does not affect a
    result."""
    ends = [value for value in values if value.requires_grad]
    leaves = [value for value in inputs if value.requires_grad]
    if not ends or not leaves:
        return [None] * len(inputs)
    found = iter(torch.autograd.grad(ends, leaves, [weights(value) for value in ends], allow_unused=True))
    return [next(found) if value.requires_grad else None for value in inputs]


def eager(function: Function, inputs: Sequence[torch.Tensor]) -> Results:
    """Returns the results and gradients of eager PyTorch."""
    values = function(*inputs)
    return Results([value.detach() for value in values], gradients(values, inputs))


def _cut(found: Sequence[Any], counts: Iterable[int]) -> list[list[Any]]:
    parts, begin = [], 0
    for count in counts:
        parts.append(list(found[begin : begin + count]))
        begin += count
    return parts


class _All(torch.nn.Module):
    """A module that calls the functions of several programs. With `trained`, float inputs become parameters."""

    def __init__(self, cases: Sequence[Case], trained: bool) -> None:
        super().__init__()
        self.functions = functions([case.program for case in cases])
        self.counts = [len(case.program.inputs) for case in cases]
        self.trained: list[bool] = []
        for i, value in enumerate(value for case in cases for value in case.tensors()):
            self.trained.append(trained and value.requires_grad)
            if self.trained[-1]:
                self.register_parameter(f"x{i}", torch.nn.Parameter(value.detach()))

    def forward(self, _: torch.Tensor, *given: torch.Tensor) -> list[torch.Tensor]:
        rest = iter(given)
        inputs = [getattr(self, f"x{i}") if trained else next(rest) for i, trained in enumerate(self.trained)]
        return [
            value
            for function, part in zip(self.functions, _cut(inputs, self.counts), strict=True)
            for value in function(*part)
        ]


def _loss(values: list[torch.Tensor], factors: Sequence[torch.Tensor]) -> torch.Tensor:
    products = zip(values, factors, strict=True)
    return sum(
        ((value * factor).sum().to(torch.float32) for value, factor in products if value.requires_grad),
        start=torch.zeros(()),
    )


# --- Entry points ---


def by_compile(cases: Sequence[Case], targets: Sequence[str]) -> list[Results]:
    """Runs the cases through `repro_mlir.capture` and `repro_mlir.compile`; all gradients are None."""
    inputs = (torch.zeros(()), *(value.detach() for case in cases for value in case.tensors()))
    program = repro_mlir.capture(_All(cases, False), inputs)
    _, found = _on_every_target(program, {}, inputs, targets)
    values = _cut(list(found.values()), [len(case.program.results) for case in cases])
    return [Results(part, [None] * len(case.program.inputs)) for case, part in zip(cases, values, strict=True)]


def by_torch_compile(cases: Sequence[Case], targets: Sequence[str]) -> list[Results]:
    """Runs the cases through `torch.compile` with our backend, with the gradients of all inputs."""
    torch._dynamo.reset()
    compiled = torch.compile(_All(cases, False), backend=_EveryTarget(targets), fullgraph=True)
    inputs = [case.tensors() for case in cases]
    values = compiled(torch.zeros(()), *(value for part in inputs for value in part))
    slopes = gradients(values, [value for part in inputs for value in part])
    counts = [len(case.program.inputs) for case in cases]
    parts = zip(
        _cut([value.detach() for value in values], [len(case.program.results) for case in cases]),
        _cut(slopes, counts),
        strict=True,
    )
    return [Results(mine, own) for mine, own in parts]


def by_trainer(cases: Sequence[Case], targets: Sequence[str]) -> list[Results]:
    """Runs the cases as a step of `Trainer`. Returns results and gradients; checks the loss and the updated
    parameters."""
    model = _All(cases, True)
    if not any(model.trained):
        return by_compile(cases, targets)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    options: dict[str, Any] = {"target": targets[0], "threads": 1, "nonfinite_loss": "ignore"}
    trainer = repro_mlir.Trainer(model, _loss, optimizer, **options, returns=("outputs", "gradients"))
    flat = [value.detach() for case in cases for value in case.tensors()]
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    rest = [value for value, trained in zip(flat, model.trained, strict=True) if not trained]
    values = model(torch.zeros(()), *rest)
    factors = [weights(value.detach()) for value in values]
    batch = (torch.zeros(()), *rest, factors)
    program = trainer.prepare(*batch)
    assert isinstance(program, CanonicalProgram)
    _on_every_target(program, program.initial_state(), _inputs(program, trainer.read_inputs(*batch)), targets)
    step = trainer.step(*batch, returns=("outputs", "gradients"))
    trainer.sync()
    assert step.gradients is not None
    slopes: list[torch.Tensor | None] = []
    for i, trained in enumerate(model.trained):
        slope = step.gradients.get(f"x{i}")
        slopes.append(slope if trained else None)
        if trained:
            old, new = before[f"x{i}"], model.get_parameter(f"x{i}").detach()
            want = old if slope is None else old - RATE * slope
            torch.testing.assert_close(new, want, equal_nan=True, msg=lambda text: f"update: {text}")
    # The loss of the step and `exact` are f32 sums of the same numbers in different orders.
    known = zip(step.outputs, factors, values, strict=True)
    pairs = [(found, factor) for found, factor, value in known if value.requires_grad]
    most = sum(float((value * factor).double().abs().sum()) for value, factor in pairs)
    exact = _loss([value.requires_grad_() for value, _ in pairs], [factor for _, factor in pairs]).item()
    if most < 1e30 and not abs(step.loss - exact) <= 2e-2 * most + 1e-30:
        raise AssertionError(f"loss {step.loss}, from the outputs {exact}")
    counts = [len(case.program.results) for case in cases]
    parts = zip(_cut(step.outputs, counts), _cut(slopes, model.counts), strict=True)
    return [Results(mine, own) for mine, own in parts]


DOORS: dict[str, Callable[[Sequence[Case], Sequence[str]], list[Results]]] = {
    "Trainer": by_trainer,
    "compile": by_compile,
    "torch.compile": by_torch_compile,
}


# --- Bits ---


def _inputs(program: CanonicalProgram, given: Sequence[np.ndarray]) -> list[Any]:
    return [np.array(value) for value, _ in zip(given, program.inputs, strict=True)]


def _on_every_target(
    program: CanonicalProgram, state: dict[str, Any], inputs: Sequence[Any], targets: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Runs one step on each target and checks that all return the same bits. Returns the new state and the outputs of
    the first target."""
    first: tuple[dict[str, Any], dict[str, Any]] | None = None
    for target in targets:
        own = {name: np.array(value) for name, value in state.items()}
        found = compile_program(program, target, 1)(own, *inputs)
        if first is None:
            first = found
            continue
        for mine, other in zip(first, found, strict=True):
            for name in mine:
                _compare(mine[name], other[name], f"{name} on {targets[0]} and {target}")
    assert first is not None
    return first


def _bytes(value: Any) -> bytes:
    if isinstance(value, torch.Tensor):
        value = value.detach().contiguous()
        # NumPy has no bfloat16.
        value = (value.view(torch.int16) if value.dtype == torch.bfloat16 else value).numpy()
    return np.asarray(value).tobytes()


def _compare(one: Any, other: Any, what: str) -> None:
    if _bytes(one) != _bytes(other):
        raise Mismatch(f"{what} differ: {one} and {other}"[:1000])


class _EveryTarget(Backend):
    """A backend that runs each graph on every target and returns the results of the first one."""

    def __init__(self, targets: Sequence[str]) -> None:
        super().__init__(target=targets[0], threads=1, seed=0)
        self._targets = targets

    def _prepare(
        self, imported: ImportedProgram[CapturedGraph]
    ) -> Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]:
        program = program_of(imported)
        parts = program.state, program.inputs, program.outputs, imported.bindings
        calls = [Calls(compile_program(program, target, 1), *parts) for target in self._targets]

        def run(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
            others = [[value.clone() for value in tensors] for _ in calls[1:]]
            first = calls[0](tensors)
            for call, own, target in zip(calls[1:], others, self._targets[1:], strict=True):
                found = call(own)
                for i, (one, other) in enumerate(zip([*first, *tensors], [*found, *own], strict=True)):
                    _compare(one, other, f"tensor {i} on {self._targets[0]} and {target}")
            return first

        return run
