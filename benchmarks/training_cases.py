# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Benchmarks of complete training steps as users run them: from a batch to the loss as a Python number."""

import repro_mlir
import torch
from case import OURS, Case, Contestants, Setting
from repro_mlir.precision import Recipe
from training_models import STEPS, Step, eager


def make_trainer(
    step: Step, setting: Setting, precision: Recipe | None = None
) -> tuple[repro_mlir.Trainer, tuple[torch.Tensor, ...]]:
    """Returns a trainer of ours for a new model of this step, and a batch."""
    model, optimizer, batch = step.make()
    trainer = repro_mlir.Trainer(
        model,
        None,
        optimizer,
        target=setting.target,
        threads=setting.threads,
        attention_block=step.attention_block,
        precision=precision,
    )
    return trainer, batch


def _build(step: Step, setting: Setting) -> Contestants:
    trainer, batch = make_trainer(step, setting)
    loss = trainer.step(*batch)
    theirs = eager(*step.make())
    expected = theirs()
    if abs(loss - expected) > 1e-3 * abs(expected):
        raise ValueError(f"the first loss differs from PyTorch: expected {expected:.6g}, got {loss:.6g}")
    other_model, other_optimizer, batch = step.make()
    return {
        OURS: lambda: trainer.step(*batch),
        "torch": theirs,
        "torch.compile": eager(torch.compile(other_model), other_optimizer, batch),
    }


def cases() -> list[Case]:
    """Returns one benchmark per model."""
    return [
        Case(
            f"step {step.name}",
            f"step {step.name}",
            step.shape,
            lambda setting, step=step: _build(step, setting),
            flops=step.flops,
        )
        for step in STEPS.values()
    ]
