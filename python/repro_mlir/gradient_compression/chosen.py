# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compression methods as users specify them: by name or as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import shown
from repro_mlir.base.files.json_text import parse
from repro_mlir.gradient_compression.methods import QSGD, Blocks, GradientCompression, OneBit, PowerSGD, TopK
from repro_mlir.precision.recipe_json import format_as_json, format_from_json

_CLASSES: dict[str, type[Any]] = {each.name: each for each in (TopK, OneBit, QSGD, PowerSGD, Blocks)}
METHODS = tuple(_CLASSES)
"""The names of the methods."""

LIMIT = 1 << 16
"""The maximum size of a method's JSON in bytes."""

_WHERE = "the gradient compression"
_BLOCKS = "mxfp8"


def compression_of(given: GradientCompression | str | Mapping[str, Any]) -> GradientCompression:
    """Returns the method that a user has passed: a `GradientCompression`, the name of a method (with the default
    parameters), or the JSON of a method.

    Raises:
      ReproError: the argument is none of these.
    """
    if isinstance(given, GradientCompression):
        return given
    if isinstance(given, Mapping):
        return _method(dict(given))
    if not isinstance(given, str):
        raise ReproError(f"expected a gradient compression, its name or its JSON, got a {type(given).__name__}")
    return compression_from_json(given) if given.lstrip().startswith("{") else _method({"method": given})


def compression_from_json(text: str | bytes) -> GradientCompression:
    """Parses a method from at most `LIMIT` bytes of JSON. Raises ReproError, which names the position, if the JSON is
    invalid."""
    return _method(parse(text, _WHERE, LIMIT))


def compression_to_json(method: GradientCompression) -> str:
    """Returns the method as JSON, which `compression_from_json` reads back."""
    value: dict[str, Any] = {"method": method.name}
    for each in dataclasses.fields(method):  # type: ignore[arg-type]
        value[each.name] = getattr(method, each.name)
    if isinstance(method, Blocks):
        value["format"] = format_as_json(method.format)
    return json.dumps(value)


def _method(value: Any) -> GradientCompression:
    if not isinstance(value, dict):
        raise ReproError(f"{_WHERE}: expected an object, got {type(value).__name__}")
    name = value.get("method")
    if not isinstance(name, str) or name not in _CLASSES:
        raise ReproError(f"{_WHERE}: expected a method among {', '.join(METHODS)}, got {shown(name)}")
    kind = _CLASSES[name]
    known = [each.name for each in dataclasses.fields(kind)]
    given = {key: each for key, each in value.items() if key != "method"}
    for key in given:
        if key not in known:
            expected = ", ".join(known) or "no parameters"
            raise ReproError(f"{_WHERE}: unknown parameter {shown(key)} of {name}, expected {expected}")
    try:
        if kind is Blocks:
            given["format"] = _format(given.get("format", _BLOCKS))
        return kind(**given)
    except ReproError as error:
        raise ReproError(f"{_WHERE}: {error}") from None


def _format(value: Any) -> Any:
    """Returns the block format that a user has passed: as the name of a precision recipe, or as a format in the JSON of
    recipes."""
    return Blocks.named(value).format if isinstance(value, str) else format_from_json(value, "format")
