# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""One wrong bit in one operator of one step: the dispute names the operator and who was wrong."""

from __future__ import annotations

import dataclasses
import math

import catalogue
import numpy as np
import pytest
import random_programs
from dispute_runs import STEPS, dispute, faulty, graph, honest, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from repro_mlir.dispute import RecordedRun, Verdict
from repro_mlir.errors import StepFailed
from repro_mlir.operators import OperatorGraph
from repro_mlir.program import Program, read_signature

COMPUTING = [operator.index for operator in graph().operators if operator.outputs]


def named(verdict: Verdict, step: int, index: int, wrong: str) -> None:
    """The verdict is the right one, and was reached within the bounds of docs/dispute.md."""
    assert (verdict.outcome, verdict.wrong, verdict.step) == ("operator", (wrong,), step), verdict
    assert verdict.operator is not None and verdict.operator.index == index, verdict
    assert verdict.values[wrong].count == 1
    for name, traffic in verdict.traffic.items():
        operators = len(graph().operators)
        inputs = len(verdict.operator.inputs) if name == "A" else 0
        most = 2 + math.ceil(math.log2(STEPS)) + 2 + 1 + math.ceil(math.log2(operators)) + 1 + 1 + inputs + 1
        assert traffic.questions <= most


@pytest.mark.parametrize("index", COMPUTING, ids=lambda i: f"{i}-{graph().operators[i].name}")
def test_each_operator(index: int) -> None:
    generator = np.random.default_rng(index)
    for cheat_first in (False, True):
        step = int(generator.integers(1, STEPS + 1))
        cheat = some_fault(step, index, generator)
        if cheat is None:
            assert graph().operators[index].name == "arith.cmpi", "a fault that always fails"
            return
        pair = (cheat, honest()) if cheat_first else (honest(), cheat)
        verdict = dispute(*pair)
        if cheat.links[step] == honest().links[step]:
            # What this bit decides makes no difference to any result, such as the low bits of an index modulo.
            assert verdict.outcome == "agreement" or verdict.step != step
            assert ("B" if cheat_first else "A") not in verdict.wrong
            continue
        named(verdict, step, index, "A" if cheat_first else "B")


def some_fault(step: int, index: int, generator: np.random.Generator) -> RecordedRun | None:
    """A fault that lets the run go on; None where each tried one makes a step fail (E1)."""
    for bit in (*generator.integers(0, 4096, 3), 0, 1):
        try:
            return faulty(graph(), honest().inputs, step, index, int(bit))
        except StepFailed:
            continue
    return None


def test_two_cheats() -> None:
    """Of two wrong runs that differ in one place, the earlier fault is found; in the same place both are."""
    first, second = (faulty(graph(), honest().inputs, 20, COMPUTING[15], bit) for bit in (1, 2))
    verdict = dispute(first, second)
    assert verdict.wrong == ("A", "B") and set(verdict.values) == {"A", "B"} and verdict.step == 20
    later = faulty(graph(), honest().inputs, 50, COMPUTING[15], 1)
    assert dispute(first, later).wrong == ("A",)
    same = faulty(graph(), honest().inputs, 20, COMPUTING[15], 1)
    assert dispute(first, same).outcome == "agreement"


def test_agreement() -> None:
    verdict = dispute(honest(), honest())
    assert (verdict.outcome, verdict.wrong, verdict.step) == ("agreement", (), None)
    assert all(traffic.questions <= 2 for traffic in verdict.traffic.values())


def test_a_shorter_run() -> None:
    short = run(graph(), honest().inputs[:40])
    verdict = dispute(honest(), short)
    assert (verdict.outcome, verdict.wrong) == ("length", ()) and "first 40 steps agree" in str(verdict.subject)
    named(dispute(faulty(graph(), honest().inputs, 33, COMPUTING[-1], 5), short), 33, COMPUTING[-1], "A")
    nothing = run(graph(), [])
    assert dispute(nothing, honest()).outcome == "length"


def test_a_program_without_operators() -> None:
    """A state that stays as it is: a commitment that says otherwise is found without operators."""
    text = (
        "func.func @main(%w: tensor<2xf32>, %x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) "
        "attributes {repro.num_state = 1 : i64} {\n  return %w, %x : tensor<2xf32>, tensor<2xf32>\n}\n"
    )
    program = dataclasses.replace(read_signature(text), initial=(np.ones(2, np.float32),))
    bare = OperatorGraph(program)
    given = [[np.full(2, step, np.float32)] for step in range(4)]
    wrong = RecordedRun(program, given, lambda step, arrays: [arrays[0] + np.float32(step == 3), arrays[1]], graph=bare)
    verdict = dispute(run(bare, given), wrong)
    assert (verdict.outcome, verdict.wrong, verdict.step) == ("commitment", ("B",), 3)


def random_run(case: catalogue.Case) -> tuple[OperatorGraph, RecordedRun]:
    """A few steps of a random program of the differential tests."""
    program = read_signature(case.program)
    count = len(program.state)
    program = Program(program.text, program.state, program.inputs, program.outputs, 0, case.inputs[:count])
    graph = OperatorGraph(program)
    return graph, run(graph, [case.inputs[count:]] * 5)


@given(random_programs.programs(), st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs(case: catalogue.Case, data: st.DataObject) -> None:
    graph, right = random_run(case)
    computing = [o for o in graph.operators if o.outputs and all(math.prod(v.kind.shape) for v in o.outputs)]
    if not computing:
        assert dispute(right, run(graph, right.inputs)).outcome == "agreement"
        return
    operator = data.draw(st.sampled_from(computing))
    step = data.draw(st.integers(1, right.steps))
    wrong = faulty(graph, right.inputs, step, operator.index, data.draw(st.integers(0, 2**12)))
    verdict = dispute(right, wrong)
    assert "A" not in verdict.wrong
    if right.links[step] != wrong.links[step]:
        assert verdict.wrong == ("B",) and verdict.step == step and verdict.operator == operator, verdict
