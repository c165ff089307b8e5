# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Parses and checks the fields of a request. Unknown and unsupported fields are rejected, not ignored."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import foreign
from repro_mlir.generation.sampling import Sampling
from repro_mlir.serving.receipt import MOST_STOPS, check_stop

_ROLES = ("system", "developer", "user", "assistant")

_SEED_LIMIT = 1 << 53
"""The bound of seeds that the server draws: integers below it are exact in every JSON reader."""

_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logprobs": (False,),
    "logit_bias": ({},),
    "suffix": (),
}
"""OpenAI fields that are accepted only with values that have no effect, or null."""

Checker: TypeAlias = Callable[[Any], Any]


class Refused(Exception):
    """Raised when a request gets an error instead of an answer.

    Attributes:
      status: the HTTP status.
      message: what was expected and what was found.
      field: the invalid field, if there is one.
      code: the error code, for programs.
    """

    def __init__(self, status: int, message: str, field: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.field = field
        self.code = code


@dataclass(frozen=True)
class Fields:
    """The contents of a request.

    Attributes:
      prompt: the text or tokens of a completion; None for a conversation.
      messages: for a conversation: the messages, each with the strings `role` and `content`.
      most: the maximum number of tokens of the answer; None if it is not specified.
      sampling: how tokens are chosen; the seed is drawn if it is needed and not specified.
      stop: strings that end the answer.
      stream: whether tokens are sent as they are generated.
      usage: whether a stream ends with the token counts.
    """

    prompt: str | list[int] | None
    messages: list[dict[str, Any]]
    most: int | None
    sampling: Sampling
    stop: tuple[str, ...]
    stream: bool
    usage: bool


def read_fields(body: Any, model: str, *, chat: bool) -> Fields:
    """Checks the JSON of a request; returns its fields.

    Args:
      body: the JSON of the request.
      model: the name of the only model.
      chat: whether the request is a conversation.
    Raises:
      Refused: a field is invalid; the error names it.
    """
    if not isinstance(body, dict):
        raise Refused(400, f"expected an object, got {_kind(body)}")
    own: dict[str, Checker] = {"messages": _messages} if chat else {"prompt": _prompt}
    known = own | _COMMON | ({"max_completion_tokens": _most} if chat else {})
    found: dict[str, Any] = {}
    for name, value in body.items():
        if name not in known and name not in _NEUTRAL:
            raise Refused(400, f"unknown field {foreign(name, 60)!r}", foreign(name, 60), "unknown_parameter")
        if value is None:
            continue
        if name in _NEUTRAL:
            # The types are compared too, because True == 1 in Python.
            if not any(type(value) is type(each) and value == each for each in _neutral(name)):
                raise Refused(400, f"{name} is not supported", name, "unsupported_parameter")
            continue
        try:
            found[name] = known[name](value)
        except ReproError as error:
            raise Refused(400, f"{name}: {error}", name, "invalid_value") from None
    check_model(found.get("model", model), model)
    for name in own:
        if name not in found:
            raise Refused(400, f"expected the field {name}", name, "missing_required_parameter")
    if "max_tokens" in found and "max_completion_tokens" in found:
        raise Refused(400, "expected only one of max_tokens and max_completion_tokens", "max_tokens", "invalid_value")
    stream = found.get("stream", False)
    if "stream_options" in found and not stream:
        raise Refused(400, "expected stream_options only with stream", "stream_options", "invalid_value")
    return Fields(
        found.get("prompt"),
        found.get("messages", []),
        found.get("max_tokens", found.get("max_completion_tokens")),
        _sampling(found),
        found.get("stop", ()),
        stream,
        found.get("stream_options", False),
    )


def check_model(name: str, model: str) -> None:
    """Raises Refused unless `name` is that of the server's model."""
    if name != model:
        raise Refused(404, f"expected the model {model!r}, got {foreign(name, 60)!r}", "model", "model_not_found")


def _neutral(name: str) -> tuple[Any, ...]:
    values = _NEUTRAL[name]
    # A client may write an integer as a float: in JSON, 0 and 0.0 are the same number.
    return (*values, *(float(each) for each in values if type(each) is int))


def _sampling(found: Mapping[str, Any]) -> Sampling:
    temperature = found.get("temperature", 1.0)
    seed = found.get("seed")
    if seed is None:
        # With temperature 0 no random numbers are drawn. A constant seed gives equal requests equal receipts.
        seed = secrets.randbelow(_SEED_LIMIT) if temperature else 0
    return Sampling(temperature, found.get("top_k"), found.get("top_p", 1.0), seed)


def _prompt(value: Any) -> str | list[int]:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(type(each) is int for each in value):
        return value
    raise ReproError("expected a string or an array of tokens (one prompt for each request)")


def _messages(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not value:
        raise ReproError("expected an array of messages, at least one")
    for i, each in enumerate(value):
        if not isinstance(each, dict) or each.keys() != {"role", "content"}:
            raise ReproError(f"[{i}]: expected an object with role and content, and nothing else")
        if each["role"] not in _ROLES or not isinstance(each["role"], str):
            raise ReproError(f"[{i}]: expected a role of {', '.join(_ROLES)}")
        if not isinstance(each["content"], str):
            raise ReproError(f"[{i}]: expected content that is a string, got {_kind(each['content'])}")
    return value


def _most(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ReproError(f"expected a whole number of at least 1, got {_shown(value)}")
    return value


def _real(value: Any) -> float:
    """Returns the number rounded to f32. A number out of range becomes infinity, which `Sampling` rejects."""
    if type(value) not in (int, float):
        raise ReproError(f"expected a number, got {_kind(value)}")
    try:
        with np.errstate(over="ignore"):
            # Adding 0.0 turns -0.0 into +0.0.
            return float(np.float32(value)) + 0.0
    except OverflowError:
        return math.inf


def _top_k(value: Any) -> int:
    if type(value) is not int or not 1 <= value < 2**53:
        raise ReproError(f"expected a whole number from 1 to 2^53 - 1, got {_shown(value)}")
    return value


def _seed(value: Any) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**64:
        raise ReproError(f"expected a whole number of 64 bits, got {_shown(value)}")
    return value


def _stop(value: Any) -> tuple[str, ...]:
    strings = [value] if isinstance(value, str) else value
    if not isinstance(strings, list) or not all(isinstance(each, str) for each in strings):
        raise ReproError("expected a string or an array of strings")
    if len(strings) > MOST_STOPS:
        raise ReproError(f"expected at most {MOST_STOPS} strings, got {len(strings)}")
    for each in strings:
        check_stop(each, "a string")
    return tuple(strings)


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise ReproError(f"expected true or false, got {_kind(value)}")
    return value


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ReproError(f"expected a string, got {_kind(value)}")
    return value


def _stream_options(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() - {"include_usage"}:
        raise ReproError("expected an object with only the field include_usage")
    return _boolean(value.get("include_usage", False))


_COMMON: dict[str, Checker] = {
    "model": _string,
    "max_tokens": _most,
    "temperature": lambda value: Sampling(temperature=_real(value)).temperature,
    "top_p": lambda value: Sampling(top_p=_real(value)).top_p,
    "top_k": _top_k,
    "seed": _seed,
    "stop": _stop,
    "stream": _boolean,
    "stream_options": _stream_options,
    # Services use this field to identify their users; it has no effect here.
    "user": _string,
}


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "a truth value", type(None): "null"}
    return kinds.get(type(value), "a number")


def _shown(value: Any) -> str:
    return foreign(str(value), 40) if type(value) in (int, float) else _kind(value)
