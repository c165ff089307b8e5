# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Why a rank has no result, in the fixed form in which the others are told."""

from __future__ import annotations

_BYTES = 255

FORM = f"B{_BYTES}s"
"""Of `struct`: what `pack_failure` gives."""


def describe(failure: BaseException | None) -> str:
    """What is said of a failure; empty where there is none."""
    return "" if failure is None else str(failure) or type(failure).__name__


def pack_failure(text: str) -> tuple[int, bytes]:
    """A text, cut to what the form has room for."""
    message = text.encode()[:_BYTES]
    return len(message), message


def unpack_failure(length: int, message: bytes) -> str:
    """The text that `pack_failure` was given, as far as it had room."""
    return message[:length].decode(errors="replace")
