# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""For each type of message, the bound on a dispute's bytes counts at least as many bytes as such a message has if its
numbers are as long as possible."""

from __future__ import annotations

from typing import Any

import pytest
from repro_mlir.verification.dispute.bounds import _CLAIM, _HASH, _QUESTION
from repro_mlir.verification.dispute.messages import PROTOCOL, decode_answer, decode_question, encode
from repro_mlir.verification.dispute.party import _DIGEST_TEXT, _SHORT

LONGEST = 2**53 - 1
"""The number with the most digits that is allowed in a message."""

DIGEST = "5" * 64
RECORD = {"record": LONGEST}
OPERATOR = RECORD | {"index": LONGEST}
HASHES = 5
"""The number of digests in each list of a message."""

LIST = [DIGEST] * HASHES
COMMITMENT = {"before": DIGEST, "cursor": LONGEST, "state": LIST, "inputs": LIST, "outputs": LIST}
NAMED = {"steps": LONGEST, "program": DIGEST, "signature": DIGEST}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], int, int]] = {
    "link": (RECORD, {"link": DIGEST}, 0, 0),
    "record": (RECORD, COMMITMENT | NAMED, 3 * HASHES + 2, 0),
    "operators": (RECORD, {"top": DIGEST}, 0, 0),
    "nodes": (OPERATOR | {"level": LONGEST}, {"left": DIGEST, "right": DIGEST}, 0, 0),
    "operator": (OPERATOR, {"inputs": LIST, "outputs": LIST}, 2 * HASHES, 0),
    "producers": (
        RECORD | {"indices": [LONGEST] * 4},
        {"claims": [{"inputs": LIST, "outputs": LIST, "path": LIST}] * 4},
        4 * 3 * HASHES,
        4,
    ),
    # The answers to these two questions have no data here, because the bound counts tensors and programs separately.
    "tensor": (OPERATOR | {"role": "output", "position": LONGEST}, {"data": ""}, 0, 0),
    "program": ({"identity": DIGEST}, {"data": ""}, 0, 0),
}
"""For each question: its arguments, its answer, and the numbers of hashes and claims that the bound counts for it."""


def test_bytes_of_the_first_message() -> None:
    header = {"numerics": 1, "initial": DIGEST, "nonfinite_loss": "ignore", "state": []}
    counts = {"protocol": PROTOCOL, "records": LONGEST, "steps": LONGEST}
    question, answered = encode({"ask": "opening"}), encode(counts | {"header": header, "link": DIGEST})
    decode_answer(answered, "opening", len(answered))
    assert len(question) + len(answered) <= _QUESTION + len(encode(header))


@pytest.mark.parametrize("name", CASES)
def test_bytes_of_a_message(name: str) -> None:
    ask = name.split()[0]
    arguments, answer, hashes, claims = CASES[name]
    question, answered = encode({"ask": ask} | arguments), encode(answer)
    decode_question(question, len(question))
    decode_answer(answered, ask, len(answered))
    assert len(question) + len(answered) <= _QUESTION + _HASH * hashes + _CLAIM * claims
    # Checks the limits on the bytes of a message: the prover's limit for questions, and the referee's for answers.
    assert len(question) <= _QUESTION + _CLAIM * claims
    assert len(answered) <= _SHORT * (1 + claims) + _DIGEST_TEXT * hashes
