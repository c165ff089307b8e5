# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Limits on the work and the bytes that a referee can request from a prover."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from adversary import CHANGES, STEP, STEPS, Adversary, cheats, graph, honest
from repro_mlir.verification.dispute import LocalChannel, Prover, RecordedRun, bounds, quotas, settle
from repro_mlir.verification.operators import Tracer
from support.dispute_runs import CachedProver


class Counting:
    """Wraps a run, and counts how often a question makes the prover run a step again."""

    def __init__(self, run: RecordedRun) -> None:
        self._run = run
        self.traced = 0

    def tracer(self, step: int) -> Tracer:
        self.traced += 1
        return self._run.tracer(step)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)


def ask(prover: Prover, **question: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(
        prover.answer(json.dumps(question, separators=(",", ":"), sort_keys=True).encode())
    )
    return answer


def test_a_dispute_runs_a_step_twice() -> None:
    runs = Counting(honest()), Counting(cheats()[0])
    verdict = settle(*(LocalChannel(Prover(run)) for run in runs))
    assert verdict.outcome == "operator" and [run.traced for run in runs] == [2, 2]


def test_one_step_and_one_operator() -> None:
    run = Counting(honest())
    prover = Prover(run)
    assert "top" in ask(prover, ask="operators", record=STEP)
    for step in (STEP - 1, 1, STEPS):
        for question in (
            {"ask": "operators"},
            {"ask": "nodes", "level": 1, "index": 0},
            {"ask": "operator", "index": 0},
        ):
            assert f"about record {STEP}" in ask(prover, record=step, **question)["error"]
    assert run.traced == 1
    index = len(graph().operators) - 1
    assert "inputs" in ask(prover, ask="operator", record=STEP, index=index)
    assert "about operator" in ask(prover, ask="operator", record=STEP, index=index - 1)["error"]
    assert "about operator" in ask(prover, ask="tensor", record=STEP, index=0, role="output", position=0)["error"]
    assert run.traced == 1


def test_no_more_questions_than_a_dispute_has() -> None:
    run = Counting(honest())
    prover = Prover(run)
    limit = bounds.most_questions([graph()], STEPS)
    assert limit < 40
    for _ in range(limit):
        assert "top" in ask(prover, ask="operators", record=STEP)
    assert ask(prover, ask="opening")["error"] == f"expected at most {limit} questions in a dispute"
    assert run.traced == 1
    # Disputes about all these cheats need no more questions than a prover answers.
    for cheat in cheats():
        for pair in ((honest(), cheat), (cheat, honest())):
            verdict = settle(*(LocalChannel(CachedProver(each)) for each in pair))
            assert all(traffic.questions <= limit for traffic in verdict.traffic.values())


def test_a_tensor_that_fits_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    index = next(o.index for o in graph().operators if o.outputs and o.outputs[0].kind.nbytes == 12)
    question = {"ask": "tensor", "record": STEP, "index": index, "role": "output", "position": 0}
    assert "data" in ask(CachedProver(honest()), **question)
    monkeypatch.setattr(quotas, "OPERATOR_BYTES", 11)
    assert ask(CachedProver(honest()), **question)["error"] == "expected a tensor of at most 11 bytes, got one of 12"


NONSENSE = (
    b"",
    b"[",
    b"[" * 2000,
    b'{"ask":' + b"[" * 2000 + b"]" * 2000 + b"}",
    b"[" * 60_000,
    b'{"a":' * 60_000,
    b"\xff" * 100,
    b"null",
    b"7" * 6000,
    b"{}",
    b'{"ask":"opening" }',
    b'{"ask":"opening","ask":"opening"}',
    b'{"ask":"opening","more":1}',
    rb'{"ask":"\ud800"}',
    b'{"ask":["opening"]}',
    b'{"ask":"__class__"}',
    b'{"ask":"link"}',
    b'{"ask":"link","record":-1}',
    b'{"ask":"link","record":true}',
    b'{"ask":"link","record":1.0}',
    b'{"ask":"link","record":9007199254740992}',
    b'{"ask":"link","record":9007199254740991}',
    b'{"ask":"operators","record":0}',
    b'{"ask":"nodes","index":0,"level":0,"record":1}',
    b'{"ask":"nodes","index":0,"level":999,"record":1}',
    b'{"ask":"nodes","index":99999,"level":1,"record":1}',
    b'{"ask":"operator","index":99999,"record":1}',
    b'{"ask":"producers","indices":[99999],"record":1}',
    b'{"ask":"producers","indices":[' + b",".join([b"0"] * 10) + b'],"record":1}',
    b'{"ask":"producers","indices":[' + b",".join([b"0"] * 100_000) + b'],"record":1}',
    b'{"ask":"tensor","index":0,"position":99,"record":1,"role":"output"}',
    b'{"ask":"tensor","index":0,"position":0,"record":1,"role":"both"}',
)


@pytest.mark.parametrize("question", NONSENSE, ids=range(len(NONSENSE)))
def test_nonsense_is_refused(question: bytes) -> None:
    answer = json.loads(CachedProver(honest()).answer(question))
    assert list(answer) == ["error"] and answer["error"].isascii() and len(answer["error"]) <= 300


def test_changed_questions() -> None:
    """A prover answers every question, however damaged, and its answer has few bytes."""
    draw = random.Random(1)
    party = Adversary(honest(), 0, CHANGES[0], draw)
    questions = [
        b'{"ask":"opening"}',
        b'{"ask":"link","record":3}',
        b'{"ask":"nodes","index":0,"level":2,"record":4}',
        b'{"ask":"producers","indices":[0,1],"record":4}',
        b'{"ask":"tensor","index":3,"position":0,"record":4,"role":"output"}',
    ]
    for i in range(600):
        party.question = json.loads(questions[i % 5])
        question = CHANGES[i % 13](party, questions[i % 5], 500) or b""
        json.loads(CachedProver(honest()).answer(question))
