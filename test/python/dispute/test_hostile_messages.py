# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Hostile program text in the messages of a dispute: neither referee nor prover ends, and no honest party loses."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable

import hostile
import pytest
from adversary import cheats, graph, honest
from dispute_runs import CachedProver
from repro_mlir import ReproError
from repro_mlir.dispute import LocalChannel, RecordedRun, SocketChannel, Verdict, connection, settle
from repro_mlir.dispute.channels import Channel
from repro_mlir.dispute.messages import Message
from repro_mlir.dispute.tokens import NO_TOKEN
from repro_mlir.receipts import canonical_json

pytestmark = pytest.mark.timeout(120)

# No message can hold what is no UTF-8.
TEXTS = {
    name: text.decode() for name, (text, _) in (hostile.BEFORE_PARSING | hostile.IN_THE_CHILD).items() if text.isascii()
}
CHEAT = cheats()[0]
PADDING = "// " + "x" * 50_000
LIMITS = "text_bytes=20000"


class Telling(CachedProver):
    """A party that tells some text as its program."""

    def __init__(self, run: RecordedRun, text: str) -> None:
        super().__init__(run)
        self._text = text

    def reply(self, question: Message) -> Message:
        answer = super().reply(question)
        return {"text": self._text} if question["ask"] == "program" else answer


def dispute(first: Channel, second: Channel) -> Verdict:
    start = time.monotonic()
    try:
        return settle(first, second)
    finally:
        assert time.monotonic() - start < 60


def local(run: RecordedRun, text: str | None = None) -> LocalChannel:
    return LocalChannel(CachedProver(run) if text is None else Telling(run, text))


@pytest.mark.parametrize("name", TEXTS)
def test_hostile_text_at_the_referee(name: str) -> None:
    """Text that cannot be read decides nothing as long as the other party has the program; text that is none does."""
    verdict = dispute(local(CHEAT, TEXTS[name]), local(honest()))
    assert verdict.wrong == ("A",) and verdict.outcome in ("conduct", "operator"), verdict
    is_none = verdict.outcome == "conduct"
    assert not is_none or verdict.reasons == {"A": "a program that is none"}
    # B is asked only where A's text cannot be read.
    assert dispute(local(honest()), local(CHEAT, TEXTS[name])).outcome == "operator"
    if is_none:
        return
    with pytest.raises(ReproError, match=r"the program could not be read|a program with "):
        dispute(local(CHEAT, TEXTS[name]), local(honest(), TEXTS[name]))


def test_text_of_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A longer text of the same program: whoever tells it has not lost, and gains nothing."""
    text = graph().program.text
    monkeypatch.setenv("REPRO_MLIR_LIMITS", LIMITS)
    assert len(text) < 20_000
    long = text + PADDING
    verdict = dispute(local(honest(), long), local(CHEAT))
    assert (verdict.outcome, verdict.wrong) == ("operator", ("B",))
    verdict = dispute(local(CHEAT, long), local(honest()))
    assert (verdict.outcome, verdict.wrong) == ("operator", ("A",))
    with pytest.raises(ReproError, match=r"A's program: an answer of .* expected at most .*REPRO_MLIR_LIMITS"):
        dispute(local(honest(), long), local(CHEAT, long))
    # JSON has two bytes for each of these, and the text is no longer than the limit.
    quotes = text + "// " + '"' * (20_000 - len(text) - 3)
    assert dispute(local(honest(), quotes), local(CHEAT)).wrong == ("B",)
    monkeypatch.setenv("REPRO_MLIR_LIMITS", "text_bytes=100K")
    assert dispute(local(honest(), long), local(CHEAT, long)).wrong == ("B",)


def served(prover: CachedProver) -> SocketChannel:
    """A prover at the other end of a connection."""
    ours, theirs = socket.socketpair()

    def answer() -> None:
        with theirs:
            link = connection.accept(theirs, NO_TOKEN, time.monotonic() + 60)
            try:
                while True:
                    link.send(prover.answer(link.receive(1 << 20, time.monotonic() + 60)), time.monotonic() + 60)
            except EOFError:
                pass

    threading.Thread(target=answer, daemon=True).start()
    return SocketChannel(connection.connect(ours, NO_TOKEN, time.monotonic() + 60))


def test_the_conversation_goes_on_after_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_MLIR_LIMITS", LIMITS)
    long = graph().program.text + PADDING
    for first, second, wrong in ((honest(), CHEAT, "B"), (CHEAT, honest(), "A")):
        verdict = dispute(served(Telling(first, long)), served(CachedProver(second)))
        assert (verdict.outcome, verdict.wrong) == ("operator", (wrong,)), verdict


QUESTIONS: dict[str, Callable[[str], Message]] = {
    "as the question": lambda text: {"ask": text},
    "as a step": lambda text: {"ask": "step", "step": text},
    "as a field": lambda text: {"ask": "opening", text: 1},
    "as an answer": lambda text: {"text": text},
}


@pytest.mark.parametrize("form", QUESTIONS)
def test_hostile_text_at_the_prover(form: str) -> None:
    for text in TEXTS.values():
        start = time.monotonic()
        question = canonical_json.dump(QUESTIONS[form](text))
        answer = json.loads(CachedProver(honest()).answer(question))
        assert list(answer) == ["error"] and len(answer["error"]) <= 300 and answer["error"].isascii()
        assert time.monotonic() - start < 5
