# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""If one operator of one step of a run has one wrong bit, a dispute names the operator and the party."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from repro_mlir.base.errors import StepFailed
from repro_mlir.program import Program, read_signature
from repro_mlir.program.canonical import to_bytes
from repro_mlir.verification.dispute import RecordedRun, Verdict
from repro_mlir.verification.operators import OperatorGraph
from support import catalogue, random_programs
from support.dispute_runs import STEPS, bounds, chain, dispute, effective_fault, faulty, graph, honest, run

COMPUTING = [operator.index for operator in graph().operators if operator.outputs and not operator.inline]
CHECK = next(operator.index for operator in graph().operators if operator.name == "cf.assert")


def named(verdict: Verdict, runs: tuple[RecordedRun, RecordedRun], step: int, index: int, wrong: str) -> None:
    """Checks that the verdict is against `wrong`, names this step and operator, and that the dispute stayed within the
    bounds of docs/verification/disputes.md."""
    assert (verdict.outcome, verdict.wrong, verdict.step) == ("operator", (wrong,), step), verdict
    assert verdict.operator is not None and verdict.operator.index == index, verdict
    assert verdict.values[wrong].count == 1
    limits = bounds(graph(), runs, index)
    for name, traffic in verdict.traffic.items():
        assert traffic.questions <= limits[name].questions and traffic.narrowing <= limits[name].bytes


@pytest.mark.parametrize("index", COMPUTING, ids=lambda i: f"{i}-{graph().operators[i].name}")
@pytest.mark.diagonal(index=COMPUTING[::6])
def test_each_operator(index: int) -> None:
    generator = np.random.default_rng(index)
    step, wrong = int(generator.integers(1, STEPS + 1)), "AB"[COMPUTING.index(index) % 2]
    cheat = effective_fault(step, index, generator)
    if cheat is None:
        # No wrong value of this operator is possible: any would fail the step's check.
        assert graph().users[graph().operators[index].results[0]] == (CHECK,)
        return
    pair = (cheat, honest()) if wrong == "A" else (honest(), cheat)
    named(dispute(*pair), pair, step, index, wrong)


def test_a_fault_without_effect() -> None:
    """A wrong bit that changes no result of its step is not found: the runs agree."""
    remainder = next(o for o in graph().operators if o.name == "arith.remui" and o.results[0].element == "index")
    position = remainder.operands[0].producer
    assert position is not None
    cheat = faulty(graph(), honest().inputs, 20, position, 5)
    assert cheat.links == honest().links
    assert dispute(honest(), cheat).outcome == "agreement"


def test_every_operation_of_a_step_is_among_them() -> None:
    """The step in which these tests plant faults contains every operation that the compiler allows in `main`."""
    source = Path(__file__).parents[4] / "lib" / "Dialect" / "Repro" / "Identity" / "CanonicalOps.cpp"
    entries = re.findall(r"add\(Place::(?:anywhere|program),.*?\);", source.read_text(), re.DOTALL)
    allowed = {name for entry in entries for name in re.findall(r'"([a-z]+\.[a-z0-9_]+)"', entry)}
    computing = {graph().operators[index].name for index in COMPUTING}
    assert len(allowed) > 100 and allowed - computing == {"arith.constant", "cf.assert", "func.return", "tensor.empty"}


@pytest.mark.parametrize(("operators", "steps"), [(2, 1), (100, 5), (6, 130)])
@pytest.mark.diagonal
def test_bounds_of_other_sizes(operators: int, steps: int) -> None:
    right = run(chain(operators), [[]] * steps)
    for step, index in {(1, 1), (steps, operators - 1), (steps // 2 + 1, operators // 2 | 1)}:
        pair = right, faulty(chain(operators), right.inputs, step, index, 5)
        verdict = dispute(*pair)
        assert (verdict.wrong, verdict.step) == (("B",), step)
        assert verdict.operator is not None and verdict.operator.index == index
        limits = bounds(chain(operators), pair, index)
        for name, traffic in verdict.traffic.items():
            assert traffic.questions <= limits[name].questions and traffic.narrowing <= limits[name].bytes


def test_two_cheats() -> None:
    """Both runs are wrong. If their faults are at the same step, both parties lose; otherwise, only the party with the
    earlier fault loses."""
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
    cheat = faulty(graph(), honest().inputs, 33, COMPUTING[-1], 5)
    verdict = dispute(honest(), short)
    assert (verdict.outcome, verdict.wrong) == ("length", ()) and "first 40 steps agree" in str(verdict.subject)
    named(dispute(cheat, short), (cheat, short), 33, COMPUTING[-1], "A")
    nothing = run(graph(), [])
    assert dispute(nothing, honest()).outcome == "length"


def test_a_program_without_operators() -> None:
    """A program that returns its state unchanged has no operators; a commitment to another state is refuted without
    running an operator."""
    text = (
        "func.func @main(%w: tensor<2xf32>, %x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) "
        "attributes {repro.num_state = 1 : i64} {\n  return %w, %x : tensor<2xf32>, tensor<2xf32>\n}\n"
    )
    program = dataclasses.replace(read_signature(to_bytes(text)), initial=(np.ones(2, np.float32),))
    bare = OperatorGraph(program)
    given = [[np.full(2, step, np.float32)] for step in range(4)]
    wrong = RecordedRun(program, given, lambda step, arrays: [arrays[0] + np.float32(step == 3), arrays[1]], graph=bare)
    verdict = dispute(run(bare, given), wrong)
    assert (verdict.outcome, verdict.wrong, verdict.step) == ("commitment", ("B",), 3)


def random_run(case: catalogue.Case) -> tuple[OperatorGraph, RecordedRun]:
    """Returns the operator graph of a random program (as in the differential tests) and an honest run of five steps."""
    program = read_signature(to_bytes(case.program))
    count = len(program.state)
    # A case stores f16 values as bits; the program's API has float16 arrays.
    kinds = (*program.state, *program.inputs)
    arrays = tuple(array.view(kind.dtype) for array, kind in zip(case.inputs, kinds, strict=True))
    program = Program(program.data, program.state, program.inputs, program.outputs, 0, arrays[:count])
    graph = OperatorGraph(program)
    return graph, run(graph, [arrays[count:]] * 5)


@given(random_programs.programs(), st.data())
@settings(max_examples=25, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs(case: catalogue.Case, data: st.DataObject) -> None:
    graph, right = random_run(case)
    computing = [o for o in graph.operators if o.outputs and all(math.prod(v.kind.shape) for v in o.outputs)]
    if not computing:
        assert dispute(right, run(graph, right.inputs)).outcome == "agreement"
        return
    operator = data.draw(st.sampled_from(computing))
    step = data.draw(st.integers(1, right.steps))
    try:
        wrong = faulty(graph, right.inputs, step, operator.index, data.draw(st.integers(0, 2**12)))
    except StepFailed:
        return  # (E1) the flipped bit fails a check
    verdict = dispute(right, wrong)
    assert "A" not in verdict.wrong
    if right.links[step] != wrong.links[step]:
        assert verdict.wrong == ("B",) and verdict.step == step and verdict.operator == operator, verdict
