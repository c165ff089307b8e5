# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Assigning to a public attribute either raises an error or takes effect.

The lists in this file must be complete: a new class or a new assignable attribute fails this test until it is listed.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repro_mlir
from repro_mlir import ReproError
from repro_mlir.base.constant_attributes import ConstantAttributes
from repro_mlir.program_training import ProgramTrainer, mean_squared_error, sgd, training_step

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

PACKAGES = (
    "",
    ".program_training",
    ".precision",
    ".gradient_compression",
    ".distributed",
    ".roofline",
    ".roofline.transformer",
    ".program",
    ".runner",
    ".frontends.jax",
)

ASSIGNABLE = {"ProgramTrainer": {"hyper_parameters", "state"}}
"""Attributes that users may assign; an assignment takes effect from the next step on."""

OTHERS = {
    "Device": "of the driver: nothing that is computed depends on its attributes",
    "GradientCompression": "without attributes",
    "Kernels": "of a prediction",
    "PerSize": "without public attributes",
}
"""Classes that are neither frozen nor `ConstantAttributes`, each with the reason why that is harmless."""


def public_classes() -> set[type]:
    found = set()
    for package in PACKAGES:
        module = importlib.import_module(f"repro_mlir{package}")
        for name in module.__all__:
            try:
                value = getattr(module, name)
            except ImportError:
                continue
            if inspect.isclass(value):
                found.add(value)
    return found | {type(repro_mlir.backend()), *ConstantAttributes.__subclasses__()}


def is_frozen(cls: Any) -> bool:
    is_value = dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen
    return is_value or issubclass(cls, (enum.Enum, tuple, BaseException)) or getattr(cls, "_is_protocol", False)


def test_every_public_class_is_listed() -> None:
    open_classes = {
        cls.__name__ for cls in public_classes() if not is_frozen(cls) and not issubclass(cls, ConstantAttributes)
    }
    assert open_classes == OTHERS.keys()


def test_properties_with_setters_are_listed() -> None:
    for cls in public_classes():
        properties = inspect.getmembers(cls, lambda value: isinstance(value, property))
        settable = {name for name, value in properties if value.fset is not None}
        assert settable == ASSIGNABLE.get(cls.__name__, set()), cls


def refused(instance: Any) -> set[str]:
    """Checks that the public attributes outside of ASSIGNABLE can be neither deleted nor assigned. Returns their
    names."""
    found = set()
    for name in {*dir(instance), *inspect.signature(type(instance)).parameters}:
        if name.startswith("_"):
            continue
        if name in ASSIGNABLE.get(type(instance).__name__, ()):
            continue
        with pytest.raises(AttributeError, match=f"{type(instance).__name__}.{name} cannot be deleted"):
            delattr(instance, name)
        with pytest.raises(AttributeError, match=f"{type(instance).__name__}.{name} cannot be assigned: "):
            setattr(instance, name, None)
        found.add(name)
    return found


X, Y = torch.arange(12.0).reshape(4, 3) / 8, torch.arange(4) % 2


def program() -> repro_mlir.Program:
    forward = repro_mlir.capture(torch.nn.Linear(3, 2), torch.zeros(4, 3))
    return training_step(forward, mean_squared_error(), sgd(), train=["weight", "bias"])


def test_assignments_are_refused(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = tmp_path / "run.receipt"
    loss_fn = torch.nn.functional.cross_entropy
    with repro_mlir.Trainer(model, loss_fn, optimizer, target="reference", receipt=path) as trainer:
        trainer.step(X, Y)
        # Options of the constructor, such as clip_norm, cannot be assigned either, because a new value would have no
        # effect.
        assert {"steps", "state", "program", "target", "clip_norm", "step"} <= refused(trainer)
        with pytest.raises(ValueError, match="read-only"):
            trainer.state["weight"][...] = 0
        trainer.state.clear()
        trainer.step(X, Y)
    assert repro_mlir.verify(path, target="reference").changes == 0
    assert {"header", "path", "seal", "log"} <= refused(repro_mlir.Receipt(path))
    assert {"program", "target", "threads"} <= refused(repro_mlir.compile(program(), "reference"))
    backend = repro_mlir.backend()
    assert {"programs", "seed"} <= refused(backend)
    backend.programs.append(None)
    assert backend.programs == []


class Own(repro_mlir.Trainer):
    """A user's subclass of Trainer, which may assign attributes of its own."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.history: list[float] = []


def test_a_subclass_has_attributes_of_its_own() -> None:
    model = torch.nn.Linear(3, 2)
    trainer = Own(model, torch.nn.functional.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1))
    trainer.history = [1.0]
    del trainer.history


def test_a_state_that_is_assigned_is_recorded(tmp_path: Path) -> None:
    path, step = tmp_path / "run.receipt", program()
    x, y = X.numpy(), np.ones((4, 2), np.float32)
    receipt = repro_mlir.ReceiptOptions(path)
    given = dict.fromkeys((kind.name for kind in step.inputs[: step.num_hyper_parameters]), 0.5)
    with ProgramTrainer(step, given, target="reference", receipt=receipt) as trainer:
        assert {"program", "steps", "target"} <= refused(trainer)
        with pytest.raises(AttributeError, match=r"program cannot be assigned: expected go_on_with\(program\)"):
            trainer.program = step
        trainer.step(x, y)
        # New arrays with equal values are used by the next step, but are not recorded as a change.
        trainer.state = {name: value.copy() for name, value in trainer.state.items()}
        trainer.step(x, y)
        trainer.state = {name: np.array(value * 2) for name, value in reversed(trainer.state.items())}
        trainer.step(x, y)
        trainer.state = trainer.state
        trainer.hyper_parameters = {name: 0.25 for name in given}
        trainer.step(x, y)
        trainer.state = {}
        with pytest.raises(ReproError, match=r"expected the tensor .* in the state, got none"):
            trainer.step(x, y)
        trainer.state = step.initial_state()
    found = repro_mlir.verify(path, target="cpu")
    assert (found.steps, found.changes) == (4, 2)
