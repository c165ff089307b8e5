# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K7) The format of keys and values in a cache. The codes and scales of a token depend only on that token."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.json_text import parse
from repro_mlir.base.printing import foreign
from repro_mlir.precision.formats import Format
from repro_mlir.precision.named import NAMED_RECIPES, named_recipe
from repro_mlir.precision.recipe_json import LIMIT, format_as_json, format_from_json


def cache_format(given: Format | str | Mapping[str, Any]) -> Format:
    """Returns the format of a cache that a user has specified.

    Args:
      given: a `Format`; the name of a recipe, whose activation format is used; or the JSON of a format, as text or
        already parsed.
    Raises:
      ReproError: the argument is none of these, or a token's codes would depend on more than its key or value.
    """
    return _checked(_read(given))


def format_text(format: Format) -> str:
    """Returns a format as JSON, which `cache_format` reads back; equal formats have equal texts."""
    return json.dumps(format_as_json(format), sort_keys=True, separators=(",", ":"))


def _read(given: Format | str | Mapping[str, Any]) -> Format:
    where = "the format of a cache"
    if isinstance(given, Format):
        return given
    if isinstance(given, Mapping):
        return format_from_json(dict(given), where)
    if not isinstance(given, str):
        raise ReproError(f"expected {where}, the name of one or its JSON, got a {type(given).__name__}")
    if given.lstrip().startswith("{"):
        return format_from_json(parse(given.encode(errors="surrogatepass"), where, LIMIT), where)
    if given not in NAMED_RECIPES:
        raise ReproError(f"expected {where}, such as mxfp8, or its JSON, got {foreign(given, 40)!r}")
    return named_recipe(given).roles["fprop"].operands["activation"]


def _checked(format: Format) -> Format:
    if not format.has_blocks:
        raise ReproError(f"(K7) expected a format of blocks for a cache, got {format.element}")
    assert format.tile is not None and format.scale is not None
    reason = None
    if format.is_delayed:
        reason = "a scale of former steps"
    elif format.scale.has_tensor and format.amax != "row":
        reason = f"the amax of several tokens, as {format.scale.rule} without the amax of each row"
    elif format.tile[0] != 1:
        reason = f"blocks of several tokens, {format}"
    elif format.is_stochastic:
        reason = "random bits, which differ from call to call"
    elif format.hadamard is not None:
        reason = "a Hadamard transform, which queries would need too"
    elif format.scale.nan not in (None, 255):
        # (K6) A NaN in a key must not become a number, so the scale of a block with a NaN must be the byte 255, which
        # encodes NaN.
        reason = f"a scale of byte {format.scale.nan} for NaN"
    if reason is not None:
        raise ReproError(f"(K7) expected a format of a cache that depends on one token only, got {reason}")
    return format
