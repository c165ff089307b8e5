# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs the ATen graphs of captured programs in eager mode, without the compiler; parses imported text with LLVM 22."""

import copy
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlir
import torch
from repro_mlir.base.tensors.torch_tensors import to_tensor
from repro_mlir.frontends.torch import TorchBindings, capture_training
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.program.imported import ImportedProgram

MLIR_OPT = Path(mlir.__path__[0]) / "bin" / "mlir-opt"


def parse_with_llvm(text: str, *passes: str) -> str:
    """Runs LLVM 22's mlir-opt with `passes` on `text` and returns its output. The test fails if mlir-opt fails."""
    done = subprocess.run(
        [MLIR_OPT, "--allow-unregistered-dialect", "--mlir-print-debuginfo", "--mlir-print-local-scope", *passes],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[:2000]
    return done.stdout


def initial_state(captured: ImportedProgram[TorchBindings]) -> list[torch.Tensor]:
    """Returns the initial state as tensors that share the memory of `captured.initial`."""
    return [to_tensor(value, kind) for value, kind in zip(captured.initial, captured.state, strict=True)]


class GraphTrainer:
    """Trains by running a captured program's graph. The state is a copy, separate from the user's model and optimizer
    until `sync`."""

    def __init__(self, captured: ImportedProgram[TorchBindings]) -> None:
        self.bindings = captured.bindings
        self.state = initial_state(captured)

    def step(self, batch: Any) -> list[torch.Tensor]:
        """Runs one step and returns its outputs, of which the first is the loss."""
        bindings = self.bindings
        arguments = [*self.state, *bindings.hyper_parameters(), *bindings.flatten_batch(batch)]
        results = bindings.graph(*(a.clone() for a in arguments))
        self.state = [r.clone() for r in results[: len(bindings.state)]]
        return results[len(bindings.state) :]

    def sync(self) -> None:
        """Copies the state to the user's model and optimizer."""
        self.bindings.write_state(self.state)


def eager_step(
    model: torch.nn.Module,
    loss_fn: Callable[..., torch.Tensor] | None,
    optimizer: torch.optim.Optimizer,
    batch: Any,
    clip_norm: float | None = None,
    autocast: torch.dtype | None = None,
) -> torch.Tensor:
    """Runs the training step that a PyTorch user would write; returns the loss."""
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=autocast or torch.bfloat16, enabled=autocast is not None):
        loss = loss_fn(model(*batch[:-1]), batch[-1]) if loss_fn else model(*batch)
    loss.backward()
    if clip_norm is not None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


def compare_training(
    model: torch.nn.Module,
    loss_fn: Callable[..., torch.Tensor] | None,
    make_optimizer: Callable[[Any], torch.optim.Optimizer],
    batches: Sequence[Any],
    *,
    tolerance: float = 2e-5,
    before_step: Callable[[torch.optim.Optimizer, int], None] | None = None,
    **options: Any,
) -> ImportedProgram[TorchBindings]:
    """Trains with a captured program's graph and in eager mode, and compares losses, parameters, buffers and optimizer
    state.

    Args:
      make_optimizer: creates an optimizer from the model's parameters.
      batches: one per step.
      before_step: called in both runs before each step, with the optimizer and the step number.
      options: arguments of both CaptureOptions and `eager_step`.
    """
    theirs = copy.deepcopy(model)
    optimizer, their_optimizer = make_optimizer(model.parameters()), make_optimizer(theirs.parameters())
    captured = capture_training(model, loss_fn, optimizer, batches[0], CaptureOptions(**options))
    trainer = GraphTrainer(captured)
    for number, batch in enumerate(batches):
        if before_step is not None:
            before_step(optimizer, number)
            before_step(their_optimizer, number)
        want = eager_step(theirs, loss_fn, their_optimizer, batch, **options)
        got = trainer.step(batch)[0]
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, check_dtype=True)
    trainer.sync()
    _compare_state(model.state_dict(), theirs.state_dict(), tolerance)
    _compare_state(_by_name(optimizer), _by_name(their_optimizer), tolerance)
    # The user's objects now have the state of the captured program. An eager step with them must have the loss of the
    # next eager step of the other run.
    want, got = (
        eager_step(m, loss_fn, o, batches[0], **options) for m, o in ((theirs, their_optimizer), (model, optimizer))
    )
    torch.testing.assert_close(got, want, rtol=10 * tolerance, atol=10 * tolerance)
    return captured


def _by_name(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    state = optimizer.state_dict()["state"]
    return {
        f"{index}.{key}": torch.as_tensor(value)
        for index, values in state.items()
        for key, value in values.items()
        if value is not None
    }


def _compare_state(got: dict[str, torch.Tensor], want: dict[str, torch.Tensor], tolerance: float) -> None:
    assert got.keys() == want.keys()
    for name, value in want.items():
        torch.testing.assert_close(
            got[name], value, rtol=tolerance, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )
