# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Provers that do not play fair lose, whatever they do; the honest one never does."""

from __future__ import annotations

import base64
import copy
import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dispute_runs import STEPS, dispute, faulty, graph, honest, run
from repro_mlir.dispute import LocalChannel, Prover, RecordedRun, Verdict, settle
from repro_mlir.dispute.channels import Silence
from repro_mlir.dispute.prover import Message
from repro_mlir.dispute.terms import Terms
from repro_mlir.hashing import tensor_digest
from repro_mlir.operators.commitments import OperatorClaim, OperatorTree
from repro_mlir.receipts.commitments import Commitment, next_link

STEP = 37
CONTRACTION = next(o.index for o in graph().operators if o.name == "repro.fold")


@functools.cache
def cheat() -> RecordedRun:
    return faulty(graph(), honest().inputs, STEP, CONTRACTION, 77)


class Liar(Prover):
    """Changes answers to one kind of question."""

    def __init__(self, run: RecordedRun, ask: str, change: Callable[[Message, Message], Message]) -> None:
        super().__init__(run)
        self._ask, self._change = ask, change

    def answer(self, question: Message) -> Message:
        answer = super().answer(question)
        return self._change(question, answer) if question["ask"] == self._ask else answer


def loses(verdict: Verdict, name: str = "B") -> Verdict:
    assert verdict.wrong == (name,), verdict
    assert verdict.reasons[name]
    return verdict


# --- Answers that are none ---

QUESTIONS = ("opening", "link", "step", "operators", "nodes", "operator", "tensor")
"""What both are asked in a dispute about an operator; the cheat is asked for its output."""


class Broken(LocalChannel):
    """Answers one kind of question with given bytes, or not at all."""

    def __init__(self, prover: Prover, ask: str, data: bytes | None) -> None:
        super().__init__(prover)
        self._ask, self._data = f'"ask":"{ask}"'.encode(), data

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        if self._ask not in question:
            return super().exchange(question, limit, timeout)
        if self._data is None:
            raise Silence(f"no answer within {timeout:g} s")
        return self._data


NONSENSE = [
    None,
    b"",
    b"\xff\xfe",
    b"null",
    b"[]",
    b"{}",
    b'{"error": "I would rather not"}',
    b"[" * 100_000,
    b'{"link": 5, "top": 5, "left": 5, "state": 5, "inputs": 5, "protocol": 1, "data": 5}',
    b'{"link": "' + b"0" * 64 + b'", "top": "' + b"g" * 64 + b'", "left": "", "state": [], "inputs": [], "data": "%%"}',
]


@pytest.mark.parametrize("ask", QUESTIONS)
def test_silence_and_nonsense(ask: str) -> None:
    for data in NONSENSE:
        verdict = settle(LocalChannel(Prover(honest())), Broken(Prover(cheat()), ask, data))
        loses(verdict)
        assert verdict.outcome == ("operator" if ask == "tensor" else "conduct"), (ask, data)
        loses(settle(Broken(Prover(cheat()), ask, data), LocalChannel(Prover(honest()))), "A")


def test_questions_to_the_first_party_alone() -> None:
    for ask in ("program", "producers", "tensor"):
        for data in NONSENSE:
            verdict = settle(Broken(Prover(cheat()), ask, data), LocalChannel(Prover(honest())))
            loses(verdict, "A")
        # Against a cheat in the other place, an honest first party answers all of them.
        loses(settle(LocalChannel(Prover(honest())), LocalChannel(Prover(cheat()))))


def test_both_silent() -> None:
    channels = [Broken(Prover(run), "link", None) for run in (honest(), cheat())]
    verdict = settle(*channels, timeout=0.5)
    assert verdict.wrong == ("A", "B") and "no answer within 0.5 s" in verdict.reasons["A"]


class Noisy(LocalChannel):
    """Changes one bit of one answer."""

    def __init__(self, prover: Prover, at: int, place: float, bit: int) -> None:
        super().__init__(prover)
        self._left, self._place, self._bit = at, place, bit

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        answer = bytearray(super().exchange(question, limit, timeout))
        if self._left == 0:
            answer[int(self._place * len(answer))] ^= 1 << self._bit
        self._left -= 1
        return bytes(answer)


def test_random_answers() -> None:
    """Any answer with a bit changed: an honest opponent never loses, and the changed answer never goes unseen."""
    generator = random.Random(1)
    for _ in range(150):
        noisy = Noisy(Prover(cheat()), generator.randrange(14), generator.random(), generator.randrange(7))
        verdict = settle(LocalChannel(Prover(honest())), noisy)
        assert "A" not in verdict.wrong, verdict
        assert verdict.wrong == ("B",) or verdict.outcome in ("header", "agreement", "length"), verdict


# --- Another story ---


def test_links_that_no_commitment_holds() -> None:
    """Says at some steps that it agrees, to have the dispute end elsewhere."""
    for agreed in (range(0, 50), range(37, 64), range(0, 64, 2)):

        def change(question: Message, answer: Message, agreed: range = agreed) -> Message:
            return {"link": honest().link(question["step"]).hex()} if question["step"] in agreed else answer

        verdict = loses(dispute(honest(), Liar(cheat(), "link", change)))
        assert verdict.outcome in ("conduct", "operator", "commitment")


def test_a_commitment_that_the_chain_does_not_hold() -> None:
    def other_state(question: Message, answer: Message) -> Message:
        return answer | {"state": [*answer["state"][:-1], "00" * 32]}

    def other_cursor(question: Message, answer: Message) -> Message:
        return answer | {"cursor": answer["cursor"] + 1}

    for change in (other_state, other_cursor):
        assert "chain does not hold" in loses(dispute(honest(), Liar(cheat(), "step", change))).reasons["B"]


def test_an_initial_state_that_the_header_does_not_hold() -> None:
    early = faulty(graph(), honest().inputs, 1, CONTRACTION, 3)

    def change(question: Message, answer: Message) -> Message:
        return answer | {"state": ["11" * 32, *answer["state"][1:]]} if question["step"] == 0 else answer

    assert "not the one of its header" in loses(dispute(honest(), Liar(early, "step", change))).reasons["B"]


def test_another_claim_than_its_tree_holds() -> None:
    def change(question: Message, answer: Message) -> Message:
        return answer | {"outputs": ["22" * 32]}

    assert "another claim" in loses(dispute(honest(), Liar(cheat(), "operator", change))).reasons["B"]
    for role in ("inputs", "outputs"):
        verdict = dispute(Liar(cheat(), "producers", functools.partial(_other_producer, role)), honest())
        assert "its tree does not hold" in loses(verdict, "A").reasons["A"]


def _other_producer(role: str, question: Message, answer: Message) -> Message:
    answer = copy.deepcopy(answer)
    answer["claims"][0][role] = ["33" * 32] * len(answer["claims"][0][role])
    return answer


def test_a_tensor_that_has_another_hash() -> None:
    def change(question: Message, answer: Message) -> Message:
        return {"data": "B" * len(answer["data"].rstrip("=")) + answer["data"][len(answer["data"].rstrip("=")) :]}

    assert "does not show its tensor" in loses(dispute(honest(), Liar(cheat(), "tensor", change))).reasons["B"]
    assert loses(dispute(Liar(cheat(), "tensor", change), honest()), "A").outcome == "conduct"


def test_V4_a_tensor_with_another_nan() -> None:
    def change(question: Message, answer: Message) -> Message:
        data = np.frombuffer(base64.b64decode(answer["data"]), np.uint8)
        return {"data": base64.b64encode(np.full(data.size, 0xFF, np.uint8)).decode()}

    verdict = loses(dispute(honest(), Liar(cheat(), "tensor", change)))
    assert "expected the NaN 0x7fc00000 as element [0" in verdict.reasons["B"]


# --- Operators that were never run ---


class Inventor(Prover):
    """Claims operators of its own invention for one step."""

    def __init__(self, run: RecordedRun, change: Callable[[list[OperatorClaim]], None]) -> None:
        super().__init__(run)
        self._change = change

    def tree(self, step: int) -> OperatorTree:
        claims = list(super().tree(step).claims)
        self._change(claims)
        return OperatorTree(bytes.fromhex(self.run.graph.program.hash), claims)


def lazy(step: int) -> RecordedRun:
    """Skips a step: its state stays as it was, and its outputs are those of the step before."""
    right = run(graph(), honest().inputs[: step - 1])
    previous = right.commitments[step - 1]
    commitment = Commitment(step, previous.state, honest().commitment(step).inputs, previous.outputs)
    right.commitments.append(commitment)
    right.links.append(next_link(right.links[-1], step, commitment.root))
    right.states.append(right.states[-1])
    right.inputs.append(honest().inputs[step - 1])
    return right


def test_a_skipped_step() -> None:
    verdict = loses(dispute(honest(), lazy(STEP)))
    assert verdict.outcome == "commitment" and verdict.step == STEP
    assert "is not what its operators gave" in verdict.reasons["B"]
    loses(dispute(lazy(STEP), honest()), "A")


def test_claims_that_fit_a_skipped_step() -> None:
    """The last operator is claimed to have given what the commitment says."""
    skipped = lazy(STEP)
    value = graph().results[0]
    assert value.producer is not None

    def change(claims: list[OperatorClaim]) -> None:
        claims[value.producer or 0] = OperatorClaim(
            claims[value.producer or 0].inputs, (skipped.commitment(STEP).state[0],)
        )

    verdict = loses(dispute(honest(), Inventor(skipped, change)))
    assert verdict.outcome == "operator" and verdict.operator is not None
    assert verdict.operator.index == value.producer


def test_wiring() -> None:
    """An operator that takes something else than what was given it, correctly computed."""
    users = [o for o in graph().operators if o.inputs and o.outputs]
    for operator in users:
        for position in range(len(operator.inputs)):

            def change(claims: list[OperatorClaim], at: int = operator.index, position: int = position) -> None:
                inputs = list(claims[at].inputs)
                inputs[position] = b"\x44" * 32
                claims[at] = OperatorClaim(tuple(inputs), claims[at].outputs)

            verdict = loses(dispute(honest(), Inventor(cheat(), change)))
            # The first of the two lies is the one that is found.
            assert verdict.operator is not None and verdict.operator.index == min(operator.index, CONTRACTION)
            if operator.index <= CONTRACTION:
                assert "that nobody gave" in verdict.reasons["B"]
            loses(dispute(Inventor(cheat(), change), honest()), "A")


def test_a_tree_of_another_size() -> None:
    for change in (lambda claims: claims.pop(), lambda claims: claims.append(claims[0])):
        loses(dispute(honest(), Inventor(cheat(), change)))
        loses(dispute(Inventor(cheat(), change), honest()), "A")


# --- Data ---


def terms() -> Terms:
    """The run that was agreed on."""
    fields = {"program": graph().program.hash, "numerics": 1, "initial": honest().commitment(0).root.hex()}

    def due(step: int, cursor: int) -> tuple[bytes, ...]:
        given = zip(graph().program.inputs, honest().inputs[cursor - 1], strict=True)
        return tuple(tensor_digest(array, kind.element) for kind, array in given)

    return Terms(fields, due)


def other_input(position: int, change: Callable[[np.ndarray], np.ndarray]) -> RecordedRun:
    given = [list(step) for step in honest().inputs]
    given[STEP - 1][position] = change(given[STEP - 1][position])
    return run(graph(), given)


@pytest.mark.parametrize(
    ("position", "change"),
    [(0, lambda lr: lr * np.float32(2)), (1, lambda x: x[::-1].copy()), (2, lambda rows: (rows + 1) % 6)],
    ids=["learning-rate", "batch", "rows"],
)
def test_other_data(position: int, change: Callable[[np.ndarray], np.ndarray]) -> None:
    other = other_input(position, change)
    name = graph().program.inputs[position].name
    verdict = loses(dispute(honest(), other, terms()))
    assert (verdict.outcome, verdict.step, verdict.subject) == ("data", STEP, name)
    loses(dispute(other, honest(), terms()), "A")
    assert dispute(other, other_input(position, np.zeros_like), terms()).wrong == ("A", "B")
    # Without terms nothing shows who is right, and nobody loses.
    verdict = dispute(honest(), other)
    assert (verdict.outcome, verdict.wrong, verdict.subject) == ("data", (), name)


def test_another_initial_state() -> None:
    other = copy.copy(graph().program)
    changed = (other.initial[0] * np.float32(2), *other.initial[1:])
    object.__setattr__(other, "initial", changed)
    other_run = run(graph(), honest().inputs, other)
    verdict = loses(dispute(honest(), other_run, terms()))
    assert (verdict.outcome, verdict.subject) == ("header", "header.initial")
    verdict = dispute(honest(), other_run)
    assert (verdict.outcome, verdict.wrong, verdict.subject) == ("header", (), "header.initial")


def test_other_headers() -> None:
    def with_header(**fields: Any) -> RecordedRun:
        tracer = honest().tracer(1)
        return RecordedRun(
            graph().program, honest().inputs[:2], lambda _, a: tracer.results(a), graph=graph(), header=fields
        )

    two = run(graph(), honest().inputs[:2])
    for fields, path in (
        ({"numerics": 2}, "header.numerics"),
        ({"program": "ab" * 32}, "header.program"),
        ({"data": {"seed": 4}}, "header.data"),
    ):
        verdict = dispute(two, with_header(**fields), terms())
        assert (verdict.outcome, verdict.subject) == ("header", path)
        assert verdict.wrong == (() if path == "header.data" else ("B",))
    first, second = with_header(data={"seed": [1, 2]}), with_header(data={"seed": [1, 3]})
    assert dispute(first, second).subject == "header.data.seed[1]"
    for fields in ({"program": 7}, {"initial": "short"}, {"initial": None}):
        assert loses(dispute(two, with_header(**fields))).outcome == "conduct"


def test_a_program_of_another_identity() -> None:
    other = graph().program.text.replace("0.25", "0.75")

    def change(question: Message, answer: Message) -> Message:
        return {"text": other}

    assert "a program with the identity" in loses(dispute(Liar(cheat(), "program", change), honest()), "A").reasons["A"]
    assert STEPS == honest().steps
