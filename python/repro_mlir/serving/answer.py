# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads the complete answer of a server, and compares its fields with those of the receipt in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.base.printing import foreign
from repro_mlir.serving.receipt import text_hash

Receipt = Mapping[str, Any]


def completion_object(chat: bool) -> str:
    """Returns the value of an answer's field `object`."""
    return "chat.completion" if chat else "text_completion"


def system_fingerprint(program: str, weights: str) -> str:
    """Returns the value of an answer's field `system_fingerprint`: a short name of everything, except the request, on
    which answers depend."""
    return f"{program[:16]}-{weights[:16]}"


def token_counts(read: int, written: int) -> dict[str, int]:
    """Returns the value of an answer's field `usage`."""
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _count(name: str, receipt: Receipt, chat: bool) -> int:
    return token_counts(len(receipt["prompt"]), len(receipt["tokens"]))[name]


_TEXTS = {False: "choices[0].text", True: "choices[0].message.content"}
"""The path of an answer's text, for a completion and for a conversation."""

_DERIVED: dict[str, Callable[[Receipt, bool], Any]] = {
    "object": lambda receipt, chat: completion_object(chat),
    "system_fingerprint": lambda receipt, chat: system_fingerprint(receipt["program"], receipt["weights"]),
    "choices[0].index": lambda receipt, chat: 0,
    "choices[0].logprobs": lambda receipt, chat: None,
    "choices[0].finish_reason": lambda receipt, chat: receipt["finish"],
    **{f"usage.{name}": partial(_count, name) for name in token_counts(0, 0)},
}
"""Maps the path of each field that follows from the receipt to a function that computes the field."""

_OPEN: dict[str, Callable[[Any], bool]] = {
    "id": lambda value: type(value) is str,
    "created": lambda value: type(value) is int,
    "model": lambda value: type(value) is str,
}
"""Maps the path of each field that the receipt does not determine to a check of the field's type."""

_REQUIRED = ("choices[0].finish_reason", "usage.prompt_tokens", "usage.completion_tokens")


def read_answer(value: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns the fields of an answer except its receipt. The keys are paths such as `choices[0].index`.

    A null field that servers never send is ignored, because client libraries add such fields.

    Raises:
      ReproError: `value` is not a server's complete answer with one choice (for example, it is the last event of a
        stream), or it has a field that no answer has.
    """
    choices = value.get("choices")
    fields = dict(_leaves({name: each for name, each in value.items() if name not in ("choices", "receipt")}, ""))
    choice = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
    if isinstance(choice, dict):
        fields.update(_leaves(choice, "choices[0]."))
    chat = _TEXTS[True] in fields
    has_all = isinstance(choice, dict) and fields.keys() >= {_TEXTS[chat], *_REQUIRED}
    if not (has_all and isinstance(fields[_TEXTS[chat]], str)):
        raise ReproError(f"{where}: expected the whole answer of a server, with one choice, or its receipt alone")
    known = {_TEXTS[chat], *_DERIVED, *_OPEN, *(["choices[0].message.role"] if chat else [])}
    for path, each in fields.items():
        if path not in known and each is not None:
            raise ReproError(f"{where}: unknown field {foreign(path, 80)} of an answer of repro serve")
        if path in _OPEN and not _OPEN[path](each):
            raise ReproError(f"{where}: {path}: expected a value that repro serve writes, got {foreign(str(each), 40)}")
    return {path: each for path, each in fields.items() if path in known}


def check_answer(fields: Mapping[str, Any], receipt: Receipt) -> list[str]:
    """Compares the fields of an answer with its receipt. Returns the paths of those that the receipt does not
    determine.

    Raises:
      ReceiptWrong: a field contradicts the receipt.
    """
    chat = _TEXTS[True] in fields
    derived = {**_DERIVED, "choices[0].message.role": lambda *_: "assistant"} if chat else _DERIVED
    for path, value in fields.items():
        if path == _TEXTS[chat]:
            said, found = text_hash(value), receipt["text"]
        elif path in derived:
            said, found = value, derived[path](receipt, chat)
        else:
            continue
        # The types are compared too, because True == 1 in Python.
        if type(said) is not type(found) or said != found:
            raise ReceiptWrong(path, "the answer differs from its receipt", None, str(found), str(said))
    return [path for path in fields if path in _OPEN]


def _leaves(value: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    """Yields the path and the value of each field of an object and of its nested objects. An empty object counts as a
    field."""
    for name, each in value.items():
        # A name that contains a dot is quoted, since it could otherwise equal the path of another field.
        path = f"{before}{name if name.isidentifier() else repr(name)}"
        if isinstance(each, dict) and each:
            yield from _leaves(each, f"{path}.")
        else:
            yield path, each
