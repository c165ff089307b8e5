# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Hyper-parameters that the user changes between steps: some are inputs of the program, others need a new program."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from graph_running import compare_training, initial_state
from repro_mlir.frontends.torch import CaptureError, TorchBindings, capture_inference, capture_training
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.program.imported import ImportedProgram
from torch import nn
from torch.optim.lr_scheduler import CyclicLR, OneCycleLR

Optimizer = torch.optim.Optimizer
BATCH = torch.ones(4, 6), torch.zeros(4, 3)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(5)


def capture(make: Callable[[Any], Optimizer], **options: Any) -> tuple[ImportedProgram[TorchBindings], Optimizer]:
    model = nn.Linear(6, 3)
    optimizer = make(model.parameters())
    return capture_training(model, F.mse_loss, optimizer, BATCH, CaptureOptions(**options)), optimizer


def names_of(captured: ImportedProgram[TorchBindings]) -> list[str]:
    return [spec.name for spec in captured.inputs[: captured.num_hyper_parameters]]


# --- Against eager PyTorch ---


def _one_cycle(optimizer: Optimizer) -> OneCycleLR:
    return OneCycleLR(optimizer, max_lr=0.05, total_steps=8)


def _cyclic(optimizer: Optimizer) -> CyclicLR:
    return CyclicLR(optimizer, 0.01, 0.1, step_size_up=3, base_momentum=0.6, max_momentum=0.95)


# The program runs without a trainer, so PyTorch warns that the scheduler steps before the optimizer.
@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize(
    ("make", "schedule"),
    [
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), _one_cycle),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.2), _cyclic),
        (lambda p: torch.optim.AdamW(p, lr=0.1), _one_cycle),
        (lambda p: torch.optim.Adam(p, lr=0.1), _one_cycle),
        (lambda p: torch.optim.RMSprop(p, lr=0.1, momentum=0.9), _cyclic),
    ],
    ids=["sgd", "sgd_dampening", "adamw", "adam", "rmsprop"],
)
def test_schedulers_that_cycle_momentum(make, schedule) -> None:
    schedulers: dict[int, Any] = {}

    def before_step(optimizer: Optimizer, number: int) -> None:
        if number == 0:
            schedulers[id(optimizer)] = schedule(optimizer)
        else:
            schedulers[id(optimizer)].step()

    batches = [(torch.randn(4, 6), torch.randn(4, 3)) for _ in range(7)]
    compare_training(nn.Linear(6, 3), F.mse_loss, make, batches, tolerance=1e-4, before_step=before_step)


CHANGES = {
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.1), {"weight_decay": [0.1, 0.3, 0.02]}),
    "dampening": (
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.2),
        {"dampening": [0.2, 0.5, 0.1], "momentum": [0.9, 0.8, 0.95]},
    ),
    "nesterov": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True), {"momentum": [0.9, 0.5, 0.7]}),
    "adamw": (lambda p: torch.optim.AdamW(p, lr=0.1), {"weight_decay": [0.01, 0.5, 0.1], "eps": [1e-8, 0.1, 1e-3]}),
    "adam": (
        lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.1, amsgrad=True),
        {"weight_decay": [0.1, 0.5, 0.2], "betas": [(0.9, 0.999), (0.7, 0.99), (0.0, 0.9)]},
    ),
    "rmsprop": (
        lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True),
        {"alpha": [0.99, 0.9, 0.8], "eps": [1e-8, 0.1, 1e-3]},
    ),
    "lr_tensor": (
        lambda p: torch.optim.SGD(p, lr=torch.tensor(0.1), momentum=0.9),
        {"lr": [torch.tensor(0.1), torch.tensor(0.2), torch.tensor([0.05])], "momentum": [0.9, 0.8, 0.7]},
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_numbers_changed_between_steps(name: str) -> None:
    make, values = CHANGES[name]

    def before_step(optimizer: Optimizer, number: int) -> None:
        optimizer.param_groups[0].update({key: found[number] for key, found in values.items()})

    batches = [(torch.randn(4, 6), torch.randn(4, 3)) for _ in range(3)]
    compare_training(nn.Linear(6, 3), F.mse_loss, make, batches, tolerance=1e-4, before_step=before_step)


# --- Inputs ---


def test_derived_numbers_are_rounded_once() -> None:
    captured, _ = capture(lambda p: torch.optim.Adam(p, lr=0.1))
    assert names_of(captured) == ["lr", "beta1", "one_minus_beta1", "beta2", "one_minus_beta2", "eps"]
    wanted = [0.1, 0.9, 1 - 0.9, 0.999, 1 - 0.999, 1e-8]
    assert torch.equal(torch.stack(captured.bindings.hyper_parameters()), torch.tensor(wanted, dtype=torch.float32))
    assert torch.tensor(1 - 0.999, dtype=torch.float32) != 1 - torch.tensor(0.999, dtype=torch.float32)


def test_only_effective_hyper_parameters_are_inputs() -> None:
    for make, names in (
        (lambda p: torch.optim.SGD(p, lr=0.1, dampening=0.5), ["lr"]),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.5), ["lr", "momentum"]),
        (lambda p: torch.optim.RMSprop(p, lr=0.1), ["lr", "alpha", "one_minus_alpha", "eps"]),
    ):
        captured, _ = capture(make, clip_norm=2.0)
        assert names_of(captured) == [*names, "clip_norm"]


def test_hyper_parameters_of_f64_parameters_are_f64() -> None:
    model = nn.Linear(6, 3).double()
    captured = capture_training(
        model, F.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1), [x.double() for x in BATCH]
    )
    assert captured.bindings.hyper_parameters()[0].item() == 0.1


def test_equal_numbers_are_the_same_tensors() -> None:
    captured, optimizer = capture(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.5))
    first = captured.bindings.hyper_parameters()
    assert all(a is b for a, b in zip(first, captured.bindings.hyper_parameters(), strict=True))
    optimizer.param_groups[0]["momentum"] = 0.25
    assert [value.item() for value in captured.bindings.hyper_parameters()] == [first[0].item(), 0.25]
    assert first[1].item() == 0.5


def test_clip_norm_is_an_input() -> None:
    captured, _ = capture(lambda p: torch.optim.SGD(p, lr=0.1), clip_norm=2.0)
    assert captured.inputs[1].name == "clip_norm" and captured.bindings.hyper_parameters()[1].item() == 2.0
    with pytest.raises(CaptureError, match="expected a number above 0 as clip_norm, got 0"):
        capture(lambda p: torch.optim.SGD(p, lr=0.1), clip_norm=0)


def test_no_number() -> None:
    captured, optimizer = capture(lambda p: torch.optim.SGD(p, lr=0.1))
    for value in ("fast", None, torch.ones(2), 10**400):
        optimizer.param_groups[0]["lr"] = value
        with pytest.raises(CaptureError, match=r"^optimizer parameter group 0: "):
            captured.bindings.hyper_parameters()


# --- Structure ---


def _add_group(optimizer: Optimizer) -> None:
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})


STRUCTURES: dict[str, tuple[Callable[[Any], Optimizer], Any]] = {
    "momentum_to_zero": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), {"momentum": 0}),
    "momentum_from_zero": (lambda p: torch.optim.SGD(p, lr=0.1), {"momentum": 0.9}),
    "dampening": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), {"dampening": 0.1}),
    "nesterov": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), {"nesterov": True}),
    "decay_from_zero": (lambda p: torch.optim.Adam(p, lr=0.1), {"weight_decay": 0.1}),
    "decay_to_zero": (lambda p: torch.optim.AdamW(p, lr=0.1), {"weight_decay": torch.tensor(0.0)}),
    "decoupled": (lambda p: torch.optim.AdamW(p, lr=0.1), {"decoupled_weight_decay": False}),
    "amsgrad": (lambda p: torch.optim.Adam(p, lr=0.1), {"amsgrad": True}),
    "maximize": (lambda p: torch.optim.RMSprop(p, lr=0.1), {"maximize": True}),
    "centered": (lambda p: torch.optim.RMSprop(p, lr=0.1), {"centered": True}),
    "a_parameter_less": (lambda p: torch.optim.SGD(p, lr=0.1), lambda o: o.param_groups[0]["params"].pop()),
    "a_group_more": (lambda p: torch.optim.SGD(p, lr=0.1), _add_group),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_another_structure(name: str) -> None:
    make, change = STRUCTURES[name]
    captured, optimizer = capture(make)
    assert captured.bindings.optimizer_structure() == captured.bindings.structure
    assert hash(captured.bindings.optimizer_structure()) == hash(captured.bindings.structure)
    change(optimizer) if callable(change) else optimizer.param_groups[0].update(change)
    assert captured.bindings.optimizer_structure() != captured.bindings.structure
    with pytest.raises(CaptureError, match="capture the step again"):
        captured.bindings.hyper_parameters()


def test_the_same_structure() -> None:
    captured, optimizer = capture(lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.1))
    # SGD ignores dampening and nesterov if momentum is 0, so changing them needs no new program.
    optimizer.param_groups[0].update(dampening=0.1, nesterov=True)
    optimizer.load_state_dict(optimizer.state_dict())
    assert captured.bindings.optimizer_structure() == captured.bindings.structure
    captured.bindings.hyper_parameters()


def test_an_option_that_no_program_supports() -> None:
    captured, optimizer = capture(lambda p: torch.optim.SGD(p, lr=0.1))
    optimizer.param_groups[0]["differentiable"] = True
    with pytest.raises(CaptureError, match="group 0: differentiable=True is not supported"):
        captured.bindings.optimizer_structure()


def test_inference_has_no_structure() -> None:
    captured = capture_inference(nn.Linear(6, 3), BATCH[0])
    assert captured.bindings.structure is None and captured.bindings.optimizer_structure() is None
    assert captured.bindings.hyper_parameters() == []


# --- Captured again ---


def _captured_again(make: Callable[[Any], Optimizer], change: Callable[[Optimizer], None]) -> Iterator[torch.Tensor]:
    """Trains 3 steps, changes the optimizer and trains 3 more: first with programs, where a second one is captured
    after the change if necessary, then in eager mode. Yields the parameters after each of the two runs."""
    batches = [(torch.randn(4, 6), torch.randn(4, 3)) for _ in range(6)]
    initial = nn.Linear(6, 3).state_dict()
    for eager in (False, True):
        model = nn.Linear(6, 3)
        model.load_state_dict(initial)
        optimizer = make(model.parameters())
        captured, state = None, []
        for number, batch in enumerate(batches):
            if number == 3:
                change(optimizer)
            if eager:
                optimizer.zero_grad()
                F.mse_loss(model(batch[0]), batch[1]).backward()
                optimizer.step()
                continue
            if captured is None or captured.bindings.optimizer_structure() != captured.bindings.structure:
                if captured is not None:
                    captured.bindings.write_state(state)
                captured = capture_training(model, F.mse_loss, optimizer, batch)
                state = initial_state(captured)
            bindings = captured.bindings
            results = bindings.graph(*state, *bindings.hyper_parameters(), *bindings.flatten_batch(batch))
            state = [value.clone() for value in results[: len(state)]]
        if captured is not None:
            captured.bindings.write_state(state)
        yield torch.cat([value.detach().reshape(-1) for value in model.parameters()])


AGAIN: dict[str, tuple[Callable[[Any], Optimizer], dict[str, Any]]] = {
    name: STRUCTURES[name]
    for name in ("momentum_from_zero", "momentum_to_zero", "dampening", "nesterov", "decay_from_zero", "decay_to_zero")
} | {
    "dampened_momentum_from_zero": (
        lambda p: torch.optim.SGD(p, lr=0.1),
        {"momentum": 0.9, "dampening": 0.5},
    ),
    "dampening_to_zero": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5), {"dampening": 0}),
    "maximize": STRUCTURES["maximize"],
}


@pytest.mark.parametrize("name", AGAIN)
def test_captured_again_the_state_goes_on(name: str) -> None:
    make, change = AGAIN[name]
    got, want = _captured_again(make, lambda optimizer: optimizer.param_groups[0].update(change))
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
