# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes keys to files."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_CURVES = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1(), "secp256k1": ec.SECP256K1()}


def write_keys(folder: Path) -> None:
    """Writes the private keys ed25519.pem, P-256.pem, P-384.pem, P-521.pem and secp256k1.pem, the same ones in each
    call, and their public keys NAME.pub."""
    made = {name: ec.derive_private_key(7 + i, curve) for i, (name, curve) in enumerate(_CURVES.items())}
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    for name, key in [*made.items(), ("ed25519", Ed25519PrivateKey.from_private_bytes(bytes(range(32))))]:
        (folder / f"{name}.pem").write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
        public = serialization.PublicFormat.SubjectPublicKeyInfo
        (folder / f"{name}.pub").write_bytes(key.public_key().public_bytes(pem, public))
