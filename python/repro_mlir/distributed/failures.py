# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Packs the error messages that ranks exchange, in a format of fixed size."""

from __future__ import annotations

_BYTES = 255

FORM = f"B{_BYTES}s"
"""The `struct` format of the result of `pack_failure`."""


def describe(failure: BaseException | None) -> str:
    """Returns the message that describes a failure; empty if there is no failure."""
    return "" if failure is None else str(failure) or type(failure).__name__


def pack_failure(text: str) -> tuple[int, bytes]:
    """Returns the length of a text in bytes, and its bytes, truncated to the size of the format."""
    message = text.encode()[:_BYTES]
    return len(message), message


def unpack_failure(length: int, message: bytes) -> str:
    """Returns the text that `pack_failure` has packed; it may have been truncated."""
    return message[:length].decode(errors="replace")
