# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs ranks as threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import repro_mlir
import torch
from loopback import make_loopback, run_ranks
from repro_mlir.base.numerics.hashing import state_hash
from repro_mlir.distributed import Ranks
from repro_mlir.execute.microbatches import KeptMicrobatches, MicrobatchExecutable
from repro_mlir.program.microbatches import MicrobatchProgram


@dataclass(frozen=True)
class Run:
    """A training step with its inputs: first the hyper-parameters, then the tensors of a whole batch."""

    program: MicrobatchProgram
    inputs: list[np.ndarray]


def captured(model: Any, loss_fn: Any, optimizer: Any, batch: Sequence[torch.Tensor], **options: Any) -> Run:
    """Captures the training step of a new trainer and returns it with the inputs for `batch`."""
    trainer = repro_mlir.Trainer(model, loss_fn, optimizer, **options)
    program = trainer.prepare(*batch)
    assert isinstance(program, MicrobatchProgram) and trainer._step is not None
    numbers = trainer._step.captured.hyper_parameters()
    return Run(program, [value.numpy() for value in (*numbers, *batch)])


Between = Callable[[int, int, dict[str, np.ndarray], list[np.ndarray]], None]
"""Receives rank, step, state and inputs before each step, and may change the state and the inputs."""


def run(
    given: Run,
    size: int,
    shares: Any = None,
    targets: Sequence[str] = ("cpu",),
    steps: int = 2,
    between: Between = lambda *_: None,
    ended: Callable[[KeptMicrobatches], object] = lambda _: None,
    check_share: float = 0.0,
    begun: Callable[[KeptMicrobatches], object] = lambda _: None,
    shard_optimizer: bool = False,
) -> tuple[list[Any], list[int]]:
    """Runs steps on `size` ranks, each in a thread named after its rank. Returns two lists with an entry for each rank:
    its final state hash or its exception, and the number of bytes that it sent. Each rank calls `begun` before its
    first step and `ended` after its last one, with its `KeptMicrobatches`."""
    transports = make_loopback(size)
    executables = [
        MicrobatchExecutable(
            given.program, targets[rank % len(targets)], 1, Ranks(transport, shares, check_share, shard_optimizer)
        )
        for rank, transport in enumerate(transports)
    ]
    found: list[Any] = [None] * size

    def work(rank: int) -> None:
        try:
            state = given.program.initial_state()
            kept = executables[rank].keep(state)
            begun(kept)
            for step in range(steps):
                inputs = list(given.inputs)
                between(rank, step, state, inputs)
                kept.step(*inputs)
            kept.fetch()
            found[rank] = hash_of(given, state)
            ended(kept)
        except Exception as error:
            found[rank] = error
            transports[rank].leave()

    run_ranks(size, work)
    return found, [transport.sent for transport in transports]


def alone(given: Run, target: str = "cpu", steps: int = 2) -> str:
    """Returns the final state hash of a run in one process without ranks."""
    state = given.program.initial_state()
    kept: KeptMicrobatches = MicrobatchExecutable(given.program, target, 1).keep(state)
    for _ in range(steps):
        kept.step(*given.inputs)
    kept.fetch()
    return hash_of(given, state)


def hash_of(given: Run, state: dict[str, np.ndarray]) -> str:
    """Returns the state hash (H3) of a state."""
    return state_hash([(state[kind.name], kind.element) for kind in given.program.state])
