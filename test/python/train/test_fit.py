# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""`Trainer.fit`: callbacks after each step, and the progress bar."""

import io
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
import torch
from repro_mlir import ReceiptOptions, ReproError, Trainer
from repro_mlir.base import progress

pytest.importorskip("torch_mlir")

BATCHES = [(torch.full((2, 3), float(i)), torch.tensor([0, 1])) for i in range(8)]


def _sgd(parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def _make(
    receipt: str | Path | ReceiptOptions | None = None,
    optimizer_of: Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer] = _sgd,
) -> Trainer:
    model = repro_mlir.initialize(torch.nn.Linear(3, 2), 1)
    optimizer = optimizer_of(model.parameters())
    return Trainer(model, torch.nn.functional.cross_entropy, optimizer, target="reference", receipt=receipt)


def test_each_is_called_after_each_step() -> None:
    trainer = _make()
    seen: list[tuple[str, int, float]] = []
    callbacks = [
        lambda given, loss: seen.append(("first", given.steps, loss)),
        lambda given, loss: seen.append(("second", given.steps, loss)),
    ]
    losses = trainer.fit(BATCHES, 3, callbacks=callbacks)
    assert seen == [(name, step, losses[step - 1]) for step in (1, 2, 3) for name in ("first", "second")]


def test_a_true_result_ends_it_after_all_were_called() -> None:
    trainer = _make()
    seen: list[int] = []
    callbacks = [lambda given, loss: given.steps == 3, lambda given, loss: seen.append(given.steps)]
    assert len(trainer.fit(BATCHES, 8, callbacks=iter(callbacks))) == 3
    assert (trainer.steps, trainer.cursor, seen) == (3, 3, [1, 2, 3])
    assert len(trainer.fit(BATCHES, 2)) == 2


def test_evaluation_and_checkpoints_in_a_callback(tmp_path: Path) -> None:
    plain, trainer = _make(), _make()
    best: list[float] = []

    def keep_best(given: Trainer, loss: float) -> None:
        held = given.evaluate(*BATCHES[0])
        if not best or held < best[-1]:
            best.append(held)
            given.save_checkpoint(tmp_path / "best.safetensors")

    assert trainer.fit(BATCHES, 5, callbacks=[keep_best]) == plain.fit(BATCHES, 5)
    assert trainer.state_hash() == plain.state_hash()
    trainer.load_checkpoint(tmp_path / "best.safetensors")
    assert trainer.evaluate(*BATCHES[0]) == best[-1]


def _check_resumed(resumed: Trainer, whole: Trainer, folder: Path) -> None:
    """Checks that a run resumed with the receipt `run` ends like an uninterrupted run with the receipt `whole`."""
    for trainer in (resumed, whole):
        with trainer:
            trainer.fit(BATCHES, 5)
    assert resumed.state_hash() == whole.state_hash()
    assert (folder / "run" / "steps.jsonl").read_bytes() == (folder / "whole" / "steps.jsonl").read_bytes()
    assert repro_mlir.verify(folder / "run", target="reference").steps == 5


class Stopped(Exception):
    """Raised to stop a run."""


def test_an_exception_leaves_all_of_the_step(tmp_path: Path) -> None:
    def stop(given: Trainer, loss: float) -> None:
        if given.steps == 3:
            raise Stopped

    trainer, whole = _make(ReceiptOptions(tmp_path / "run", checkpoint_every=2)), _make(tmp_path / "whole")
    with pytest.raises(Stopped), trainer:
        trainer.fit(BATCHES, 5, callbacks=[stop])
    assert (trainer.steps, trainer.cursor) == (3, 3)
    _check_resumed(_make(ReceiptOptions(tmp_path / "run", checkpoint_every=2, resume=True)), whole, tmp_path)


@pytest.mark.parametrize(
    "steps, reason",
    [
        (-3, "expected at least 0 steps, got -3"),
        ("3", "expected a whole number of steps, got '3'"),
        (2.5, "expected a whole number of steps, got 2.5"),
    ],
)
def test_numbers_of_steps(steps: Any, reason: str, tmp_path: Path) -> None:
    with _make(tmp_path / "run") as trainer, pytest.raises(ReproError, match=reason):
        trainer.fit(BATCHES, steps)


class Signs(torch.optim.Optimizer):
    """The optimizer Lion: steps by the sign of a moving average. Its first step initializes the average with the
    gradient."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["average"] = parameter.grad.clone()
                step = state["average"] * 0.9 + parameter.grad * 0.1
                parameter.add_(step.sign(), alpha=-group["lr"])
                state["average"].mul_(0.99).add_(parameter.grad, alpha=0.01)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("optimizer_of", [Signs, torch.optim.Adagrad, torch.optim.RMSprop])
@pytest.mark.diagonal
def test_a_receipt_goes_on_with_an_optimizer_that_has_no_state_yet(
    optimizer_of: Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer], steps: int, tmp_path: Path
) -> None:
    """Resuming loads a state into an optimizer that has none yet, so the optimizer's next step must not initialize its
    state."""
    options = ReceiptOptions(tmp_path / "run", checkpoint_every=2, resume=True)
    trainer, whole = _make(options, optimizer_of), _make(tmp_path / "whole", optimizer_of)
    with pytest.raises(Stopped), trainer:
        for batch in BATCHES[:steps]:
            trainer.step(*batch)
        raise Stopped
    _check_resumed(_make(options, optimizer_of), whole, tmp_path)


def test_a_receipt_that_a_callback_ends_early(tmp_path: Path) -> None:
    with _make(tmp_path / "run") as trainer:
        trainer.fit(BATCHES, 5, callbacks=[lambda given, loss: given.steps == 2])
    assert repro_mlir.verify(tmp_path / "run", target="reference").steps == 2


# --- The progress bar ---


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that a test sets, for the progress bar."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress.time, "perf_counter", made)
    return made


def test_the_rate_is_without_captures_and_compilations(clock: Clock) -> None:
    stream = Terminal()
    with progress.Progress(4, "training", stream) as bar:
        for step in range(4):
            if step in (0, 2):
                with progress.working("capturing", stream), progress.working("importing", stream):
                    clock.now += 10.0
            clock.now += 0.5
            bar.advance(f"loss {step:.4f}")
    lines = stream.getvalue().split("\r\x1b[K")[-1].splitlines()
    assert lines == [f"training [{'#' * 24}] 4/4  2.0/s  loss 3.0000", "capturing and compiling: 20.0 s"]


def test_no_line_where_nothing_was_captured(clock: Clock) -> None:
    stream = Terminal()
    with progress.working("capturing", stream):
        clock.now += 10.0
    with progress.Progress(1, "training", stream) as bar:
        clock.now += 1.0
        bar.advance()
    assert stream.getvalue().endswith("1/1  1.0/s\n")


def test_fit_shows_loss_and_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    ticks = itertools.count()
    monkeypatch.setattr(progress.time, "perf_counter", lambda: float(next(ticks)))
    monkeypatch.setattr("sys.stderr", stream)
    losses = _make().fit(BATCHES, 3)
    last, work = stream.getvalue().split("\r\x1b[K")[-1].splitlines()
    assert last.startswith("training [") and " 3/3 " in last and last.endswith(f"loss {losses[-1]:.4f}")
    assert work.startswith("capturing and compiling: ")
