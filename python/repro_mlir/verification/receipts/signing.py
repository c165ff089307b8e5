# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Ed25519 signatures of finished receipts and of bundles, with the package `cryptography`; private keys for exports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from repro_mlir.base.compiler import install_extra
from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.base.files.regular import read_regular
from repro_mlir.verification.receipts.form import SEAL, Seal

WEAK = "a weak public key (of small order, or not canonically encoded), with which anybody could sign"

_PRIME = 2**255 - 19
# The y coordinate of points of order 8 is this constant or its negative; y = 0, 1 and -1 have the orders 4, 1 and 2.
_EIGHTH = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = {0, 1, _PRIME - 1, _EIGHTH, _PRIME - _EIGHTH}

_KEY_LIMIT = 1 << 16
"""The maximum number of bytes of a key file."""


class PrivateKey:
    """An ed25519 private key.

    Attributes:
      public: the 32 bytes of the public key.
    """

    public: bytes

    def __init__(self, path: str | Path) -> None:
        """Reads the key from a PEM file without a password. Raises ReproError if the file is not such a file."""
        _, _, ed25519 = _cryptography()
        key = read_private_key(path)
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise ReproError(f"{path}: expected an ed25519 private key as PEM without password")
        self._key = key
        self.public = key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> tuple[bytes, bytes]:
        """Returns the public key (32 bytes) and the signature of a message (64 bytes)."""
        return self.public, self._key.sign(message)


def read_private_key(path: str | Path) -> Any:
    """Returns the private key of any kind in a PEM file, as an object of `cryptography`; None if the file is not a PEM
    file with a private key without a password, or the kind is unknown. Raises ReproError if the file cannot be read."""
    exceptions, serialization, _ = _cryptography()
    try:
        return serialization.load_pem_private_key(_read_key(path), password=None)
    except (ValueError, TypeError, exceptions.UnsupportedAlgorithm):
        return None


def read_public_key(path: str | Path) -> bytes:
    """Returns the 32 bytes of the public key in a PEM file. Raises ReproError if the file is not such a file, or the
    key is weak."""
    _, serialization, ed25519 = _cryptography()
    try:
        key = serialization.load_pem_public_key(_read_key(path))
    except ValueError:
        key = None
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise ReproError(f"{path}: expected an ed25519 public key as PEM")
    raw: bytes = key.public_bytes_raw()
    if not is_strong(raw):
        raise ReproError(f"{path}: {WEAK}: ask the author for another key")
    return raw


def holds(key: bytes, signature: bytes, message: bytes) -> bool:
    """Returns whether a signature of a message is valid under a public key; False for a weak key."""
    exceptions, _, ed25519 = _cryptography()
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (exceptions.InvalidSignature, ValueError):
        return False
    return is_strong(key)


def is_strong(key: bytes) -> bool:
    """Returns whether 32 bytes are the canonical encoding of a point that is not of small order.

    For a point of small order, some signatures are valid for many messages, and can be made without a private key.
    """
    y = int.from_bytes(key, "little") & ((1 << 255) - 1)
    return y < _PRIME and y not in _SMALL_ORDER


def check(seal: Seal, expected: bytes | None) -> None:
    """Checks the signature of a seal, if it has one.

    Args:
      expected: the public key that must have signed; None to accept any key or no signature.
    Raises:
      ReceiptWrong: if an expected signature is missing, or the signature is invalid, or was made with another key or a
        weak key.
    """
    if seal.signature is None:
        if expected is not None:
            message = f"expected a signature by {expected.hex()}, got none: ask the author for a signed receipt"
            raise ReceiptWrong(SEAL, message)
        return
    key, signature = seal.signature
    if expected is not None and key != expected:
        message = (
            "signed by another key than the given one: the given key is not the author's, or somebody else has signed "
            "the receipt; get the author's public key from a source that you trust"
        )
        raise ReceiptWrong(SEAL, message, None, expected.hex(), key.hex(), is_given=True)
    if not is_strong(key):
        raise ReceiptWrong(SEAL, f"signed by {key.hex()}, {WEAK}: ask the author for another receipt")
    if not holds(key, signature, seal.signed_bytes()):
        message = (
            f"the signature by {key.hex()} is invalid: the receipt was changed after it was signed, or the holder of "
            "this key has not signed it; get the receipt again"
        )
        raise ReceiptWrong(SEAL, message)


def _read_key(path: str | Path) -> bytes:
    return read_regular(path, _KEY_LIMIT, follow=True)


def _cryptography() -> tuple[Any, Any, Any]:
    try:
        from cryptography import exceptions
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise ReproError(f"signatures need cryptography: {install_extra('sign')} ({error})") from None
    return exceptions, serialization, ed25519
