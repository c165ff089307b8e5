# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A cheating party for tests: it answers questions about a run that may be wrong, and changes one of its answers."""

from __future__ import annotations

import base64
import copy
import dataclasses
import functools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from repro_mlir.base.numerics.hashing import tensor_digest
from repro_mlir.program import read_signature
from repro_mlir.program.canonical import to_bytes
from repro_mlir.verification.dispute import LocalChannel, RecordedRun, Verdict, settle
from repro_mlir.verification.dispute.channels import Silence
from repro_mlir.verification.dispute.messages import Message
from repro_mlir.verification.dispute.terms import Due, Terms
from repro_mlir.verification.operators import OperatorGraph
from repro_mlir.verification.receipts.commitments import Commitment
from support.builder import Builder
from support.dispute_runs import CachedProver, faulty, run

STEPS, STEP = 6, 4


@functools.cache
def graph() -> OperatorGraph:
    """Returns a small step whose operators work on floats, booleans, scalars and constants."""
    b = Builder()
    state, rate, batch = b.argument((3,), "f32"), b.argument((), "f32"), b.argument((3,), "f32")
    scalar = b.extract(rate)
    doubled = b.op(f"arith.addf {scalar.name}, {scalar.name} : f32", None, "f32")
    wide = b.splat(doubled, (3,))
    zero = b.constant("dense<0.0>", (3,), "f32")
    sign = b.elementwise("%r0 = arith.cmpf olt, %x0, %x1 : f32", batch, zero, element="i1")
    step = b.elementwise("%r0 = arith.mulf %x0, %x1 : f32", wide, batch, element="f32")
    body = "%s = arith.addf %x0, %x1 : f32\n    %r0 = arith.select %x2, %s, %x0 : f32"
    new = b.elementwise(body, state, step, sign, element="f32")
    program = read_signature(to_bytes(b.program(new, step, states=1)))
    return OperatorGraph(dataclasses.replace(program, initial=(np.array([1, -1, np.nan], np.float32),)))


@functools.cache
def honest() -> RecordedRun:
    draw = np.random.default_rng(1)
    given = [[np.array(0.5, np.float32), draw.standard_normal(3, np.float32)] for _ in range(STEPS)]
    return run(graph(), given)


@functools.cache
def cheat(index: int, bit: int) -> RecordedRun:
    """Returns a run with one wrong bit, in the result of operator `index` at step `STEP`."""
    return faulty(graph(), honest().inputs, STEP, index, bit)


@functools.cache
def cheats() -> tuple[RecordedRun, ...]:
    """Returns runs with one wrong bit each: bit 0 or bit 20 of the result of an operator other than
    tensor.empty. Leaves out runs whose links are those of the honest run."""
    computing = [o.index for o in graph().operators if o.outputs and o.name != "tensor.empty"]
    runs = (cheat(index, bit) for index in computing for bit in (0, 20))
    return tuple(each for each in runs if each.links != honest().links)


def terms() -> Terms:
    """Returns the terms on which the parties agreed before the run: its header, and the program and inputs of each
    step."""

    def due(record: int, claim: Commitment) -> Due | None:
        cursor = claim.cursor
        if not 1 <= cursor <= STEPS:
            return None
        given = zip(graph().program.inputs, honest().inputs[cursor - 1], strict=True)
        inputs = tuple(tensor_digest(array, kind.element) for kind, array in given)
        return Due(inputs, honest().commitment(1).program, signature=honest().commitment(1).signature)

    return Terms(json.loads(honest().header), due, STEPS)


# --- Changes ---

Change = Callable[["Adversary", bytes, int], bytes | None]
"""Changes an answer, given the party and the answer's limit in bytes; None stands for silence."""


class Adversary(LocalChannel):
    """A party that applies `change` to its answer with the number `at`, counted from 0."""

    def __init__(self, run: RecordedRun, at: int, change: Change, draw: random.Random) -> None:
        super().__init__(CachedProver(run))
        self.run, self.draw = run, draw
        self.said: list[bytes] = []
        self.question: Message = {}
        self.changed = False
        self._at, self._change = at, change

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        answer = super().exchange(question, limit, timeout)
        self.question = json.loads(question)
        if len(self.said) == self._at:
            other = self._change(self, answer, limit)
            if other is None:
                raise Silence(f"no answer within {timeout:g} s")
            self.changed = other != answer
            if len(other) > limit:
                # The transports limit the length of an answer in the same way.
                raise Silence(f"an answer of {len(other)} bytes, expected at most {limit}")
            answer = other
        self.said.append(answer)
        return answer


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields each container in a JSON value with each of its keys or indices, at all depths."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _elsewhere(change: Callable[[Any, random.Random], Any]) -> Change:
    """Returns a change of an answer that applies `change` to one value anywhere in the answer's JSON."""

    def changed(party: Adversary, answer: bytes, limit: int) -> bytes:
        value = json.loads(answer)
        container, key = party.draw.choice(list(_places(value)))
        container[key] = change(container[key], party.draw)
        return _dump(value)

    return changed


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


OTHER_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**53 - 1, 2**53, 2**63, 2**64, 10**300, 1.0, 0.5, -0.0),
    *(float("nan"), float("inf"), "", "0", "00" * 32, "FF" * 32, "0" * 63, "g" * 64, "ab" * 33, "\u00fc", "u\u0308"),
    *("\ud800", "\x00", "\x1b[2J", "\u202e", [], {}, [[]], [None], {"a": {}}, {"error": "no"}, "é" * 5000, _nested(40)),
)


def _other_hash(value: Any, draw: random.Random) -> Any:
    if isinstance(value, str) and value:
        at = draw.randrange(len(value))
        return value[:at] + draw.choice("0123456789abcdefABg=+/ ") + value[at + 1 :]
    return "12" * 32


def _other_number(value: Any, draw: random.Random) -> Any:
    return value + draw.choice((-1, 1, 2, 1000)) if isinstance(value, int) else draw.randrange(2**60)


def _other_length(value: Any, draw: random.Random) -> Any:
    if isinstance(value, str | list):
        return draw.choice((value + value, value[:-1], value[1:], value + value[:1]))
    return value


def _other_order(value: Any, draw: random.Random) -> Any:
    return value[::-1] if isinstance(value, list | str) else [value]


def _without_a_field(party: Adversary, answer: bytes, limit: int) -> bytes:
    value = json.loads(answer)
    fields = [(container, key) for container, key in _places(value) if isinstance(container, dict)]
    container, key = party.draw.choice(fields)
    del container[key]
    return _dump(value)


def _with_a_field(party: Adversary, answer: bytes, limit: int) -> bytes:
    value = json.loads(answer)
    inner = [value, *(c[k] for c, k in _places(value) if isinstance(c[k], dict))]
    name = party.draw.choice(
        ("", "more", "Link", "link ", "__class__", "größe", "a" * 100, "\x1b[1A", "protocol", "error")
    )
    party.draw.choice(inner)[name] = party.draw.choice((None, 1, "0" * 64, []))
    return _dump(value)


def _other_form(party: Adversary, answer: bytes, limit: int) -> bytes:
    """Returns the answer's JSON value in a form that is not canonical."""
    value = json.loads(answer)
    first = next(iter(value))
    pair = f"{json.dumps(first)}:{json.dumps(value[first])}"
    reverse = dict(reversed(value.items()))
    escaped = answer.replace(b'"', b'"\\u00', 1).replace(b"\\u00", f"\\u{ord(first[0]):04x}".encode(), 1)
    forms = (
        answer + b" ",
        b" " + answer,
        answer + b"\n",
        answer.replace(b":", b": ", 1),
        b"\xef\xbb\xbf" + answer,
        answer.decode().encode("utf-16"),
        b"{" + pair.encode() + b"," + answer[1:],
        json.dumps(reverse, separators=(",", ":")).encode() if len(value) > 1 else answer + b"\t",
        escaped.replace(first[0].encode(), b"", 1),
        answer + b"\0",
        answer + answer,
        b"[" + answer + b"]",
    )
    return party.draw.choice(forms)


def _bits(party: Adversary, answer: bytes, limit: int) -> bytes:
    changed = bytearray(answer)
    for _ in range(party.draw.choice((1, 1, 2, 8))):
        changed[party.draw.randrange(len(changed))] ^= 1 << party.draw.randrange(8)
    return bytes(changed)


def _cut(party: Adversary, answer: bytes, limit: int) -> bytes:
    return answer[: party.draw.randrange(len(answer))]


def _noise(party: Adversary, answer: bytes, limit: int) -> bytes:
    sizes = (1, 2, 40, 3000)
    noise = (
        party.draw.randbytes(party.draw.choice(sizes)),
        b"[" * 60_000,
        b'{"a":' * 60_000,
        b"9" * 5000,
        b'"' * party.draw.choice(sizes),
        b"\\" * party.draw.choice(sizes),
        b"null",
        b"NaN",
        b"{}",
    )
    return party.draw.choice(noise)


def _too_long(party: Adversary, answer: bytes, limit: int) -> bytes:
    return answer.ljust(limit + party.draw.choice((0, 1, 100)))


def _replay(party: Adversary, answer: bytes, limit: int) -> bytes:
    return party.draw.choice(party.said) if party.said else b"{}"


def _answer_to_another_question(party: Adversary, answer: bytes, limit: int) -> bytes:
    """Returns the answer to a question of the same type about another step, operator, node or tensor."""
    question = copy.copy(party.question)
    for key, value in question.items():
        if isinstance(value, int) and not isinstance(value, bool):
            question[key] = party.draw.randrange(8)
        if key == "role":
            question[key] = party.draw.choice(("input", "output"))
        if key == "indices":
            question[key] = [party.draw.randrange(len(graph().operators)) for _ in value]
    return CachedProver(party.run).answer(_dump(question))


def _answer_of_another_run(party: Adversary, answer: bytes, limit: int) -> bytes:
    """Returns the answer that another cheating run would give."""
    return CachedProver(party.draw.choice(cheats())).answer(_dump(party.question))


def _refusal(party: Adversary, answer: bytes, limit: int) -> bytes:
    return _dump({"error": party.draw.choice(("no", "", "\x1b[2Jwrong    A", "x" * 3000, 5, None, {"error": "no"}))})


def _silence(party: Adversary, answer: bytes, limit: int) -> None:
    return None


def _other_elements(party: Adversary, answer: bytes, limit: int) -> bytes:
    """Changes the data of a tensor to invalid data: a NaN with a payload, booleans above 1, a wrong number of bytes, or
    invalid base64. Flips bits of an answer that contains no data."""
    value = json.loads(answer)
    if "data" not in value:
        return _bits(party, answer, limit)
    data = bytearray(base64.b64decode(value["data"]))
    kind = party.draw.randrange(5)
    if kind == 0:
        data[:4] = b"\x01\x00\xc0\x7f"
    elif kind == 1:
        data = bytearray(2 if byte else 0 for byte in data)
    elif kind == 2:
        data += b"\0"
    elif kind == 3:
        del data[-1:]
    text = base64.b64encode(data).decode()
    return _dump({"data": text if kind < 4 else party.draw.choice((text + "=", text + "\n", text[:-1], "%" + text))})


CHANGES: tuple[Change, ...] = (
    _elsewhere(lambda value, draw: draw.choice(OTHER_VALUES)),
    _elsewhere(_other_hash),
    _elsewhere(_other_number),
    _elsewhere(_other_length),
    _elsewhere(_other_order),
    *(_without_a_field, _with_a_field, _other_form, _bits, _cut, _noise, _too_long, _replay),
    *(_answer_to_another_question, _answer_of_another_run, _refusal, _silence, _other_elements),
)


@dataclasses.dataclass(frozen=True)
class Attempt:
    """A dispute between an adversary and an honest party.

    Attributes:
      name: the side of the adversary, "A" or "B".
      lies: whether the adversary's run contains a wrong operator.
      agreed: whether the referee knew the terms of the run.
      changed: whether the adversary changed an answer.
    """

    verdict: Verdict
    name: str
    lies: bool
    agreed: bool
    changed: bool


def attempt(seed: int) -> Attempt:
    """Runs a dispute between an adversary and an honest party, in which the seed determines all choices."""
    draw = random.Random(seed)
    lies = draw.random() < 0.8
    party = Adversary(
        draw.choice(cheats()) if lies else honest(), draw.randrange(12), CHANGES[seed % len(CHANGES)], draw
    )
    other = LocalChannel(CachedProver(honest()))
    name = draw.choice("AB")
    sides = (party, other) if name == "A" else (other, party)
    agreed = draw.random() < 0.7
    verdict = settle(*sides, terms=terms() if agreed else None)
    return Attempt(verdict, name, lies, agreed, party.changed)
