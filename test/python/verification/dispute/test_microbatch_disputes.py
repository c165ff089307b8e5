# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Disputes about steps in microbatches: a party that lies about a microbatch, a sum of microbatches or the last part of
a step loses (O1), (B4)."""

from __future__ import annotations

import base64
import functools
import json
from pathlib import Path

import numpy as np
import pytest
import repro_mlir
import torch
from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.base.files import canonical_json
from repro_mlir.base.limits import VARIABLE
from repro_mlir.verification.dispute import LocalChannel, Prover, RecordedRun, settle
from repro_mlir.verification.operators import OperatorGraph
from support.dispute_runs import CachedProver, dispute, faulty, run
from support.microbatch_steps import program_of, values_of

STEPS, STEP = 3, 2


@functools.cache
def graph() -> OperatorGraph:
    return OperatorGraph(program_of(4, 2))


@functools.cache
def honest() -> RecordedRun:
    return run(graph(), [values_of(program_of(4, 2), seed) for seed in range(STEPS)])


def phases() -> list[str]:
    return list(dict.fromkeys(what for _, what in graph().phases))


@pytest.mark.parametrize("phase", phases())
@pytest.mark.exhaustive("microbatch 0", "microbatch 2", "microbatch 3")
def test_a_wrong_operator_of_each_phase_is_named(phase: str) -> None:
    draw = np.random.default_rng(phases().index(phase))
    indices = [i for each, what in graph().phases if what == phase for i in each if graph().operators[i].outputs]
    found = 0
    for index in draw.permutation([i for i in indices if not graph().operators[i].inline]):
        try:
            cheat = faulty(graph(), honest().inputs, STEP, int(index), int(draw.integers(0, 4096)))
        except StepFailed:
            continue
        if cheat.links[STEP] == honest().links[STEP]:
            continue
        for first, second, wrong in ((cheat, honest(), "A"), (honest(), cheat, "B")):
            verdict = dispute(first, second)
            assert (verdict.outcome, verdict.wrong, verdict.step) == ("operator", (wrong,), STEP)
            assert verdict.operator is not None and verdict.operator.index == index
            assert phase in verdict.operator.origin
        found += 1
        if found == 3:
            break
    assert found


def test_a_referee_that_has_no_program() -> None:
    """A referee without the step's program requests it from a party, and rejects a program with another identity."""

    class Other(LocalChannel):
        def __init__(self, data: bytes) -> None:
            super().__init__(CachedProver(honest()))
            self._data = data

        def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
            answer = super().exchange(question, limit, timeout)
            if json.loads(question)["ask"] != "program":
                return answer
            return canonical_json.dump({"data": base64.b64encode(self._data).decode()})

    data = graph().step.data
    operator = next(i for each, what in graph().phases if what == "microbatch 1" for i in each)
    index = next(i for i in range(operator, operator + 99) if graph().operators[i].name == "repro.fold")
    cheat = faulty(graph(), honest().inputs, STEP, index, 20)
    others = [data[:-1], data[:30], program_of(4, 1).data, program_of(4, 2).part.data, data.replace(b"\2", b"\3", 1)]
    for other in others:
        verdict = settle(Other(other), LocalChannel(CachedProver(cheat)))
        assert (verdict.outcome, verdict.wrong) == ("conduct", ("A",)), verdict
        assert verdict.reasons["A"].startswith(("expected a valid program", "expected the program "))
    assert settle(Other(data), LocalChannel(CachedProver(cheat))).wrong == ("B",)


def test_a_step_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    index = graph().results[0].producer
    assert index is not None
    provers = CachedProver(honest()), CachedProver(faulty(graph(), honest().inputs, STEP, index, 20))
    monkeypatch.setenv(VARIABLE, f"text_bytes={3 * len(program_of(4, 2).part.data)}")
    with pytest.raises(ReproError, match="to look at operators one by one"):
        settle(*map(LocalChannel, provers))


def test_receipts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs of one script differ in the learning rate. `repro dispute` and `repro diff` find the difference."""
    from repro_mlir.cli.main import main

    paths = [tmp_path / "first.receipt", tmp_path / "second.receipt"]
    for path in paths:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1 if path is paths[0] else 0.2)
        loss = torch.nn.functional.cross_entropy
        x, y = torch.randn(24, 6), torch.arange(24) % 3
        with repro_mlir.Trainer(model, loss, optimizer, microbatches=4, receipt=path) as trainer:
            trainer.fit([(x, y)], 3)
    assert main(["dispute", str(paths[0]), str(paths[0])]) == 0
    # Without terms, the referee does not know which learning rate was agreed on, so there is no verdict (status 3).
    assert main(["dispute", str(paths[0]), str(paths[1])]) == 3
    assert main(["dispute", str(paths[0]), str(paths[1]), "--terms", str(paths[0])]) == 1
    assert "wrong    B" in capsys.readouterr().out
    found = repro_mlir.diff(paths[0], paths[1])
    assert found is not None and found.step == 1 and "lr" in {each.name for each in found.given}
    assert {each.operator.module for each in found.operators} == {"the end of the step"}


def test_provers_answer_about_one_operator() -> None:
    prover = Prover(honest())
    question = {"ask": "operator", "record": STEP, "index": len(graph().operators)}
    assert "expected an operator below" in prover.answer(canonical_json.dump(question)).decode()
