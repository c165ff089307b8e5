# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs partitioned programs on ranks that are threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from loopback import make_loopback, run_ranks
from repro_mlir.base.numerics.digest import blake3_of
from repro_mlir.distributed import Ranks
from repro_mlir.execute.executable import compile
from repro_mlir.execute.partitioned import PartitionedExecutable
from repro_mlir.program import Program

Between = Callable[[int, dict[str, np.ndarray], list[np.ndarray]], None]
"""Called with the rank, the state and the inputs before the step; may change the state and the inputs."""


def hash_of(program: Program, state: Mapping[str, Any], outputs: Mapping[str, Any]) -> str:
    """Returns a hash of the raw bytes of the new state and the outputs of a step, so that NaNs with different bits
    differ."""
    pairs = [(kind, state) for kind in program.state] + [(kind, outputs) for kind in program.outputs]
    return blake3_of(*(np.asarray(values[kind.name]).tobytes() for kind, values in pairs)).hex()


def alone(program: Program, state: Mapping[str, np.ndarray], inputs: Sequence[np.ndarray], target: str = "cpu") -> str:
    """Runs one step of the program in one process and returns the hash (`hash_of`) of its results."""
    executable = compile(program, target, 1)
    return hash_of(program, *executable({name: value.copy() for name, value in state.items()}, *inputs))


def run(
    program: Program,
    size: int,
    state: Mapping[str, np.ndarray],
    inputs: Sequence[np.ndarray],
    cut: Mapping[str, int] | None = None,
    least: int = 1,
    targets: Sequence[str] = ("cpu",),
    between: Between = lambda *_: None,
) -> tuple[list[Any], list[PartitionedExecutable], list[int]]:
    """Runs one step on `size` ranks. Returns three lists with an entry for each rank: the hash (`hash_of`) of its
    results or its exception, its executable, and the number of bytes that it sent."""
    transports = make_loopback(size)
    executables = [
        PartitionedExecutable(program, targets[rank % len(targets)], 1, Ranks(transport), cut, least)
        for rank, transport in enumerate(transports)
    ]
    found: list[Any] = [None] * size

    def work(rank: int) -> None:
        own, given = {name: value.copy() for name, value in state.items()}, list(inputs)
        try:
            between(rank, own, given)
            found[rank] = hash_of(program, *executables[rank](own, *given))
        except Exception as error:
            found[rank] = error
            transports[rank].leave()

    run_ranks(size, work)
    return found, executables, [transport.sent for transport in transports]
