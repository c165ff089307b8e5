# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Answers computed again, to see whether their receipts say the truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.base.numerics.hashing import tensor_digest
from repro_mlir.base.printing import foreign
from repro_mlir.generation.generator import Generator
from repro_mlir.generation.identity import ModelIdentity
from repro_mlir.serving.answer import check_answer, read_answer
from repro_mlir.serving.receipt import content_hash, outcome, read_receipt
from repro_mlir.serving.tokenizer import Tokenizer
from repro_mlir.serving.transcript import Transcript


def find_receipt(value: Any, where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The receipt in the JSON of a file, which has it alone or the whole answer of a server, and what the answer says.

    Args:
      value: parsed JSON.
      where: names the file in messages.
    Returns:
      the receipt; the fields of the answer as by `read_answer`, none for a receipt alone.
    Raises:
      ReproError: neither of both, as the last event of a stream, which has no text of its own.
    """
    if not (isinstance(value, dict) and "receipt" in value):
        read_receipt(value, where)
        return value, {}
    read_receipt(value["receipt"], where)
    return value["receipt"], read_answer(value, where)


def check_itself(receipt: Mapping[str, Any], said: Mapping[str, Any]) -> list[str]:
    """The fields of receipt and answer that nothing decides. ReceiptWrong where a receipt contradicts itself, or its
    answer contradicts it."""
    _compare("hash", receipt["hash"], content_hash(receipt))
    return ["receipt.environment", *check_answer(said, receipt)]


def check_model(receipt: Mapping[str, Any], identity: ModelIdentity, versions: Mapping[str, str]) -> None:
    """Compares what a receipt is about with a model, whose capacity and cache are those of the receipt.

    Args:
      versions: of what made the program of the model.
    Raises:
      ReceiptWrong: it is about another model.
      ReproError: the program is another one, which other versions may have made of the same model.
    """
    for name in ("weights", "capacity"):
        _compare(name, receipt[name], getattr(identity, name))
    _compare("cache", receipt.get("cache"), identity.cache)
    said = {name: receipt["environment"].get(name) for name in versions}
    for name in ("program", "choice"):
        if said != versions and receipt[name] != getattr(identity, name):
            there, here = (
                ", ".join(f"{key} {foreign(str(each[key]), 40)}" for key in versions) for each in (said, versions)
            )
            raise ReproError(f"the receipt is about another {name}, made by {there}, not {here}")
        _compare(name, receipt[name], getattr(identity, name))


def recompute(receipt: Mapping[str, Any], generator: Generator, tokenizer: Tokenizer, where: str) -> Transcript:
    """Answers the question of a receipt once more, and compares.

    Args:
      receipt: one that `check_model` found to be about the model.
      generator: of the model, with the capacity and the cache of the receipt; its slots, chunk and target have no part
        in the result.
      where: names the receipt in messages.
    Returns:
      the answer.
    Raises:
      ReproError: no receipt of an answer.
      ReceiptWrong: a question that the model does not take, or another answer.
    """
    question = read_receipt(receipt, where)
    try:
        request = generator.submit(question.prompt, question.most, question.sampling, question.stop_tokens, logits=True)
    except ReproError as error:
        raise ReceiptWrong("prompt", str(error)) from None
    transcript = Transcript(tokenizer, question.most, question.stop_tokens, question.stop)
    claimed = receipt["tokens"]
    try:
        while transcript.finish is None:
            generator.step()
            if not request.logits:
                continue
            token, index = request.tokens[-1], len(transcript.tokens)
            transcript.add(token, tensor_digest(request.logits[-1], "f32"))
            request.logits.clear()
            if index >= len(claimed) or claimed[index] != token:
                said = f"{claimed[index]}" if index < len(claimed) else "no more"
                raise ReceiptWrong(f"token {index}", f"the receipt says {said}, the model says {token}")
    finally:
        generator.cancel(request)
    for name, value in outcome(transcript).items():
        _compare(name, receipt[name], value)
    return transcript


def _compare(place: str, said: Any, found: Any) -> None:
    if said != found:
        raise ReceiptWrong(place, "the receipt says otherwise", None, str(said), str(found))
