# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks the signature of a bundle."""

from __future__ import annotations

from repro_mlir.base.errors import ReproError
from repro_mlir.runner.bundle import Bundle
from repro_mlir.verification.receipts.signing import WEAK, holds, is_strong


def check_signature(bundle: Bundle, expected: bytes | None) -> str | None:
    """Checks the signature of a bundle.

    Args:
      expected: the public key that must have signed the bundle; None to accept any key or no signature.
    Returns:
      the public key of the signature, in hexadecimal; None without a signature.
    Raises:
      ReproError: an expected signature is missing, was made with another key, or is not valid.
    """
    if bundle.signature is None:
        if expected is not None:
            raise ReproError(
                f"{bundle.path}: expected a signature by {expected.hex()}, got none: ask the author for a signed bundle"
            )
        return None
    key, signature = bundle.signature
    if expected is not None and key != expected:
        raise ReproError(
            f"{bundle.path}: expected a signature by {expected.hex()}, got one by {key.hex()}: get the author's public "
            "key from a source that you trust"
        )
    if not is_strong(key):
        raise ReproError(f"{bundle.path}: signed by {key.hex()}, {WEAK}: ask the author for a bundle with another key")
    if not holds(key, signature, bundle.signed_bytes()):
        raise ReproError(f"{bundle.path}: the signature by {key.hex()} is invalid: get the bundle again")
    return key.hex()
