# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests `compile` for the target "cuda", on a simulated CUDA driver."""

import numpy as np
import pytest
import repro_mlir
from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.bundle.stub_driver import LIBRARY
from repro_mlir.runner.driver import LIBRARY_VARIABLE
from support import handmade
from support.target_checks import check_target


@pytest.mark.parametrize("target", ["cuda", "cuda:sm_75", "cuda:sm_90"])
def test_a_gpu_gives_the_bits_of_the_cpu(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    monkeypatch.setenv(LIBRARY_VARIABLE, str(LIBRARY))
    check_target(target)


def test_targets_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIBRARY_VARIABLE, str(LIBRARY))
    program = handmade.program()
    with pytest.raises(ReproError, match=r"has code for sm_100, which this GPU \(sm_90\) cannot run"):
        repro_mlir.compile(program, "cuda:sm_100")
    with pytest.raises(ReproError, match="unknown target 'cuda:sm_75,sm_90': did you mean cuda:sm_"):
        repro_mlir.compile(program, "cuda:sm_75,sm_90")
    with pytest.raises(ReproError, match=r"unknown target 'cuda:sm_76': did you mean cuda:sm_"):
        repro_mlir.compile(program, "cuda:sm_76")
    monkeypatch.setenv(LIBRARY_VARIABLE, "libnothing.so")
    with pytest.raises(ReproError, match="expected the CUDA driver libnothing"):
        repro_mlir.compile(program, "cuda")


def test_a_state_stays_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIBRARY_VARIABLE, str(LIBRARY))
    program = handmade.program()
    state = program.initial_state()
    first = {name: value.copy() for name, value in state.items()}
    kept = repro_mlir.compile(program, "cuda").keep(state)
    assert not kept.ahead
    other = program.initial_state()
    executable = repro_mlir.compile(program)
    for inputs in handmade.steps(2):
        outputs = kept.step(*inputs)
        assert outputs["loss"] == executable(other, *inputs)[1]["loss"]
    assert all(np.array_equal(first[name], state[name]) for name in state)
    with pytest.raises(StepFailed):
        kept.step(*handmade.steps(1)[0][:2], 3)
    kept.fetch()
    assert all(other[name].tobytes() == state[name].tobytes() for name in state)
