# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Messages with hostile programs end neither the referee nor the prover, and the honest party never loses."""

from __future__ import annotations

import base64
import json
import re
import socket
import threading
import time
from collections.abc import Callable

import pytest
from adversary import cheats, graph, honest
from repro_mlir import ReproError
from repro_mlir.base.files import canonical_json
from repro_mlir.program.canonical import to_bytes
from repro_mlir.verification.dispute import LocalChannel, RecordedRun, SocketChannel, Verdict, connection, settle
from repro_mlir.verification.dispute.channels import Channel
from repro_mlir.verification.dispute.messages import Message
from repro_mlir.verification.dispute.tokens import NO_TOKEN
from support import hostile
from support.dispute_runs import CachedProver

pytestmark = pytest.mark.timeout(120)

DATA = {name: data for name, (data, _) in (hostile.NOT_STORED | hostile.TOO_LARGE).items()}
# A message with a program's text is JSON in UTF-8, so it cannot contain other bytes.
TEXTS = [text.decode() for text, _ in (hostile.BEFORE_PARSING | hostile.IN_THE_CHILD).values() if text.isascii()]
CHEAT = cheats()[0]
LIMITS = "text_bytes=20000"


class Telling(CachedProver):
    """A party that sends the bytes `data` as its program."""

    def __init__(self, run: RecordedRun, data: bytes) -> None:
        super().__init__(run)
        self._data = data

    def reply(self, question: Message) -> Message:
        answer = super().reply(question)
        return {"data": base64.b64encode(self._data).decode()} if question["ask"] == "program" else answer


def dispute(first: Channel, second: Channel) -> Verdict:
    start = time.monotonic()
    try:
        return settle(first, second)
    finally:
        assert time.monotonic() - start < 60


def local(run: RecordedRun, data: bytes | None = None) -> LocalChannel:
    return LocalChannel(CachedProver(run) if data is None else Telling(run, data))


@pytest.mark.parametrize("name", DATA)
def test_hostile_data_at_the_referee(name: str) -> None:
    """If a party sends a program that exceeds the limits, the other party's program is used. A party that sends bytes
    that are not a program loses."""
    verdict = dispute(local(CHEAT, DATA[name]), local(honest()))
    is_none = name in hostile.NOT_STORED
    assert (verdict.outcome, verdict.wrong) == ("conduct" if is_none else "operator", ("A",)), verdict
    assert not is_none or verdict.reasons == {"A": "expected a valid program"}
    # The referee requests B's program only if A's cannot be read.
    assert dispute(local(honest()), local(CHEAT, DATA[name])).outcome == "operator"
    if is_none:
        return
    with pytest.raises(ReproError, match="the program could not be read: "):
        dispute(local(CHEAT, DATA[name]), local(honest(), DATA[name]))


def test_a_program_that_is_not_base64() -> None:
    class Scribbling(CachedProver):
        def reply(self, question: Message) -> Message:
            answer = super().reply(question)
            return {"data": "*" + answer["data"][1:]} if question["ask"] == "program" else answer

    verdict = dispute(LocalChannel(Scribbling(CHEAT)), local(honest()))
    assert (verdict.outcome, verdict.reasons) == ("conduct", {"A": "the program: expected base64"})


def _longer() -> bytes:
    """Returns the graph's program with a source location of 50,000 characters, so that it exceeds LIMITS."""
    text, count = re.subn(r"#loc1 = loc\(.*\)", f'#loc1 = loc("{"x" * 50_000}")', graph().program.text)
    assert count == 1
    return to_bytes(text)


def test_a_program_of_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A party that encodes the same program so that the encoding exceeds the limits neither loses nor wins by this."""
    monkeypatch.setenv("REPRO_MLIR_LIMITS", LIMITS)
    assert len(graph().program.data) < 20_000
    long = _longer()
    verdict = dispute(local(honest(), long), local(CHEAT))
    assert (verdict.outcome, verdict.wrong) == ("operator", ("B",))
    verdict = dispute(local(CHEAT, long), local(honest()))
    assert (verdict.outcome, verdict.wrong) == ("operator", ("A",))
    with pytest.raises(ReproError, match=r"A's program: an answer of .* expected at most .*REPRO_MLIR_LIMITS"):
        dispute(local(honest(), long), local(CHEAT, long))
    monkeypatch.setenv("REPRO_MLIR_LIMITS", f"text_bytes={len(long)}")
    assert dispute(local(honest(), long), local(CHEAT, long)).wrong == ("B",)


def served(prover: CachedProver) -> SocketChannel:
    """Returns a channel to a thread in which the prover answers questions over a socket."""
    ours, theirs = socket.socketpair()

    def answer() -> None:
        with theirs:
            link = connection.accept(theirs, NO_TOKEN, time.monotonic() + 60, lambda: None)
            try:
                while True:
                    link.send(prover.answer(link.receive(1 << 20, time.monotonic() + 60)), time.monotonic() + 60)
            except EOFError:
                pass

    threading.Thread(target=answer, daemon=True).start()
    return SocketChannel(connection.connect(ours, NO_TOKEN, time.monotonic() + 60))


def test_the_conversation_goes_on_after_a_long_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_MLIR_LIMITS", LIMITS)
    long = _longer()
    for first, second, wrong in ((honest(), CHEAT, "B"), (CHEAT, honest(), "A")):
        verdict = dispute(served(Telling(first, long)), served(CachedProver(second)))
        assert (verdict.outcome, verdict.wrong) == ("operator", (wrong,)), verdict


QUESTIONS: dict[str, Callable[[str], Message]] = {
    "as the question": lambda text: {"ask": text},
    "as a record": lambda text: {"ask": "record", "record": text},
    "as a field": lambda text: {"ask": "opening", text: 1},
    "as an answer": lambda text: {"text": text},
}


@pytest.mark.parametrize("form", QUESTIONS)
def test_hostile_text_at_the_prover(form: str) -> None:
    for text in TEXTS:
        start = time.monotonic()
        question = canonical_json.dump(QUESTIONS[form](text))
        answer = json.loads(CachedProver(honest()).answer(question))
        assert list(answer) == ["error"] and len(answer["error"]) <= 300 and answer["error"].isascii()
        assert time.monotonic() - start < 5
