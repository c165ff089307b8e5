# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests `compile` for the target "ptx-emulator"."""

import numpy as np
import pytest
import repro_mlir
from repro_mlir.base.errors import StepFailed
from repro_mlir.compilation import gpu as device_code
from support import handmade
from support.target_checks import check_target


@pytest.mark.parametrize("target", ["ptx-emulator", *(f"ptx-emulator:{name}" for name in device_code.architectures())])
def test_it_gives_the_bits_of_the_cpu(target: str) -> None:
    check_target(target)


def test_a_state_stays_in_the_emulator() -> None:
    program = handmade.program()
    state = program.initial_state()
    first = {name: value.copy() for name, value in state.items()}
    kept = repro_mlir.compile(program, "ptx-emulator:sm_75").keep(state)
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
