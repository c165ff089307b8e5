# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Provers that violate the protocol lose in every case; the honest prover never loses."""

from __future__ import annotations

import base64
import copy
import dataclasses
import functools
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.hashing import tensor_digest
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.program.canonical import to_bytes
from repro_mlir.verification.dispute import LocalChannel, Prover, RecordedRun, Verdict, settle
from repro_mlir.verification.dispute.channels import Silence
from repro_mlir.verification.dispute.messages import Message, encode
from repro_mlir.verification.dispute.party import Misconduct, Party
from repro_mlir.verification.dispute.terms import Due, Terms
from repro_mlir.verification.operators import Value
from repro_mlir.verification.operators.commitments import OperatorClaim, OperatorTree
from repro_mlir.verification.receipts.commitments import Commitment, next_link
from support.dispute_runs import STEPS, CachedProver, dispute, faulty, graph, honest, run

STEP = 37
CONTRACTION = next(o.index for o in graph().operators if o.name == "repro.fold")


@functools.cache
def cheat() -> RecordedRun:
    return faulty(graph(), honest().inputs, STEP, CONTRACTION, 77)


class Liar(CachedProver):
    """A party that applies `change` to its answers to one type of question."""

    def __init__(self, run: RecordedRun, ask: str, change: Callable[[Message, Message], Message]) -> None:
        super().__init__(run)
        self._ask, self._change = ask, change

    def reply(self, question: Message) -> Message:
        answer = super().reply(question)
        return self._change(question, answer) if question["ask"] == self._ask else answer


def loses(verdict: Verdict, name: str = "B") -> Verdict:
    assert verdict.wrong == (name,), verdict
    assert verdict.reasons[name]
    return verdict


# --- Answers that are not valid ---

QUESTIONS = ("opening", "link", "record", "operators", "nodes", "operator", "tensor")
"""The questions that both parties receive in a dispute about an operator. In addition, the cheat must send the
operator's output."""


class Broken(LocalChannel):
    """A party that answers one type of question with the bytes `data`, or not at all if they are None."""

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
        verdict = settle(LocalChannel(CachedProver(honest())), Broken(CachedProver(cheat()), ask, data))
        loses(verdict)
        assert verdict.outcome == ("operator" if ask == "tensor" else "conduct"), (ask, data)
        loses(settle(Broken(CachedProver(cheat()), ask, data), LocalChannel(CachedProver(honest()))), "A")


def test_questions_to_the_first_party_alone() -> None:
    for ask in ("program", "producers", "tensor"):
        for data in NONSENSE:
            verdict = settle(Broken(CachedProver(cheat()), ask, data), LocalChannel(CachedProver(honest())))
            loses(verdict, "A")
        # An honest first party answers these questions, and the cheat loses as the second party.
        loses(settle(LocalChannel(CachedProver(honest())), LocalChannel(CachedProver(cheat()))))


def test_both_silent() -> None:
    channels = [Broken(CachedProver(run), "link", None) for run in (honest(), cheat())]
    verdict = settle(*channels, timeout=0.5)
    assert verdict.wrong == ("A", "B") and "no answer within 0.5 s" in verdict.reasons["A"]


class Noisy(LocalChannel):
    """A party that flips one bit of its answer with the number `at`."""

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
    """Flips one bit of a cheat's answer: the honest opponent never loses, and the referee notices the flip if it read
    the answer."""
    generator = random.Random(1)
    for _ in range(150):
        noisy = Noisy(CachedProver(cheat()), generator.randrange(14), generator.random(), generator.randrange(7))
        verdict = settle(LocalChannel(CachedProver(honest())), noisy)
        assert "A" not in verdict.wrong, verdict
        assert verdict.wrong == ("B",) or verdict.outcome in ("header", "agreement", "length"), verdict


# --- Links of another run ---


def test_links_that_no_commitment_holds() -> None:
    """The cheat sends the honest links for some steps, so that the search for the first different link does not end at
    the step with the wrong result."""
    for agreed in (range(0, 50), range(37, 64), range(0, 64, 2)):

        def change(question: Message, answer: Message, agreed: range = agreed) -> Message:
            return {"link": honest().link(question["record"]).hex()} if question["record"] in agreed else answer

        verdict = loses(dispute(honest(), Liar(cheat(), "link", change)))
        assert verdict.outcome in ("conduct", "operator", "commitment")


def test_a_commitment_that_the_chain_does_not_hold() -> None:
    def other_state(question: Message, answer: Message) -> Message:
        return answer | {"state": [*answer["state"][:-1], "00" * 32]}

    def other_cursor(question: Message, answer: Message) -> Message:
        return answer | {"cursor": answer["cursor"] + 1}

    for change in (other_state, other_cursor):
        assert "is not in the chain" in loses(dispute(honest(), Liar(cheat(), "record", change))).reasons["B"]


class OtherPast(RecordedRun):
    """A party whose links from step `STEP` on follow from a wrong previous link. Its commitments are those of the
    honest run."""

    def __init__(self) -> None:
        self.__dict__.update(copy.copy(honest()).__dict__)
        self.links, before = list(honest().links), b"\x55" * 32
        for step in range(STEP, STEPS + 1):
            before = self.links[step] = next_link(before, step, honest().commitment(step).root)


def test_a_past_that_it_did_not_have() -> None:
    def change(question: Message, answer: Message) -> Message:
        return answer | {"before": "55" * 32} if question["record"] == STEP else answer

    verdict = loses(dispute(honest(), Liar(OtherPast(), "record", change)))
    assert verdict.outcome == "conduct" and f"the link before record {STEP} is not the one" in verdict.reasons["B"]
    loses(dispute(Liar(OtherPast(), "record", change), honest()), "A")
    assert "is not in the chain" in loses(dispute(honest(), OtherPast())).reasons["B"]


def test_an_initial_state_that_the_header_does_not_hold() -> None:
    early = faulty(graph(), honest().inputs, 1, CONTRACTION, 3)

    def change(question: Message, answer: Message) -> Message:
        return answer | {"state": ["11" * 32, *answer["state"][1:]]} if question["record"] == 0 else answer

    assert (
        "expected the initial state of the header, got another one"
        in loses(dispute(honest(), Liar(early, "record", change))).reasons["B"]
    )


def test_another_claim_than_its_tree_holds() -> None:
    def change(question: Message, answer: Message) -> Message:
        return answer | {"outputs": ["22" * 32]}

    assert (
        "the claim does not match the commitment"
        in loses(dispute(honest(), Liar(cheat(), "operator", change))).reasons["B"]
    )
    for role in ("inputs", "outputs"):
        verdict = dispute(Liar(cheat(), "producers", functools.partial(_other_producer, role)), honest())
        assert "the claim is not in the tree" in loses(verdict, "A").reasons["A"]


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


def test_elements_in_another_form() -> None:
    """Booleans above 1 and NaNs with a payload are refused as elements of a tensor, even if the tensor's digest
    matches."""
    for element, raw in (("i1", b"\2"), ("f32", b"\1\0\xc0\x7f"), ("f64", b"\1" + bytes(5) + b"\xf8\x7f")):
        value = Value(None, 0, TensorType("value", element, (1,)), element, False, False)
        array = np.frombuffer(raw, value.kind.dtype)
        right = np.array([element == "i1" or np.nan]).astype(value.kind.dtype)
        data = base64.b64encode(raw).decode()

        class Answering:
            def exchange(self, question: bytes, limit: int, timeout: float, data: str = data) -> bytes:
                return encode({"data": data})

            def close(self) -> None:
                pass

        for digest in {tensor_digest(right, element), tensor_digest(array, element)}:
            with pytest.raises(Misconduct, match=r"input 0 of operator 0: .*expected"):
                Party("A", Answering()).tensor(1, 0, "input", 0, value, digest)


# --- Operators that were never run ---


class Inventor(CachedProver):
    """A party that applies `change` to its claims about the operators of a step: the digests of inputs and outputs of
    each."""

    def __init__(self, run: RecordedRun, change: Callable[[list[OperatorClaim]], None]) -> None:
        super().__init__(run)
        self._change = change

    def tree(self, record: int) -> OperatorTree:
        claims = list(super().tree(record).claims)
        self._change(claims)
        return OperatorTree(bytes.fromhex(self.run.graph.program.hash), claims)


def lazy(step: int) -> RecordedRun:
    """Returns a run that skips a step: its commitment repeats the state and the outputs of the previous step."""
    right = run(graph(), honest().inputs[: step - 1])
    previous = right.commitments[step - 1]
    commitment = dataclasses.replace(honest().commitment(step), state=previous.state, outputs=previous.outputs)
    right.commitments.append(commitment)
    right.links.append(next_link(right.links[-1], step, commitment.root))
    right.states.append(right.states[-1])
    right.inputs.append(honest().inputs[step - 1])
    return right


def test_a_skipped_step() -> None:
    verdict = loses(dispute(honest(), lazy(STEP)))
    assert verdict.outcome == "commitment" and verdict.step == STEP
    assert "is not the result of its operators" in verdict.reasons["B"]
    loses(dispute(lazy(STEP), honest()), "A")


def test_claims_that_fit_a_skipped_step() -> None:
    """The cheat, which skipped a step, claims that the operator that returns the state returned the committed state."""
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


@pytest.mark.parametrize("part", range(4))
@pytest.mark.diagonal(part=[0])
def test_wiring(part: int) -> None:
    """The cheat claims that one operator had an input that no operator returned."""
    users = [o for o in graph().operators if o.inputs and o.outputs]
    assert len(users) > 8
    for operator in users[part::4]:
        for position in range(len(operator.inputs)):

            def change(claims: list[OperatorClaim], at: int = operator.index, position: int = position) -> None:
                inputs = list(claims[at].inputs)
                inputs[position] = b"\x44" * 32
                claims[at] = OperatorClaim(tuple(inputs), claims[at].outputs)

            verdict = loses(dispute(honest(), Inventor(cheat(), change)))
            # The cheat also has a wrong operator, CONTRACTION; the dispute finds the first of the two lies.
            assert verdict.operator is not None and verdict.operator.index == min(operator.index, CONTRACTION)
            if operator.index <= CONTRACTION:
                assert "than the step has" in verdict.reasons["B"]
            loses(dispute(Inventor(cheat(), change), honest()), "A")


def test_constants_and_empty_tensors_of_its_own() -> None:
    """The cheat claims wrong digests for constants and empty tensors, which the program's text determines."""
    inline = [operator for operator in graph().operators if operator.inline]
    for operator in inline[:: len(inline) // 5]:

        def change(claims: list[OperatorClaim], at: int = operator.index) -> None:
            claims[at] = OperatorClaim((), (b"\x66" * 32,) * max(len(claims[at].outputs), 1))

        for pair, name in (((honest(), Inventor(cheat(), change)), "B"), ((Inventor(cheat(), change), honest()), "A")):
            verdict = loses(dispute(*pair), name)
            assert verdict.outcome in ("operator", "conduct")
            if operator.index < CONTRACTION and verdict.outcome == "operator":
                assert verdict.operator is not None and verdict.operator.index == operator.index


def test_a_tree_of_another_size() -> None:
    for change in (lambda claims: claims.pop(), lambda claims: claims.append(claims[0])):
        loses(dispute(honest(), Inventor(cheat(), change)))
        loses(dispute(Inventor(cheat(), change), honest()), "A")


# --- Data ---


def terms() -> Terms:
    """Returns terms with the header of the honest run, and the program and inputs of each step."""

    def due(record: int, claim: Commitment) -> Due:
        given = zip(graph().program.inputs, honest().inputs[claim.cursor - 1], strict=True)
        inputs = tuple(tensor_digest(array, kind.element) for kind, array in given)
        return Due(inputs, honest().commitment(1).program, signature=honest().commitment(1).signature)

    return Terms(json.loads(honest().header), due)


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
    # Without terms, the referee does not know which inputs were agreed on, so neither party loses.
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


def with_header(**fields: Any) -> RecordedRun:
    """Returns an honest run of two steps. `fields` replaces fields of the run's header."""
    tracer = honest().tracer(1)
    return RecordedRun(
        graph().program, honest().inputs[:2], lambda _, a: tracer.results(a), graph=graph(), header=fields
    )


def test_invalid_batch_numbers() -> None:
    """Covers a batch number so large that counting up to it would never end, and a batch number that is not larger than
    that of the previous step. If the terms are known, a party with either number loses."""

    def counted(cursor: int) -> RecordedRun:
        other = copy.copy(honest())
        other.commitments, other.links = list(honest().commitments), list(honest().links)
        other.commitments[STEP] = dataclasses.replace(honest().commitment(STEP), cursor=cursor)
        for step in range(STEP, STEPS + 1):
            other.links[step] = next_link(other.links[step - 1], step, other.commitments[step].root)
        return other

    def due(record: int, claim: Commitment) -> Due | None:
        assert claim.cursor < 2**20
        return terms().record(record, claim) if claim.cursor <= STEPS else None

    agreed = dataclasses.replace(terms(), record=due)
    for cursor in (2**50, STEP - 1, 0):
        verdict = loses(dispute(honest(), counted(cursor), agreed))
        assert (verdict.outcome, verdict.subject) == ("data", "the count of batches")
        loses(dispute(counted(cursor), honest(), agreed), "A")


def test_other_headers() -> None:
    two = run(graph(), honest().inputs[:2])
    for fields, path in (({"numerics": 2}, "header.numerics"), ({"nonfinite_loss": "stop"}, "header.nonfinite_loss")):
        verdict = loses(dispute(two, with_header(**fields), terms()))
        assert (verdict.outcome, verdict.subject) == ("header", path)
        # Without terms, the referee does not know which of the two runs was agreed on.
        verdict = dispute(two, with_header(**fields))
        assert (verdict.outcome, verdict.wrong, verdict.subject) == ("header", (), path)


def test_headers_that_are_none() -> None:
    """A party whose header has an additional, missing or malformed field loses even without terms."""
    two = run(graph(), honest().inputs[:2])
    changes: list[dict[str, Any]] = [{"program": "ab" * 32}, {"initial": "short"}, {"initial": None}]
    changes += [{"data": {"seed": 4}}, {"more": None}, {"signature": {}}, {"numerics": True}, {"numerics": 0}]
    for fields in changes:
        assert loses(dispute(two, with_header(**fields))).outcome == "conduct", fields
        loses(dispute(with_header(**fields), two, terms()), "A")


def test_a_state_that_the_program_does_not_have() -> None:
    two = run(graph(), honest().inputs[:2])
    state = json.loads(two.header)["state"]
    for name in ("\u202e", "\x1b[2J", "a" * 5000):
        other = [state[0] | {"name": name}, *state[1:]]
        assert loses(dispute(two, with_header(state=other))).outcome == "conduct"
    # A header with another state is valid, because the header names no program. Only terms show that it is wrong.
    for change in ({"shape": [7, 7]}, {"element": "i8"}, {"name": "other"}):
        other = [state[0] | change, *state[1:]]
        verdict = dispute(two, with_header(state=other))
        assert (verdict.outcome, verdict.wrong) == ("header", ())
        loses(dispute(two, with_header(state=other), terms()))
        loses(dispute(with_header(state=other), two, terms()), "A")


def test_numerics_of_another_release() -> None:
    with pytest.raises(ReproError, match="numerics 2, and this release computes numerics 1"):
        dispute(with_header(numerics=2), faulty_header(2))


def faulty_header(numerics: int) -> RecordedRun:
    wrong = faulty(graph(), honest().inputs[:2], 2, CONTRACTION, 77)
    return RecordedRun(
        graph().program,
        honest().inputs[:2],
        lambda step, arrays: [*wrong.states[step], *honest().tracer(1).results(arrays)[len(wrong.states[0]) :]],
        graph=graph(),
        header={"numerics": numerics},
    )


def test_how_many_steps_were_agreed_on() -> None:
    """If the terms fix the number of steps, a party with fewer steps loses, even one with none."""
    agreed = Terms({}, steps=STEPS)
    for short in (run(graph(), []), run(graph(), honest().inputs[:40])):
        verdict = loses(dispute(honest(), short, agreed))
        assert verdict.outcome == "length" and f"the terms say {STEPS}" in verdict.reasons["B"]
        loses(dispute(short, honest(), agreed), "A")
        assert dispute(honest(), short).wrong == ()
    assert dispute(honest(), honest(), agreed).outcome == "agreement"


def test_a_program_of_another_identity() -> None:
    other = to_bytes(graph().program.text.replace("2.500000e-01", "7.500000e-01"))

    def change(question: Message, answer: Message) -> Message:
        return {"data": base64.b64encode(other).decode()}

    assert "expected the program" in loses(dispute(Liar(cheat(), "program", change), honest()), "A").reasons["A"]
    assert STEPS == honest().steps


# --- Errors of the referee itself ---


def test_a_fault_of_ours_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the referee fails unexpectedly, there is no verdict: the error names the party whose answer was being read."""

    def fail(*arguments: Any) -> None:
        raise ZeroDivisionError("ours")

    places = {
        "party.next_link": "no verdict: cannot judge A's answer (record: ZeroDivisionError: ours)",
        "party.Commitment": "no verdict: cannot judge A's answer (record: ZeroDivisionError: ours)",
        "judgement.interpret": "no verdict: the referee failed (ZeroDivisionError: ours)",
        "judgement.first_difference": "no verdict: the referee failed (ZeroDivisionError: ours)",
        "referee.OperatorGraph": "no verdict: the referee failed (ZeroDivisionError: ours)",
    }
    for place, message in places.items():
        with monkeypatch.context() as patch:
            patch.setattr(f"repro_mlir.verification.dispute.{place}", fail)
            with pytest.raises(ReproError) as error:
                dispute(honest(), cheat())
            assert str(error.value) == message
