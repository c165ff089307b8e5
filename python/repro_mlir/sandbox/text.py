# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks untrusted programs before they are parsed, in time and memory proportional to the size of the program."""

from __future__ import annotations

import re

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.limits import Limits

_STRING_OR_COMMENT = re.compile(rb'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"|//[^\n]*+')
_ARROW = re.compile(rb"->|[<>]=")
_TENSOR = re.compile(rb"<((?:[0-9]+x)+)[a-z]*([0-9]*)")

_STEP = np.zeros(256, np.int8)
_STEP[list(b"([{<")] = 1
_STEP[list(b")]}>")] = -1
_BLOCK = 1 << 20


def check_size(data: bytes, limits: Limits) -> None:
    """Raises ReproError if a program has more bytes than the limits allow."""
    if len(data) > limits.text_bytes:
        raise ReproError(f"expected a program of at most {limits.text_bytes:,} bytes, got {len(data):,}")


def check_text(text: bytes, limits: Limits) -> None:
    """Raises ReproError if the nesting, a number or the size of a tensor in the text exceeds the limits. Does not check
    the syntax."""
    code = _ARROW.sub(b"", _STRING_OR_COMMENT.sub(b'""', text))
    depth = _depth(code)
    if depth > limits.nesting:
        raise ReproError(f"expected a program with at most {limits.nesting:,} levels of brackets, got {depth:,}")
    if re.search(rb"[0-9]{%d}" % (limits.digits + 1), code):
        raise ReproError(f"expected numbers of at most {limits.digits} digits in a program, got a longer one")
    for extents, width in set(_TENSOR.findall(code)):
        # The product is clamped at the limit + 1, so that it stays small. A later extent of 0 still makes it 0.
        size = -(-int(width[:4] or b"64") // 8)
        for extent in extents[:-1].split(b"x"):
            size = min(size * int(extent), limits.tensor_bytes + 1)
        if size > limits.tensor_bytes:
            shape = extents.decode().rstrip("x")[:80]
            raise ReproError(
                f"expected tensors of at most {limits.tensor_bytes:,} bytes in a program, got one of {shape} elements"
            )


def _depth(code: bytes) -> int:
    """Returns the maximum nesting depth of brackets."""
    open_brackets = deepest = 0
    for start in range(0, len(code), _BLOCK):
        steps = _STEP[np.frombuffer(code, np.uint8, min(_BLOCK, len(code) - start), start)]
        levels = np.cumsum(steps, dtype=np.int64)
        deepest = max(deepest, open_brackets + int(levels.max()))
        open_brackets += int(levels[-1])
    return deepest
