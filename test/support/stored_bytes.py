# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Encodes the parts of a stored program by hand (docs/verification/identity.md), whether or not they fit each other."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence


def u64(*values: int) -> bytes:
    return b"".join(struct.pack("<Q", value % 2**64) for value in values)


def many(items: Iterable[bytes]) -> bytes:
    items = list(items)
    return u64(len(items)) + b"".join(items)


def string(text: str) -> bytes:
    return u64(len(text.encode())) + text.encode()


def kind(element: str, *shape: int, scalar: bool = False) -> bytes:
    name = element.encode().ljust(16, b"\0")
    return b"\0" + name if scalar else b"\1" + name + many(map(u64, shape))


def op(
    name: str, types: Sequence[bytes] = (), operands: Sequence[int] = (), attributes: bytes = b"", body: bytes = b""
) -> bytes:
    return string(name) + many(types) + many(map(u64, operands)) + attributes + (u64(1) + body if body else u64(0))


def block(arguments: Sequence[bytes], operations: Sequence[bytes]) -> bytes:
    return many(arguments) + many(operations)


def program(
    arguments: Sequence[bytes], results: Sequence[bytes], operations: Sequence[bytes], num_state: int = 0
) -> bytes:
    return b"repro-program-v2\0" + u64(num_state) + many(results) + block(arguments, operations)


def file(body: bytes, *sections: tuple[int, bytes]) -> bytes:
    parts = (struct.pack("<IQ", number, len(contents)) + contents for number, contents in ((0, body), *sections))
    return b"\x89repro-mlir\r\n\x1a\n\0" + struct.pack("<I", 1) + b"".join(parts)


def sections(data: bytes) -> list[tuple[int, bytes]]:
    """Returns the kinds and contents of the sections of a stored program, the body first."""
    at, found = 20, []
    while at < len(data):
        kind, size = struct.unpack_from("<IQ", data, at)
        found.append((kind, data[at + 12 : at + 12 + size]))
        at += 12 + size
    return found
