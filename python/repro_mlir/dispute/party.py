# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A prover as its referee sees it: each answer is checked for its form and against what was said before."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import check_canonical, from_bytes
from ..errors import ReproError
from ..operators import OperatorGraph, Value
from ..operators.commitments import OperatorClaim
from ..operators.tracing import value_hash
from ..program import Program, program_hash
from ..receipts import merkle
from ..receipts.commitments import Commitment, first_link, next_link
from ..untrusted import NoProgram, admit
from .channels import Channel, Silence, encode
from .prover import PROTOCOL
from .verdict import Traffic

_SHORT = 1 << 12
_DIGEST_TEXT = 70
"""Bytes that a digest takes in a message, with quotes and comma."""

_MAX_HEADER = 1 << 24
_MAX_DEPTH = 32
_MAX_PROGRAM = 1 << 30

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Fault(Exception):
    """A party that has lost by how it behaved: no answer, no sense, or another story. The text is the reason."""


@dataclass(frozen=True)
class Opening:
    """What a party says that it ran.

    Attributes:
      header: the fields of the header.
      link0: the link that follows from the header.
      steps: how many steps.
      link: the link after the last.
    """

    header: dict[str, Any]
    link0: bytes
    steps: int
    link: bytes


@dataclass(frozen=True)
class Published:
    """What a party made known of its run before the dispute: link 0, the number of steps and the last link."""

    link0: bytes
    steps: int
    link: bytes


class Party:
    """One side of a dispute, by name."""

    def __init__(self, name: str, channel: Channel, timeout: float, published: Published | None = None) -> None:
        """`timeout` is in seconds, for each answer."""
        self._published = published
        self.name = name
        self.traffic = Traffic()
        self._channel = channel
        self._timeout = timeout

    def close(self) -> None:
        """Ends the conversation."""
        self._channel.close()

    # --- What was run ---

    def opening(self) -> Opening:
        """Header, number of steps and last link."""
        answer = self._ask({"ask": "opening"}, _MAX_HEADER)
        if answer.get("protocol") != PROTOCOL:
            raise Fault(f"protocol {answer.get('protocol')!r}, expected {PROTOCOL}")
        text = _text(answer, "header")
        try:
            header = json.loads(text)
            content = text.encode("ascii")
        except (ValueError, RecursionError):
            raise Fault("a header that is no JSON in ASCII") from None
        if not isinstance(header, dict) or _depth(header) > _MAX_DEPTH:
            raise Fault(f"a header that is no JSON object of at most {_MAX_DEPTH} levels")
        steps = _number(answer, "steps")
        link0, link = first_link(content), _digest(answer, "link")
        if steps == 0 and link != link0:
            raise Fault("a link of no steps that does not follow from its header")
        if self._published is not None and self._published != Published(link0, steps, link):
            raise Fault("another run than the one that it published")
        return Opening(header, link0, steps, link)

    def program(self, identity: str) -> str:
        """The text of the program with this identity (H2), as `untrusted.admit` gives it.

        ReproError for text that may be the program, but takes too much to be read.
        """
        before = self.traffic.received
        text = _text(self._ask({"ask": "program"}, _MAX_PROGRAM), "text")
        self.traffic.program += self.traffic.received - before
        try:
            text = admit(text.encode())
        except (NoProgram, UnicodeEncodeError):
            raise Fault("a program that is none") from None
        found = program_hash(text)
        if found != identity:
            raise Fault(f"a program with the identity {found}, its header says {identity}")
        return text

    def link(self, step: int) -> bytes:
        """The link after a step."""
        return _digest(self._ask({"ask": "link", "step": step}, _SHORT), "link")

    def step(self, step: int, link: bytes, program: Program, initial: bytes) -> Commitment:
        """The commitment of a step, which `link` follows from; of step 0 the root must be `initial`."""
        counts = {
            "state": len(program.state),
            "inputs": len(program.inputs) if step else 0,
            "outputs": len(program.outputs) if step else 0,
        }
        answer = self._ask({"ask": "step", "step": step}, _SHORT + _DIGEST_TEXT * sum(counts.values()))
        found = {role: _digests(answer, role, count) for role, count in counts.items()}
        commitment = Commitment(_number(answer, "cursor"), found["state"], found["inputs"], found["outputs"])
        if step == 0:
            if commitment.root != initial:
                raise Fault("an initial state that is not the one of its header")
        elif next_link(_digest(answer, "before"), step, commitment.root) != link:
            raise Fault(f"a commitment of step {step} that its chain does not hold")
        return commitment

    # --- The operators of a step ---

    def operators(self, step: int) -> bytes:
        """The node at the top of the tree over the operators of a step."""
        return _digest(self._ask({"ask": "operators", "step": step}, _SHORT), "top")

    def nodes(self, step: int, level: int, index: int, node: bytes) -> tuple[bytes, bytes]:
        """The two nodes under a node of that tree."""
        answer = self._ask({"ask": "nodes", "step": step, "level": level, "index": index}, _SHORT)
        left, right = _digest(answer, "left"), _digest(answer, "right")
        if merkle.node(left, right) != node:
            raise Fault(f"nodes that are not below node {index} of level {level} of the operators of step {step}")
        return left, right

    def operator(self, step: int, graph: OperatorGraph, index: int, leaf: bytes) -> OperatorClaim:
        """What stands behind a leaf."""
        operator = graph.operators[index]
        counts = len(operator.inputs), len(operator.outputs)
        answer = self._ask({"ask": "operator", "step": step, "index": index}, _SHORT + _DIGEST_TEXT * sum(counts))
        claim = OperatorClaim(_digests(answer, "inputs", counts[0]), _digests(answer, "outputs", counts[1]))
        if claim.leaf(bytes.fromhex(graph.program.hash), index) != leaf:
            raise Fault(f"{operator} of step {step}: another claim than the one that it is committed to")
        return claim

    def producers(self, step: int, graph: OperatorGraph, indices: Sequence[int], top: bytes) -> list[OperatorClaim]:
        """The claims of several operators, each proved to be in the tree under `top`."""
        if not indices:
            return []
        count = len(graph.operators)
        operators = [graph.operators[index] for index in indices]
        digests = sum(len(o.inputs) + len(o.outputs) + count.bit_length() for o in operators)
        question = {"ask": "producers", "step": step, "indices": list(indices)}
        given = self._ask(question, _SHORT * (1 + len(indices)) + _DIGEST_TEXT * digests).get("claims")
        if not isinstance(given, list) or len(given) != len(indices):
            raise Fault(f"expected the claims of {len(indices)} operators")
        claims = []
        for operator, entry in zip(operators, given, strict=True):
            if not isinstance(entry, dict):
                raise Fault("a claim that is no JSON object")
            inputs = _digests(entry, "inputs", len(operator.inputs))
            claim = OperatorClaim(inputs, _digests(entry, "outputs", len(operator.outputs)))
            leaf = claim.leaf(bytes.fromhex(graph.program.hash), operator.index)
            path = _digests(entry, "path", None)
            if not merkle.proves(path, leaf, operator.index, count, merkle.seal(count, top)):
                raise Fault(f"{operator} of step {step}: a claim that its tree does not hold")
            claims.append(claim)
        return claims

    def tensor(self, step: int, index: int, role: str, position: int, value: Value, digest: bytes) -> np.ndarray:
        """The elements of an input or output of an operator, which has this hash."""
        kind = value.kind
        size = int(np.prod(kind.shape, dtype=np.int64)) * kind.dtype.itemsize
        question = {"ask": "tensor", "step": step, "index": index, "role": role, "position": position}
        before = self.traffic.received
        text = _text(self._ask(question, _SHORT + (size + 2) // 3 * 4), "data")
        self.traffic.tensors += self.traffic.received - before
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise Fault(f"{role} {position} of operator {index}: expected base64") from None
        if len(data) != size:
            raise Fault(f"{role} {position} of operator {index}: {len(data)} bytes, expected {size}")
        array = from_bytes(data, kind).copy()
        try:
            check_canonical(array, kind, f"{role} {position} of operator {index}")
        except ReproError as error:
            raise Fault(str(error)) from None
        if value_hash(value, array) != digest:
            raise Fault(f"{role} {position} of operator {index}: elements that have not the hash it is committed to")
        return array

    def _ask(self, question: dict[str, Any], limit: int) -> dict[str, Any]:
        asked = encode(question)
        self.traffic.questions += 1
        self.traffic.sent += len(asked)
        try:
            data = self._channel.exchange(asked, limit, self._timeout)
        except Silence as error:
            raise Fault(f"question {question['ask']!r}: {error}") from None
        self.traffic.received += len(data)
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            raise Fault(f"question {question['ask']!r}: an answer that is no JSON") from None
        if not isinstance(answer, dict):
            raise Fault(f"question {question['ask']!r}: an answer that is no JSON object")
        if "error" in answer:
            raise Fault(f"question {question['ask']!r}: refused: {str(answer['error'])[:200]}")
        return answer


def _text(answer: dict[str, Any], name: str) -> str:
    value = answer.get(name)
    if not isinstance(value, str):
        raise Fault(f"expected text as {name!r}")
    return value


def _number(answer: dict[str, Any], name: str) -> int:
    value = answer.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise Fault(f"expected a whole number as {name!r}")
    return value


def _digest(answer: dict[str, Any], name: str) -> bytes:
    return _digest_of(answer.get(name), name)


def _digests(answer: dict[str, Any], name: str, count: int | None) -> tuple[bytes, ...]:
    values = answer.get(name)
    if not isinstance(values, list) or (count is not None and len(values) != count):
        raise Fault(f"expected {'a list of' if count is None else count} hashes as {name!r}")
    return tuple(_digest_of(value, name) for value in values)


def _digest_of(value: object, name: str) -> bytes:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise Fault(f"expected a hash of 64 hexadecimal digits as {name!r}")
    return bytes.fromhex(value)


def _depth(value: object) -> int:
    """How deeply lists and objects are nested."""
    level, depth = [value], 0
    while level := [v for v in level if isinstance(v, dict | list)]:
        level = [inner for v in level for inner in (v.values() if isinstance(v, dict) else v)]
        depth += 1
    return depth
