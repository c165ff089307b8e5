# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests Trainer: errors for users' mistakes, and schedulers."""

import copy
import inspect
import pickle
import re
from collections.abc import Callable

import pytest
import repro_mlir

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")


def linear_trainer(target: str = "cpu", lr: float = 0.1) -> repro_mlir.Trainer:
    model = repro_mlir.initialize(torch.nn.Linear(3, 2), 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    return repro_mlir.Trainer(model, torch.nn.functional.cross_entropy, optimizer, target=target, threads=1)


BATCH = (torch.ones(4, 3), torch.tensor([0, 1, 0, 1]))


def test_before_the_first_step() -> None:
    trainer = linear_trainer()
    for use in (trainer.state_hash, trainer.sync, lambda: trainer.program, lambda: trainer.state):
        with pytest.raises(repro_mlir.ReproError, match="call step, fit or prepare first"):
            use()


@pytest.mark.parametrize(
    "use", [copy.copy, copy.deepcopy, pickle.dumps, lambda trainer: torch.save(trainer, "/dev/null")]
)
def test_a_trainer_is_not_copied(use: Callable[[object], object]) -> None:
    trainer = linear_trainer("reference")
    for _ in range(2):
        with pytest.raises(
            repro_mlir.ReproError, match=r"save its state_dict\(\) or call save_checkpoint\(\), and load that"
        ):
            use(trainer)
        trainer.step(*BATCH)
    # Does what the error message suggests: loads the state into a new trainer.
    other = linear_trainer("reference")
    other.load_state_dict(copy.deepcopy(trainer.state_dict()))
    other.step(*BATCH)
    trainer.step(*BATCH)
    assert other.state_hash() == trainer.state_hash()


class Scaled(torch.nn.Linear):
    def forward(self, x, factor):
        return super().forward(torch.full_like(x, factor))


def test_constants_of_a_batch() -> None:
    model = Scaled(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_fn = torch.nn.functional.cross_entropy
    trainer = repro_mlir.Trainer(model, loss_fn, optimizer, target="reference")
    for factor in (1, 2, True, 1.0):
        wanted = loss_fn(model(BATCH[0], factor), BATCH[1]).item()
        assert trainer.step(BATCH[0], factor, BATCH[1]) == pytest.approx(wanted, rel=1e-5)


def test_a_batch_with_the_negative_bit() -> None:
    losses = []
    for inputs in (-BATCH[0], torch.complex(BATCH[0], BATCH[0]).conj().imag):
        trainer = linear_trainer()
        trainer.step(*BATCH)
        losses.append(trainer.step(inputs, BATCH[1]))
    assert inputs.is_neg() and losses[0] == losses[1]


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_E1_class_out_of_range_leaves_the_state(target: str) -> None:
    trainer = linear_trainer(target)
    trainer.step(*BATCH)
    before = trainer.state_hash()
    with pytest.raises(repro_mlir.base.errors.StepFailed):
        trainer.step(BATCH[0], torch.tensor([0, 1, 7, 1]))
    assert trainer.state_hash() == before
    trainer.step(*BATCH)
    assert trainer.state_hash() != before


def test_learning_rate_is_read_before_each_step() -> None:
    trainer = linear_trainer(lr=0.1)
    trainer.step(*BATCH)
    before = {name: value.copy() for name, value in trainer.state.items()}
    trainer._optimizer.param_groups[0]["lr"] = 0.0
    trainer.step(*BATCH)
    assert all((trainer.state[name] == before[name]).all() for name in before)


def test_inputs_are_those_of_the_step() -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    trainer = repro_mlir.Trainer(model, torch.nn.functional.cross_entropy, optimizer, target="reference")
    executable = repro_mlir.compile(trainer.prepare(*BATCH), "reference")
    for rate in (0.5, 0.25):
        optimizer.param_groups[0]["lr"] = rate
        inputs = trainer.read_inputs(*BATCH)
        assert trainer.program.inputs[0].name == "lr" and inputs[0] == rate
        state = {name: value.copy() for name, value in trainer.state.items()}
        _, outputs = executable(state, *inputs)
        assert trainer.step(*BATCH) == outputs["loss"]
        assert all((state[name] == value).all() for name, value in trainer.state.items())
    with pytest.raises(repro_mlir.ReproError):
        trainer.read_inputs(object())


def test_unknown_target_before_anything_is_captured() -> None:
    with pytest.raises(repro_mlir.ReproError, match="unknown target 'tpu': did you mean cpu"):
        linear_trainer("tpu")


def test_model_that_cannot_be_captured() -> None:
    class Strange(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) if x.sum() > 0 else x

    model = Strange(3, 2)
    trainer = repro_mlir.Trainer(model, torch.nn.functional.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(repro_mlir.ReproError) as caught:
        trainer.step(*BATCH)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip_norm": -1.0}, "expected a number above 0 as clip_norm, got -1.0"),
        ({"clip_norm": "1"}, "expected a number above 0 as clip_norm, got '1'"),
        ({"autocast": "bf16"}, "expected torch.bfloat16 or torch.float16 as autocast, got 'bf16'"),
        ({"seed": 1.5}, "expected a whole number of 64 bits as seed, got 1.5"),
        ({"seed": 2**64}, "expected a whole number of 64 bits as seed, got 18446744073709551616"),
        ({"exact_digits": 5}, "expected 2 or 3 digits, got 5"),
        ({"exact_digits": True}, "expected 2 or 3 digits, got True"),
    ],
)
def test_options_of_another_kind(options, message: str) -> None:
    model = torch.nn.Linear(2, 1)
    batch = torch.ones(3, 2), torch.ones(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(repro_mlir.ReproError, match=re.escape(message)):
        repro_mlir.Trainer(model, torch.nn.functional.mse_loss, optimizer, **options)
    with pytest.raises(repro_mlir.ReproError, match=re.escape(message)):
        repro_mlir.capture(model, torch.nn.functional.mse_loss, optimizer, batch, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, "expected a number of threads from 1 to 1024, got 0"),
        ({"threads": True}, "expected a number of threads from 1 to 1024, got True"),
        ({"target": 3}, "expected the name of a target, got 3"),
        ({"receipt": 3}, "expected a path or ReceiptOptions as receipt, got 3"),
    ],
)
def test_options_of_a_trainer_of_another_kind(options, message: str) -> None:
    model = torch.nn.Linear(2, 1)
    with pytest.raises(repro_mlir.ReproError, match=re.escape(message)):
        repro_mlir.Trainer(model, torch.nn.functional.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1), **options)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (repro_mlir.Trainer, "Trainer.__init__"),
        (repro_mlir.capture, "capture"),
        (repro_mlir.backend, "backend"),
        (repro_mlir.diff, "diff"),
    ],
)
def test_keywords_are_those_of_the_signature(function, name: str) -> None:
    near = ": did you mean precision?" if "precision" in inspect.signature(function).parameters else ""
    message = f"{name}() got an unexpected keyword argument 'presicion'{near}"
    with pytest.raises(TypeError, match=re.escape(message)):
        function(*[None] * 3, presicion="mxfp8")
    found = inspect.signature(function).parameters
    assert found["exact_digits"].default is None and "options" not in found
    assert found["exact_digits"].kind is inspect.Parameter.KEYWORD_ONLY


def test_keywords_of_other_libraries() -> None:
    with pytest.raises(TypeError, match=r"'max_grad_norm': did you mean clip_norm\?"):
        repro_mlir.Trainer(None, None, None, max_grad_norm=1.0)  # type: ignore[call-arg, arg-type]


def test_defaults_of_the_trainer() -> None:
    parameters = inspect.signature(repro_mlir.Trainer).parameters.values()
    assert {each.name: each.default for each in parameters if each.default is not None} == {
        **dict.fromkeys(("model", "loss_fn", "optimizer"), inspect.Parameter.empty),
        **{"target": "cpu", "seed": 0, "returns": (), "nonfinite_loss": "warn", "accumulate": 1},
    }


def test_inference_takes_no_training_options() -> None:
    with pytest.raises(repro_mlir.ReproError, match="are for training steps only"):
        repro_mlir.capture(torch.nn.Linear(3, 2), torch.ones(1, 3), seed=3)
    with pytest.raises(repro_mlir.ReproError, match="got 3 arguments"):
        repro_mlir.capture(torch.nn.Linear(3, 2), None, None)


def test_inference_equals_eager() -> None:
    model = repro_mlir.initialize(torch.nn.Linear(3, 2), 1)
    program = repro_mlir.capture(model, BATCH[0])
    executable = repro_mlir.compile(program)
    _, outputs = executable(program.initial_state(), BATCH[0])
    torch.testing.assert_close(outputs["output"], model(BATCH[0]).detach())


def test_bf16_state_passes_as_torch_tensors() -> None:
    model = torch.nn.Linear(3, 2).to(torch.bfloat16)
    program = repro_mlir.capture(model, BATCH[0].bfloat16())
    state = {name: value.detach().clone() for name, value in model.named_parameters()}
    _, outputs = repro_mlir.compile(program, "reference")(state, BATCH[0].bfloat16())
    assert outputs["output"].dtype == torch.bfloat16
    torch.testing.assert_close(outputs["output"], model(BATCH[0].bfloat16()).detach(), rtol=2e-2, atol=2e-2)
