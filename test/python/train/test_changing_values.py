# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Python numbers that change between steps become inputs of one program. The program has the bits of programs in which
each value of the number is a constant."""

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import repro_mlir
import torch
from repro_mlir import Trainer
from torch import nn

pytest.importorskip("torch_mlir")

F = nn.functional
X = torch.randn(6, 4, 5, generator=torch.Generator().manual_seed(1))
Y = X[..., :3].argmax(-1)
FLOATS = (0.1, 0.25, -0.0, 0.7, 1e-40, 0.3)
WEIGHT = 0.0
Loss = Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]


class Model(nn.Module):
    def __init__(self, function: Loss) -> None:
        super().__init__()
        self.layer = repro_mlir.initialize(nn.Linear(5, 3), 1)
        self.function = function
        self.number: Any = 0.0

    def forward(self, x: torch.Tensor, y: torch.Tensor, *others: Any) -> torch.Tensor:
        return self.function(self, x, y, *others)


def every(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Returns a loss that uses the Python number `model.number` as an operand of many different operations."""
    number, output = model.number, model.layer(x)
    output = (output * number + number / (output.exp() + 1)).clamp(max=4 - number)
    output = torch.where(x[:, :3] > number, output, number).masked_fill(x[:, :3] > 1, number)
    output = torch.add(output, x[:, :3], alpha=number) + torch.full((3,), number) + torch.tensor(number)
    output[:, 0] = number
    half = (output.bfloat16() * number).float()
    return F.cross_entropy(output + half, y) * (1 - number) / max(number, 0.2) + abs(number)


def branch(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model.layer(x), y) * (model.number if model.number < 0.5 else 2)


def count(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model.layer(x), y) * min(1, model.number / 100)


def power(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy((model.layer(x) ** 2 + 1) ** model.number, y)


def rows(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model.layer(x)[: model.number], y[: model.number])


def typed(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model.layer(x), y) * (model.number if type(model.number) is float else 100)


def array(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model.layer(x), y) * torch.from_numpy(np.array([model.number, 2.0]))[0]


def kept(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    model.last = model.number
    return F.cross_entropy(model.layer(x), y) * model.number


def _trainer(function: Loss) -> Trainer:
    model = Model(function)
    return Trainer(model, None, torch.optim.SGD(model.parameters(), 0.1), target="reference")


@pytest.mark.parametrize(
    ("function", "numbers", "programs", "warns"),
    [
        (every, FLOATS, 4, False),
        (branch, (0.1, 0.2, 0.3, 0.7, 0.8, 0.4), 4, False),
        (count, (1, 20, 99, 100, 150, 30), 4, False),
        (kept, FLOATS, 3, False),
        (power, (1.0, 2.0, 0.5, 3.0, 1.5, 2.0), 5, True),
        (rows, (1, 2, 3, 4, 2, 1), 4, True),
    ],
)
@pytest.mark.diagonal(function=[branch, rows])
def test_has_the_bits_of_a_program_for_each_value(
    function: Loss, numbers: tuple[Any, ...], programs: int, warns: bool
) -> None:
    trainer = _trainer(function)
    model = trainer._model
    found = set()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for x, y, number in zip(X, Y, numbers, strict=True):
            other = _trainer(function)
            other._model.load_state_dict(model.state_dict())
            model.number = other._model.number = number
            assert trainer.step(x, y) == other.step(x, y)
            assert model.layer.weight.equal(other._model.layer.weight)
            assert type(model.number) is type(number)
            found.add(trainer.program.data)
    assert len(found) == programs
    assert [str(each.message).startswith("model.number has changed again") for each in caught] == [True] * warns
    assert type(getattr(model, "last", 0.0)) is float


def boxed(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model.layer(x), y) * model.number["factor"]


@pytest.mark.parametrize(
    ("function", "make"), [(typed, float), (array, float), (boxed, lambda number: {"factor": number})]
)
def test_a_number_whose_value_is_needed_is_of_the_program(function: Loss, make: Callable[[float], Any]) -> None:
    trainer = _trainer(function)
    model = trainer._model
    with pytest.warns(RuntimeWarning, match=r"model.number has changed again"):
        for x, y, number in zip(X, Y, FLOATS[:3], strict=False):
            model.number = make(number)
            wanted = function(model, x, y).item()
            assert trainer.step(x, y) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("microbatches", [None, 2])
def test_eager_work_between_steps_needs_no_program(microbatches: int | None, recwarn: pytest.WarningsRecorder) -> None:
    model, other = nn.Linear(5, 3), nn.Linear(5, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    trainer = Trainer(model, F.cross_entropy, optimizer, target="reference", microbatches=microbatches)
    for step in range(3):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) if step == 2 else nullcontext():
            F.cross_entropy(other(X[step]) + model(X[step]), Y[step]).backward()
            optimizer.zero_grad()
            trainer.step(X[step], Y[step])
    assert len(trainer._forms) == 1
    assert not [each for each in recwarn if "changed again" in str(each.message)]


def test_globals_variables_and_batches_have_such_numbers() -> None:
    global WEIGHT
    number = 0.0

    def function(model: nn.Module, x: torch.Tensor, y: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
        return F.cross_entropy(model.layer(x), y) * given["share"] + WEIGHT * number + given["count"] / 7

    model = Model(function)
    trainer = Trainer(model, function_of_output, torch.optim.SGD(model.parameters(), 0.0), target="reference")
    for step in range(6):
        WEIGHT = 0.3 * step
        given = {"share": 0.5 + step / 10, "count": step, "file": f"{step}.png"}
        wanted = function_of_output(model(X[step], Y[step], given), None).item()
        assert trainer.step(X[step], Y[step], given, None) == pytest.approx(wanted, rel=1e-5)
        if step == 3:
            known = trainer.program.data
    assert trainer.program.data == known
    assert type(WEIGHT) is float


def function_of_output(output: torch.Tensor, target: None) -> torch.Tensor:
    return output + WEIGHT


def test_a_string_that_is_used_is_of_the_program() -> None:
    def function(model: nn.Module, x: torch.Tensor, y: torch.Tensor, name: str) -> torch.Tensor:
        return F.cross_entropy(model.layer(x), y) * (2 if name.endswith("3") else 1)

    model = Model(function)
    trainer = Trainer(model, None, torch.optim.SGD(model.parameters(), 0.0), target="reference")
    with pytest.warns(RuntimeWarning, match=r"batch\[2\] has changed again"):
        for step in range(5):
            wanted = model(X[step], Y[step], f"part {step}").item()
            assert trainer.step(X[step], Y[step], f"part {step}") == pytest.approx(wanted, rel=1e-5)


def test_an_evaluation_takes_other_numbers() -> None:
    def function(model: nn.Module, x: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
        return F.cross_entropy(model.layer(x), y) * scale

    model = Model(function)
    trainer = Trainer(model, None, torch.optim.SGD(model.parameters(), 0.0), target="reference")
    for scale in (1.0, 2.0, 3.0):
        assert trainer.evaluate(X[0], Y[0], scale) == pytest.approx(model(X[0], Y[0], scale).item(), rel=1e-5)
