# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Identifiers of documents, derived from their contents, so that equal documents have equal identifiers."""

from __future__ import annotations

import uuid

import blake3


def uuid_urn(data: bytes) -> str:
    """Returns the URN of a UUID of version 8 (RFC 9562) from the BLAKE3 hash of the contents of a document."""
    bits = bytearray(blake3.blake3(data).digest()[:16])
    bits[6] = bits[6] & 0x0F | 0x80
    bits[8] = bits[8] & 0x3F | 0x80
    return uuid.UUID(bytes=bytes(bits)).urn
