# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests that the examples agree with eager PyTorch, that the reference interpreter agrees with the CPU target, and that
the examples run with `repro train`."""

import copy
import importlib
import inspect
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import repro_mlir
from repro_mlir.cli.main import main

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")
ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = {"digits_cnn": "sklearn", "names_gpt": "names"}


@pytest.fixture(params=EXAMPLES)
def example(request, monkeypatch) -> Iterator:
    """Yields the imported module of an example."""
    pytest.importorskip(EXAMPLES[request.param])
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    yield importlib.import_module(request.param)
    sys.modules.pop(request.param, None)


def setting(example):
    """Returns the example's model, loss_fn, optimizer, batches and options of Trainer. Dropout is off, because eager
    PyTorch draws different random numbers."""
    model, loss_fn, optimizer, batches, *rest = example.training(20)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model, loss_fn, optimizer, batches, rest[0] if rest else {}


def eager_step(model, loss_fn, optimizer, options, inputs, target) -> float:
    loss = loss_fn(model(inputs), target)
    optimizer.zero_grad()
    loss.backward()
    if "clip_norm" in options:
        torch.nn.utils.clip_grad_norm_(model.parameters(), options["clip_norm"])
    optimizer.step()
    return loss.item()


@pytest.mark.exhaustive("names_gpt")
def test_first_steps_agree_with_eager(example) -> None:
    model, loss_fn, optimizer, batches, options = setting(example)
    eager = [eager_step(model, loss_fn, optimizer, options, *batch) for batch in itertools.islice(batches, 20)]
    model, loss_fn, optimizer, batches, options = setting(example)
    trainer = repro_mlir.Trainer(model, loss_fn, optimizer, **options)
    ours = trainer.fit(batches, 20)
    assert ours == pytest.approx(eager, rel=1e-4)


@pytest.mark.exhaustive("names_gpt")
def test_gradients_of_one_step_agree_with_eager(example) -> None:
    """After one step of plain SGD with a learning rate of 1, the change of a parameter is its negative gradient, so
    comparing parameters compares gradients."""
    model, loss_fn, _, batches, options = setting(example)
    batch = next(batches)
    eager, ours = copy.deepcopy(model), copy.deepcopy(model)
    eager_step(eager, loss_fn, torch.optim.SGD(eager.parameters(), lr=1.0), options, *batch)
    trainer = repro_mlir.Trainer(ours, loss_fn, torch.optim.SGD(ours.parameters(), lr=1.0), **options)
    trainer.step(*batch)
    trainer.sync()
    for (name, expected), got in zip(eager.state_dict().items(), ours.state_dict().values(), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}")


def test_parameters_of_one_step_agree_with_eager(example) -> None:
    model, loss_fn, optimizer, batches, options = setting(example)
    batch = next(batches)
    eager, ours = copy.deepcopy(model), copy.deepcopy(model)
    known = inspect.signature(type(optimizer)).parameters
    settings = {key: value for key, value in optimizer.defaults.items() if key in known}
    eager_step(eager, loss_fn, type(optimizer)(eager.parameters(), **settings), options, *batch)
    trainer = repro_mlir.Trainer(ours, loss_fn, type(optimizer)(ours.parameters(), **settings), **options)
    trainer.step(*batch)
    trainer.sync()
    gradients = {name: value.grad for name, value in eager.named_parameters(remove_duplicate=False)}
    for (name, expected), got in zip(eager.state_dict().items(), ours.state_dict().values(), strict=True):
        if name in gradients:
            # Adam divides a gradient by its magnitude, so if the gradient is only rounding error (such as for the bias
            # of attention's keys), the parameter's step is arbitrary.
            counts = gradients[name].abs() > 1e-5
            expected, got = expected[counts], got[counts]
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.exhaustive("names_gpt")
def test_reference_agrees(example) -> None:
    """Two steps have the same state hashes on the CPU target and on the reference interpreter, with dropout."""
    hashes = []
    for target in ("cpu", "reference"):
        model, loss_fn, optimizer, batches, *rest = example.training(20)
        trainer = repro_mlir.Trainer(model, loss_fn, optimizer, target=target, **(rest[0] if rest else {}))
        batches = iter(batches)
        found = []
        for _ in range(2):
            trainer.step(*next(batches))
            found.append(trainer.state_hash())
        hashes.append(found)
    assert hashes[0] == hashes[1]


@pytest.mark.exhaustive("names_gpt")
def test_sync_gives_back_a_state_that_training_continues_from(example) -> None:
    model, loss_fn, optimizer, batches, options = setting(example)
    trainer = repro_mlir.Trainer(model, loss_fn, optimizer, **options)
    batches = list(itertools.islice(batches, 4))
    for batch in batches[:2]:
        trainer.step(*batch)
    trainer.sync()
    state = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    model, loss_fn, optimizer, _, options = setting(example)
    model.load_state_dict(state[0])
    optimizer.load_state_dict(state[1])
    again = repro_mlir.Trainer(model, loss_fn, optimizer, **options)
    for batch in batches[2:]:
        assert again.step(*batch) == trainer.step(*batch)
    assert again.state_hash() == trainer.state_hash()


def test_train_command(example, capsys) -> None:
    script = str(ROOT / "examples" / f"{example.__name__}.py")
    reports = []
    for threads in ("1", "2"):
        assert main(["train", script, "--steps", "5", "--threads", threads, "--json"]) == 0
        reports.append(json.loads(capsys.readouterr().out))
    assert reports[0]["state_hash"] == reports[1]["state_hash"]
    assert reports[0]["losses"] == reports[1]["losses"] and len(reports[0]["losses"]) == 5
    assert (reports[0]["threads"], reports[1]["threads"]) == (1, 2)


def test_examples_are_not_toys(example) -> None:
    model = example.training()[0]
    assert sum(parameter.numel() for parameter in model.parameters()) >= 100_000
    if example.__name__ == "names_gpt":
        assert example.LAYERS >= 4 and example.WIDTH >= 128


def test_the_receipts_of_both_parties(monkeypatch, capsys) -> None:
    """examples/receipts.py ends with the dispute, which names the step before which one party cheated."""
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    script = importlib.import_module("receipts")
    monkeypatch.setattr(sys, "argv", ["receipts.py", "--steps", "2", "--verify-on", "cpu"])
    assert script.main() == 0
    told = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("right     on cpu: 2 of 2 steps") for line in told) == 1
    assert sum(line.startswith("WRONG     on cpu: step 2: inputs.bin") for line in told) == 1
    assert [line.split() for line in told if " wrong  " in line or " step  " in line] == [["wrong", "B"], ["step", "2"]]
    for name in ("receipts", "digits_cnn"):
        sys.modules.pop(name, None)
