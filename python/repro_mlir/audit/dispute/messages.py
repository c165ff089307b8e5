# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The messages of a dispute: canonical JSON of exactly these forms (docs/disputes.md)."""

from __future__ import annotations

from typing import Any

from repro_mlir.audit.dispute.quotas import REASON_CHARACTERS
from repro_mlir.audit.receipts.form import check_run
from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import canonical_json
from repro_mlir.base.files import json_shapes as shapes

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
        {"protocol": _number, "header": check_run, "records": _number, "steps": _number, "link": shapes.digest}
    ),
    "program": shapes.record({"data": shapes.text}),
    "link": shapes.record({"link": shapes.digest}),
    # The initial state has no link before it; a change of the state has no program.
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
    """Bytes that are no message of these forms; the text says why."""


class Refusal(Exception):
    """An answer that says that there is none; the text is the reason given."""


def encode(message: Message) -> bytes:
    """A message as it travels."""
    return canonical_json.dump(message)


def refusal(reason: str) -> bytes:
    """The answer that there is none, in ASCII: a reason may hold names of files, which need not be Unicode."""
    return encode({"error": reason.encode("ascii", "backslashreplace").decode()[:REASON_CHARACTERS]})


def decode_question(data: bytes, limit: int) -> Message:
    """A question from its bytes. NoMessage for bytes that are none, or more than `limit`."""
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
    """The answer to a question from its bytes.

    Raises:
      Refusal: the other end has no answer.
      NoMessage: bytes that are no answer to this question, or more than `limit`.
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
