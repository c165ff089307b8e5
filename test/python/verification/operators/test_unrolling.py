# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A microbatched step, unrolled into one program, returns the bits of the step (B1) to (B3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.base.limits import VARIABLE
from repro_mlir.execute.microbatches import compile_step
from repro_mlir.program.microbatches import MicrobatchProgram
from repro_mlir.verification.operators import OperatorGraph, Tracer, unrolling
from support.microbatch_steps import program_of, values_of


def results_of(program: MicrobatchProgram, given: Sequence[np.ndarray], target: str) -> list[np.ndarray]:
    state = program.initial_state()
    _, outputs = compile_step(program, target, 1)(state, *given)
    return [*state.values(), *outputs.values()]


@pytest.mark.parametrize(
    "count, accumulate, dtype",
    [(1, 1, torch.float32), (5, 1, torch.bfloat16), (6, 2, torch.bfloat16), (12, 3, torch.float32)],
)
@pytest.mark.exhaustive("dtype1")
def test_it_gives_the_bits_of_the_step(count: int, accumulate: int, dtype: torch.dtype) -> None:
    program = program_of(count, accumulate, dtype)
    given = values_of(program)
    want = results_of(program, given, "cpu")
    graph = OperatorGraph(program)
    arrays = [*program.initial, *given]
    for target in ("reference", "cpu:x86-64-v2"):
        for kind, array, due in zip(
            (*program.state, *program.outputs), Tracer(graph, target).results(arrays), want, strict=True
        ):
            assert array.tobytes() == np.asarray(due).tobytes(), (target, kind)


def test_phases_are_all_operators_in_order() -> None:
    graph = OperatorGraph(program_of(6, 2, torch.float32))
    assert [i for indices, _ in graph.phases for i in indices] == [each.index for each in graph.operators]
    expected = ["microbatch 0", "microbatch 1", "a sum of microbatches", "microbatch 2", "microbatch 3"]
    expected += ["a sum of microbatches"] * 2 + ["microbatch 4", "microbatch 5"] + ["a sum of microbatches"] * 2
    assert [what for _, what in graph.phases] == ["the cut of the batch", *expected, "the end of the step"]
    assert not any(each.location.startswith("-") for each in graph.operators)
    assert {each.module for each in graph.operators} == {what for _, what in graph.phases}


def test_integers_that_differ_fail() -> None:
    """(B3) The step fails because an integer result, a count of positive elements, differs between microbatches."""
    program = program_of(2, 1, torch.float32, counts=True)
    given = values_of(program)
    arrays = [*program.initial, *given]
    with pytest.raises(StepFailed, match=r"\(B3\) integers"):
        results_of(program, given, "cpu")
    with pytest.raises(StepFailed, match=r"\(B3\) integers"):
        Tracer(OperatorGraph(program)).results(arrays)


def test_too_many_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(6, 2, torch.float32)
    monkeypatch.setenv(VARIABLE, f"text_bytes={6 * len(program.part.data)}")
    with pytest.raises(ReproError, match="to look at operators one by one"):
        OperatorGraph(program)
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(unrolling, "MOST_OPERATORS", 1000)
    with pytest.raises(ReproError, match="to look at operators one by one"):
        OperatorGraph(program)


def test_a_stranger_s_step_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(2, 1, torch.float32)
    kept: dict[str, Any] = {
        name: dataclasses.replace(getattr(program, name), untrusted=True) for name in ("part", "finish")
    }
    assert OperatorGraph(dataclasses.replace(program, **kept)).program.untrusted
    assert not OperatorGraph(program).program.untrusted
