# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The target "ptx-emulator" of `compile`."""

import handmade
import numpy as np
import pytest
import repro_mlir
from repro_mlir.errors import StepFailed
from repro_mlir.runtime import device_code


@pytest.mark.parametrize("target", ["ptx-emulator", *(f"ptx-emulator:{name}" for name in device_code.architectures())])
def test_it_gives_the_bits_of_the_cpu(target: str) -> None:
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


def test_a_state_stays_in_the_emulator() -> None:
    program = handmade.program()
    state = program.initial_state()
    first = {name: value.copy() for name, value in state.items()}
    kept = repro_mlir.compile(program, "ptx-emulator:sm_75").keep(state)
    assert kept is not None
    other = program.initial_state()
    executable = repro_mlir.compile(program)
    for inputs in handmade.steps(2):
        assert kept.step(*inputs)["loss"] == executable(other, *inputs)[1]["loss"]
    assert all(np.array_equal(first[name], state[name]) for name in state)
    with pytest.raises(StepFailed):
        kept.step(*handmade.steps(1)[0][:2], 3)
    kept.fetch()
    assert all(other[name].tobytes() == state[name].tobytes() for name in state)


def test_every_target_has_a_name() -> None:
    assert {"cpu", "cuda", "ptx-emulator", "ptx-emulator:sm_120", "cuda:sm_75", "reference"} <= {*repro_mlir.targets()}
