# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The referee's view of a prover: each answer is checked for its format and against the prover's earlier answers."""

from __future__ import annotations

import base64
import binascii
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import canonical_json
from repro_mlir.base.limits import VARIABLE
from repro_mlir.base.numerics.tensors import TensorType, check_canonical, from_bytes
from repro_mlir.program import read_signature
from repro_mlir.program.microbatches import (
    MicrobatchError,
    StepProgram,
    is_microbatch_data,
    programs_of,
    read_microbatches,
)
from repro_mlir.sandbox import NoProgram, admit
from repro_mlir.verification import merkle
from repro_mlir.verification.dispute import quotas
from repro_mlir.verification.dispute.channels import AnswerTooLong, Channel, Silence
from repro_mlir.verification.dispute.messages import PROTOCOL, Message, NoMessage, Refusal, decode_answer, encode
from repro_mlir.verification.dispute.verdict import Traffic
from repro_mlir.verification.operators import OperatorGraph, Value
from repro_mlir.verification.operators.commitments import OperatorClaim
from repro_mlir.verification.operators.tracing import value_hash
from repro_mlir.verification.receipts.commitments import Commitment, first_link, next_link
from repro_mlir.verification.receipts.form import committed_microbatches, tensors_from_json

_SHORT = 1 << 12
_DIGEST_TEXT = 70
"""The number of bytes of a digest in a message, with quotes and comma."""

_T = TypeVar("_T")
_P = ParamSpec("_P")


class Misconduct(Exception):
    """Raised if a party loses by its conduct: silence, malformed answers or contradictions. The text is the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason[: quotas.REASON_CHARACTERS])


def _judges(method: Callable[Concatenate[Party, _P], _T]) -> Callable[Concatenate[Party, _P], _T]:
    """Decorates a method that asks the party a question: turns an unexpected exception, which is a fault of the
    referee, into a ReproError that names the party whose answer caused it."""

    @functools.wraps(method)
    def ask(party: Party, *arguments: _P.args, **named: _P.kwargs) -> _T:
        try:
            return method(party, *arguments, **named)
        except (Misconduct, ReproError):
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"[: quotas.REASON_CHARACTERS]
            raise ReproError(f"no verdict: cannot judge {party.name}'s answer ({method.__name__}: {reason})") from error

    return ask


@dataclass(frozen=True)
class Opening:
    """A party's claim about what it ran.

    Attributes:
      header: the fields of the header.
      state: the state tensors that the header names.
      link0: the link that follows from the header.
      records: the number of records.
      steps: the number of records that are steps.
      link: the link after the last record.
    """

    header: dict[str, Any]
    state: tuple[TensorType, ...]
    link0: bytes
    records: int
    steps: int
    link: bytes


@dataclass(frozen=True)
class Published:
    """The facts that a party published about its run before the dispute: link 0, number of records and last link."""

    link0: bytes
    records: int
    link: bytes


class Party:
    """One side of a dispute.

    Each method that asks a question raises Misconduct if the answer shows that the party is wrong, and ReproError if
    the referee cannot judge the answer.
    """

    def __init__(
        self,
        name: str,
        channel: Channel,
        timeout: float = quotas.ANSWER_SECONDS,
        total: float = quotas.TOTAL_SECONDS,
        published: Published | None = None,
    ) -> None:
        """
        Args:
          timeout: the seconds allowed for each answer.
          total: the seconds allowed for all answers together.
          published: what the party published about its run before the dispute, with which its answers are compared;
            None to omit this comparison.
        """
        self._published = published
        self.name = name
        self.traffic = Traffic()
        self._channel = channel
        self._timeout = timeout
        self._left = total

    def close(self) -> None:
        """Closes the channel."""
        self._channel.close()

    # --- The run ---

    @_judges
    def opening(self) -> Opening:
        """Requests the header, the numbers of records and steps, and the last link."""
        answer = self._ask({"ask": "opening"}, _SHORT + quotas.HEADER_BYTES)
        if answer["protocol"] != PROTOCOL:
            raise Misconduct(f"expected protocol {PROTOCOL}, got {answer['protocol']}")
        header, records, link = answer["header"], answer["records"], bytes.fromhex(answer["link"])
        try:
            state = tensors_from_json(header["state"], "header.state")
        except ReproError as error:
            raise Misconduct(f"a header with an invalid state: {error}") from None
        # The message is canonical JSON, so the bytes of the header within it are canonical too.
        link0 = first_link(canonical_json.dump(header))
        if records == 0 and link != link0:
            raise Misconduct("a link without records that does not follow from the header")
        if answer["steps"] > records:
            raise Misconduct(f"expected at most {records} steps, one for each record, got {answer['steps']}")
        if self._published is not None and self._published != Published(link0, records, link):
            raise Misconduct("expected the run that the party published, got another one")
        return Opening(header, state, link0, records, answer["steps"], link)

    @_judges
    def program(self, identity: str) -> StepProgram:
        """Requests the program with this identity, (H2) or (B4), without an initial state.

        Raises ReproError for data that may be the program but is too expensive to read.
        """
        before = self.traffic.received
        try:
            text = self._ask({"ask": "program", "identity": identity}, _SHORT + quotas.program_bytes())["data"]
        except AnswerTooLong as error:
            message = f"{self.name}'s program: {error} (see {VARIABLE} in docs/verification/security.md)"
            raise ReproError(message) from None
        self.traffic.program += self.traffic.received - before
        return _admitted(_decoded(text, "the program"), identity)

    @_judges
    def link(self, record: int) -> bytes:
        """Requests the link after a record."""
        return bytes.fromhex(self._ask({"ask": "link", "record": record}, _SHORT)["link"])

    @_judges
    def record(self, record: int, link: bytes, opening: Opening, before: bytes | None = None) -> Commitment:
        """Requests the commitment of a record, and checks that `link` follows from it.

        Args:
          opening: the party's opening; record 0 must be the initial state of its header.
          before: the link before the record, if the party has already stated it.
        """
        size = _DIGEST_TEXT * len(opening.state) + (quotas.RECORD_BYTES if record else 0)
        answer = self._ask({"ask": "record", "record": record}, _SHORT + size)
        state = _digests(answer, "state", len(opening.state))
        named = [name in answer for name in ("program", "signature")]
        if ("steps" in answer) != (record > 0) or named[0] != named[1] or (named[0] and record == 0):
            raise Misconduct("expected steps, program and signature of each step")
        steps, program = answer.get("steps"), answer.get("program")
        commitment = Commitment(
            answer["cursor"],
            state,
            _digests(answer, "inputs"),
            _digests(answer, "outputs"),
            steps,
            None if program is None else bytes.fromhex(program),
            None if program is None else bytes.fromhex(answer["signature"]),
            _digests(answer, "microbatches") if "microbatches" in answer else (),
        )
        if "microbatches" in answer and (program is None or not commitment.microbatches):
            raise Misconduct("unexpected hashes of microbatches")
        if program is None and (commitment.inputs or commitment.outputs):
            raise Misconduct("expected no inputs and outputs for a state that the user gave")
        if ("before" in answer) != (record > 0):
            raise Misconduct("expected a link before each record but record 0")
        if record == 0:
            if commitment.root.hex() != opening.header["initial"]:
                raise Misconduct("expected the initial state of the header, got another one")
            return commitment
        said = bytes.fromhex(answer["before"])
        if next_link(said, record, commitment.root) != link:
            raise Misconduct(f"the commitment of record {record} is not in the chain")
        if before not in (None, said):
            raise Misconduct(f"the link before record {record} is not the one given for record {record - 1}")
        return commitment

    @_judges
    def check_steps(self, opening: Opening) -> None:
        """Checks that the number of steps in the last record is that of the party's opening."""
        if opening.records:
            counted = self.record(opening.records, opening.link, opening).steps
            if counted != opening.steps:
                raise Misconduct(f"expected {opening.steps} steps in the last record, as in the opening, got {counted}")

    @_judges
    def check_tensors(self, opening: Opening, step: int, claim: Commitment, program: StepProgram) -> None:
        """Checks that a step's commitment has the number of hashes that the step's program requires."""
        due = committed_microbatches(opening.header.get("microbatches_every"), step, program)
        if len(claim.microbatches) != due:
            raise Misconduct(f"expected the hashes of {due} microbatches, got {len(claim.microbatches)}")
        for role in ("state", "inputs", "outputs"):
            given, due = len(getattr(claim, role)), len(getattr(program, role))
            if given != due:
                raise Misconduct(f"expected {due} hashes as {role!r}, got {given}")

    # --- The operators of a step ---

    @_judges
    def operators(self, record: int) -> bytes:
        """Requests the top node of the Merkle tree over the operators of a step."""
        return bytes.fromhex(self._ask({"ask": "operators", "record": record}, _SHORT)["top"])

    @_judges
    def nodes(self, record: int, level: int, index: int, node: bytes) -> tuple[bytes, bytes]:
        """Requests the two children of a node of the Merkle tree over the operators of a step."""
        answer = self._ask({"ask": "nodes", "record": record, "level": level, "index": index}, _SHORT)
        left, right = bytes.fromhex(answer["left"]), bytes.fromhex(answer["right"])
        if merkle.node(left, right) != node:
            raise Misconduct(
                f"expected the two nodes below node {index} of level {level} of the operators "
                f"of record {record}, got others"
            )
        return left, right

    @_judges
    def operator(self, record: int, graph: OperatorGraph, index: int, leaf: bytes) -> OperatorClaim:
        """Requests the claim about an operator. The hash of the claim must be `leaf`."""
        operator = graph.operators[index]
        counts = len(operator.inputs), len(operator.outputs)
        answer = self._ask({"ask": "operator", "record": record, "index": index}, _SHORT + _DIGEST_TEXT * sum(counts))
        claim = OperatorClaim(_digests(answer, "inputs", counts[0]), _digests(answer, "outputs", counts[1]))
        if claim.leaf(bytes.fromhex(graph.step.hash), index) != leaf:
            raise Misconduct(f"{operator} of record {record}: the claim does not match the commitment")
        return claim

    @_judges
    def producers(self, record: int, graph: OperatorGraph, indices: Sequence[int], top: bytes) -> list[OperatorClaim]:
        """Requests the claims of several operators, each with a proof that it is in the tree under `top`."""
        if not indices:
            return []
        count = len(graph.operators)
        operators = [graph.operators[index] for index in indices]
        digests = sum(len(o.inputs) + len(o.outputs) + count.bit_length() for o in operators)
        question = {"ask": "producers", "record": record, "indices": list(indices)}
        given = self._ask(question, _SHORT * (1 + len(indices)) + _DIGEST_TEXT * digests)["claims"]
        if len(given) != len(indices):
            raise Misconduct(f"expected the claims of {len(indices)} operators, got {len(given)}")
        claims = []
        for operator, entry in zip(operators, given, strict=True):
            inputs = _digests(entry, "inputs", len(operator.inputs))
            claim = OperatorClaim(inputs, _digests(entry, "outputs", len(operator.outputs)))
            leaf = claim.leaf(bytes.fromhex(graph.step.hash), operator.index)
            path = _digests(entry, "path")
            if not merkle.proves(path, leaf, operator.index, count, merkle.seal(count, top)):
                raise Misconduct(f"{operator} of record {record}: the claim is not in the tree")
            claims.append(claim)
        return claims

    @_judges
    def tensor(self, record: int, index: int, role: str, position: int, value: Value, digest: bytes) -> np.ndarray:
        """Requests the elements of an operator's input or output. The hash of this tensor must be `digest`."""
        kind = value.kind
        size = kind.nbytes
        question = {"ask": "tensor", "record": record, "index": index, "role": role, "position": position}
        before = self.traffic.received
        text = self._ask(question, _SHORT + quotas.base64_bytes(size))["data"]
        self.traffic.tensors += self.traffic.received - before
        data = _decoded(text, f"{role} {position} of operator {index}")
        if len(data) != size:
            raise Misconduct(f"{role} {position} of operator {index}: expected {size:,} bytes, got {len(data):,}")
        array = from_bytes(data, kind).copy()
        try:
            check_canonical(array, kind, f"{role} {position} of operator {index}")
        except ReproError as error:
            raise Misconduct(str(error)) from None
        if value_hash(value, array) != digest:
            raise Misconduct(f"{role} {position} of operator {index}: the elements do not have the committed hash")
        return array

    def _ask(self, question: Message, limit: int) -> dict[str, Any]:
        ask = question["ask"]
        asked = encode(question)
        self.traffic.questions += 1
        self.traffic.sent += len(asked)
        begin = time.monotonic()
        try:
            data = self._channel.exchange(asked, limit, min(self._timeout, max(self._left, 0.0)))
        except Silence as error:
            if ask == "program" and isinstance(error, AnswerTooLong):
                raise
            raise Misconduct(f"question {ask!r}: {error}") from None
        finally:
            self._left -= time.monotonic() - begin
        self.traffic.received += len(data)
        try:
            return decode_answer(data, ask, limit)
        except Refusal as error:
            raise Misconduct(f"question {ask!r}: refused: {error}") from None
        except NoMessage as error:
            raise Misconduct(f"question {ask!r}: {error}") from None


def _decoded(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Misconduct(f"{what}: expected base64") from None


def _admitted(data: bytes, identity: str) -> StepProgram:
    """Returns the program with these bytes, after a child process has checked that it is safe for the referee to read.

    Raises:
      Misconduct: if the bytes are not a program, or a program with another identity.
      ReproError: if the program is too expensive to read.
    """
    program: StepProgram
    try:
        if is_microbatch_data(data):
            for each in programs_of(data):
                admit(each)
            program = read_microbatches(data)
        else:
            admit(data)
            program = read_signature(data, untrusted=True)
    except (NoProgram, MicrobatchError):
        raise Misconduct("expected a valid program") from None
    if program.hash != identity:
        raise Misconduct(f"expected the program {identity} of the record, got {program.hash}")
    return program


def _digests(answer: dict[str, Any], name: str, count: int | None = None) -> tuple[bytes, ...]:
    if count is not None and len(answer[name]) != count:
        raise Misconduct(f"expected {count} hashes as {name!r}, got {len(answer[name])}")
    return tuple(bytes.fromhex(digest) for digest in answer[name])
