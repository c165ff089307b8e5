# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks that each target that runs device code must pass."""

import numpy as np
import pytest
import repro_mlir
from repro_mlir.base.errors import StepFailed

from support import handmade


def check_target(target: str) -> None:
    """Checks that steps on the target return the bits of the target `cpu`, and that a failing step leaves the state
    unchanged."""
    program = handmade.program()
    executables = [repro_mlir.compile(program, name, threads=2) for name in ("cpu", target)]
    states = [program.initial_state() for _ in executables]
    for inputs in handmade.steps(3):
        results = [executable(state, *inputs) for executable, state in zip(executables, states, strict=True)]
        assert results[0][1]["loss"].tobytes() == results[1][1]["loss"].tobytes()
        for name in states[0]:
            assert states[0][name].tobytes() == states[1][name].tobytes()
    lr, x, _ = handmade.steps(1)[0]
    before = {name: value.copy() for name, value in states[1].items()}
    with pytest.raises(StepFailed, match="index out of range"):
        executables[1](states[1], lr, x, 3)
    assert all(np.array_equal(before[name], states[1][name]) for name in before)
