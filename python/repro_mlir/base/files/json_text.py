# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Parses untrusted JSON in any layout, within limits, and rejects ambiguous texts."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import canonical_json
from repro_mlir.base.numerics.environment import float_environment


@float_environment()
def parse(text: bytes | str, where: str, limit: int = canonical_json.LIMIT) -> Any:
    """Parses JSON; numbers round to nearest even (V2). Time and memory are proportional to the length of the text.

    Args:
      text: a string, or UTF-8 bytes.
      where: names the text in messages.
      limit: the maximum size of the text in bytes.
    Raises:
      ReproError: the text is too long, nested deeper than `canonical_json.DEPTH` or not JSON; or it contains a
        duplicate key, a number that is not finite, or a lone surrogate.
    """
    # A lone surrogate becomes invalid UTF-8, which the decoding below rejects.
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    canonical_json.check_bounds(data, where, limit)
    try:
        value = json.loads(
            data.decode(), parse_float=_finite, parse_constant=_no_number, object_pairs_hook=_distinct_keys
        )
        # Rejects a lone surrogate that is written as an escape sequence.
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeError:
        raise ReproError(f"{where}: expected JSON in UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise ReproError(f"{where}: expected JSON: {error}") from None
    return value


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice in an object")
    return found


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is not a finite number")
