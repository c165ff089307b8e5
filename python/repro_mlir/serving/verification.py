# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Recomputes answers to verify their receipts."""

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
    """Returns the receipt in a JSON file. The file contains either only the receipt, or a server's complete answer.

    Args:
      value: parsed JSON.
      where: the name of the file in messages.
    Returns:
      The receipt, and the fields of the answer as `read_answer` returns them; empty if the file contains only a
      receipt.
    Raises:
      ReproError: `value` is neither a receipt nor a complete answer. The last event of a stream is not a complete
        answer, because it has no text.
    """
    if not (isinstance(value, dict) and "receipt" in value):
        read_receipt(value, where)
        return value, {}
    read_receipt(value["receipt"], where)
    return value["receipt"], read_answer(value, where)


def check_itself(receipt: Mapping[str, Any], said: Mapping[str, Any]) -> list[str]:
    """Checks that a receipt contradicts neither itself nor its answer; raises ReceiptWrong if it does. Returns the
    paths of those fields of the receipt and the answer that no other field determines."""
    _compare("hash", receipt["hash"], content_hash(receipt))
    return ["receipt.environment", *check_answer(said, receipt)]


def check_model(receipt: Mapping[str, Any], identity: ModelIdentity, versions: Mapping[str, str]) -> None:
    """Checks that a receipt belongs to a model. `identity` must have been computed with the capacity and the cache in
    the receipt.

    Args:
      versions: the versions of the software that captured the program of the model.
    Raises:
      ReceiptWrong: the receipt belongs to another model.
      ReproError: the program differs, possibly because other versions captured the same model.
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
            raise ReproError(f"expected the {name} of the receipt, made with {there}, got another, made with {here}")
        _compare(name, receipt[name], getattr(identity, name))


def recompute(receipt: Mapping[str, Any], generator: Generator, tokenizer: Tokenizer, where: str) -> Transcript:
    """Recomputes the answer to a receipt's question, and compares it with the receipt.

    Args:
      receipt: a receipt that belongs to the model according to `check_model`.
      generator: a generator of the model, with the capacity and the cache of the receipt; the result does not depend on
        the generator's slots, chunk and target.
      where: the name of the receipt in messages.
    Returns:
      The answer.
    Raises:
      ReproError: `receipt` is not the receipt of an answer.
      ReceiptWrong: the model rejects the question, or gives a different answer.
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
                raise ReceiptWrong(f"token {index}", f"the receipt has {said}, the model gives {token}")
    finally:
        generator.cancel(request)
    for name, value in outcome(transcript).items():
        _compare(name, receipt[name], value)
    return transcript


def _compare(place: str, said: Any, found: Any) -> None:
    if said != found:
        raise ReceiptWrong(place, "the receipt differs from the result here", None, str(said), str(found))
