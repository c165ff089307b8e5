# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The receipt of an answer, with the question, the result and the identity of the model (docs/guides/serving.md)."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import canonical_json
from repro_mlir.base.files import json_shapes as shapes
from repro_mlir.base.numerics.digest import blake3_of
from repro_mlir.base.printing import foreign
from repro_mlir.generation.identity import ModelIdentity
from repro_mlir.generation.sampling import Sampling
from repro_mlir.serving.transcript import Transcript

FORMAT, VERSION = "repro-answer", 1

NUMERICS = 1
"""The version of the numerics specification that this release implements."""

MOST_STOPS = 4
STOP_LENGTH = 200

_MAGIC = b"repro-answer-v1\0"


def _index(value: Any, where: str) -> None:
    shapes.number(0)(value, where)
    if value >= 2**53:
        raise ReproError(f"{where}: expected a whole number below 2^53, got {value}")


def _seed(value: Any, where: str) -> None:
    if not isinstance(value, str) or not value.isascii() or not value.isdigit() or len(value) > 20:
        raise ReproError(f"{where}: expected the digits of a whole number below 2^64")
    if str(int(value)) != value or int(value) >= 2**64:
        raise ReproError(f"{where}: expected the digits of a whole number below 2^64, got {value}")


@dataclass(frozen=True)
class Question:
    """A question to a model.

    Attributes:
      prompt: the tokens of the prompt.
      sampling: how tokens are chosen; temperature and top_p are f32 values.
      most: the maximum number of tokens of the answer.
      stop_tokens: tokens that end the answer.
      stop: strings that end the answer.
    """

    prompt: tuple[int, ...]
    sampling: Sampling
    most: int
    stop_tokens: tuple[int, ...]
    stop: tuple[str, ...]


_tokens = shapes.array(_index)

_SHAPE = shapes.record(
    {
        "format": shapes.choice(FORMAT),
        "version": shapes.number(1),
        "numerics": shapes.number(1),
        "weights": shapes.digest,
        "program": shapes.digest,
        "choice": shapes.digest,
        "capacity": shapes.number(1),
        "prompt": _tokens,
        "temperature": shapes.hexadecimal(8),
        "top_k": shapes.nullable(shapes.number(1)),
        "top_p": shapes.hexadecimal(8),
        "seed": _seed,
        "max_tokens": shapes.number(1),
        "stop_tokens": _tokens,
        "stop": shapes.array(shapes.text),
        "tokens": _tokens,
        "finish": shapes.choice("stop", "length"),
        "logits": shapes.digest,
        "text": shapes.digest,
        "environment": shapes.mapping(shapes.text),
        "hash": shapes.digest,
    },
    # Optional: a receipt has no `cache` if the keys and values are f32.
    {"cache": shapes.text},
)


def make_receipt(
    question: Question, transcript: Transcript, identity: ModelIdentity, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the receipt of a complete answer, as JSON.

    Args:
      environment: facts about the machine and software that computed the answer, for information.
    """
    content = {
        "format": FORMAT,
        "version": VERSION,
        "numerics": NUMERICS,
        "weights": identity.weights,
        "program": identity.program,
        "choice": identity.choice,
        "capacity": identity.capacity,
        **({} if identity.cache is None else {"cache": identity.cache}),
        "prompt": list(question.prompt),
        "temperature": _bits(question.sampling.temperature),
        "top_k": question.sampling.top_k,
        "top_p": _bits(question.sampling.top_p),
        "seed": str(question.sampling.seed % 2**64),
        "max_tokens": question.most,
        "stop_tokens": list(question.stop_tokens),
        "stop": list(question.stop),
        **outcome(transcript),
    }
    return {**content, "environment": dict(environment), "hash": content_hash(content)}


def outcome(transcript: Transcript) -> dict[str, Any]:
    """Returns those fields of a receipt that describe the result. The answer must be complete."""
    assert transcript.finish is not None
    return {
        "tokens": list(transcript.tokens),
        "finish": transcript.finish,
        "logits": transcript.logits_hash(),
        "text": text_hash(transcript.text),
    }


def read_receipt(value: Any, where: str) -> Question:
    """Checks the structure of a receipt from another source, and returns its question.

    Args:
      value: parsed JSON.
      where: the name of the receipt in messages.
    Raises:
      ReproError: the JSON is not the receipt of an answer, or is a receipt with another version of the format or of the
        numerics.
    """
    if isinstance(value, dict) and value.get("format") == FORMAT:
        for name, known in (("version", VERSION), ("numerics", NUMERICS)):
            got = value.get(name)
            if type(got) is int and got != known:
                raise ReproError(
                    f"{where}: expected a receipt of {name} {known}, got one of {name} {foreign(str(got))}"
                )
    _SHAPE(value, where)
    if len(value["stop"]) > MOST_STOPS:
        raise ReproError(f"{where}: stop: expected at most {MOST_STOPS} strings, got {len(value['stop'])}")
    for i, text in enumerate(value["stop"]):
        check_stop(text, f"{where}: stop[{i}]")
    try:
        # The hash covers this serialization, so a receipt that cannot be serialized is rejected here.
        canonical_json.dump(value)
        sampling = Sampling(_value(value["temperature"]), value["top_k"], _value(value["top_p"]), int(value["seed"]))
    except (ReproError, ValueError) as error:
        raise ReproError(f"{where}: {error}") from None
    return Question(
        tuple(value["prompt"]), sampling, value["max_tokens"], tuple(value["stop_tokens"]), tuple(value["stop"])
    )


def check_stop(text: str, where: str) -> None:
    """Raises ReproError if a string is not valid as a stop string."""
    if not 1 <= len(text) <= STOP_LENGTH:
        raise ReproError(f"{where}: expected 1 to {STOP_LENGTH} characters, got {len(text)}")
    if not unicodedata.is_normalized("NFC", text):
        raise ReproError(f"{where}: expected text in Unicode normalization form C")


def content_hash(receipt: Mapping[str, Any]) -> str:
    """Returns the hash of a receipt, in hexadecimal. The hash does not cover the facts about where the answer was
    computed."""
    content = {name: value for name, value in receipt.items() if name not in ("environment", "hash")}
    return blake3_of(_MAGIC + canonical_json.dump(content)).hex()


def text_hash(text: str) -> str:
    """Returns the hash of an answer's text: BLAKE3 of its UTF-8, in hexadecimal."""
    return blake3_of(text.encode()).hex()


def _bits(number: float) -> str:
    """Returns the bytes of an f32 (H1) in hexadecimal. Unlike decimal notations, this text is unique."""
    return np.float32(number).astype("<f4").tobytes().hex()


def _value(bits: str) -> float:
    return float(np.frombuffer(bytes.fromhex(bits), "<f4")[0])
