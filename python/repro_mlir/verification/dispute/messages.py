# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The messages of a dispute, in canonical JSON, and their schemas (docs/verification/disputes.md)."""

from __future__ import annotations

from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import canonical_json
from repro_mlir.base.files import json_shapes as shapes
from repro_mlir.verification.dispute.quotas import REASON_CHARACTERS
from repro_mlir.verification.receipts.form import RUN

PROTOCOL = 3

Message = dict[str, Any]

_digests = shapes.array(shapes.digest)
_claim = {"inputs": _digests, "outputs": _digests}


def _question(**arguments: shapes.Shape) -> shapes.Shape:
    return shapes.record({"ask": shapes.text, **arguments})


_record, _number = shapes.number(1), shapes.number(0)

_QUESTIONS = {
    "opening": _question(),
    "program": _question(identity=shapes.digest),
    "link": _question(record=_number),
    "record": _question(record=_number),
    "operators": _question(record=_record),
    "nodes": _question(record=_record, level=shapes.number(1), index=_number),
    "operator": _question(record=_record, index=_number),
    "producers": _question(record=_record, indices=shapes.array(_number)),
    "tensor": _question(record=_record, index=_number, role=shapes.choice("input", "output"), position=_number),
}

_ANSWERS = {
    "opening": shapes.record(
        {"protocol": _number, "header": RUN, "records": _number, "steps": _number, "link": shapes.digest}
    ),
    "program": shapes.record({"data": shapes.text}),
    "link": shapes.record({"link": shapes.digest}),
    # The record of the initial state has no previous link; the record of a state change has no program.
    "record": shapes.record(
        {"cursor": _number, "state": _digests} | _claim,
        {"before": shapes.digest, "steps": _number, "program": shapes.digest, "signature": shapes.digest}
        | {"microbatches": _digests},
    ),
    "operators": shapes.record({"top": shapes.digest}),
    "nodes": shapes.record({"left": shapes.digest, "right": shapes.digest}),
    "operator": shapes.record(_claim),
    "producers": shapes.record({"claims": shapes.array(shapes.record(_claim | {"path": _digests}))}),
    "tensor": shapes.record({"data": shapes.text}),
}
_REFUSAL = shapes.record({"error": shapes.text})


class NoMessage(Exception):
    """Raised for bytes that do not match a message schema; the text states why."""


class Refusal(Exception):
    """Raised if the other end refuses to answer; the text is the reason that it states."""


def encode(message: Message) -> bytes:
    """Encodes a message for transmission."""
    return canonical_json.dump(message)


def refusal(reason: str) -> bytes:
    """Encodes a refusal, in ASCII because a reason may contain file names that are not valid Unicode."""
    return encode({"error": reason.encode("ascii", "backslashreplace").decode()[:REASON_CHARACTERS]})


def decode_question(data: bytes, limit: int) -> Message:
    """Decodes a question. Raises NoMessage for bytes that are not a question, or more than `limit` bytes."""
    try:
        message = _load(data, limit, "the question")
        ask = message.get("ask")
        if not isinstance(ask, str) or ask not in _QUESTIONS:
            raise NoMessage(f"the question: expected ask to be one of {', '.join(_QUESTIONS)}")
        _QUESTIONS[ask](message, "the question")
    except ReproError as error:
        raise NoMessage(str(error)) from None
    return message


def decode_answer(data: bytes, ask: str, limit: int) -> Message:
    """Decodes the answer to the question named `ask`.

    Raises:
      Refusal: if the other end refuses to answer.
      NoMessage: for bytes that are not an answer to this question, or more than `limit` bytes.
    """
    try:
        message = _load(data, limit, "the answer")
        if "error" in message:
            _REFUSAL(message, "the answer")
            raise Refusal(message["error"])
        _ANSWERS[ask](message, "the answer")
    except ReproError as error:
        raise NoMessage(str(error)) from None
    return message


def _load(data: bytes, limit: int, where: str) -> Message:
    message = canonical_json.load(data, where, limit)
    if not isinstance(message, dict):
        raise NoMessage(f"{where}: expected a JSON object")
    return message
