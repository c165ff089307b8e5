# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Signs the files of a receipt, with the last state, by Open Model Signing v1.0 (github.com/ossf/model-signing-spec).

The signature is a bundle of Sigstore, whose key is an elliptic-curve key, as the package model-signing requires.
"""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath
from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import canonical_json
from repro_mlir.verification.exports.dsse import envelope_of, signed_text, statement_of
from repro_mlir.verification.exports.facts import Facts
from repro_mlir.verification.receipts.signing import read_private_key

PREDICATE_TYPE = "https://model_signing/signature/v1.0"
MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"

_HASHES = {"secp256r1": "SHA256", "secp384r1": "SHA384", "secp521r1": "SHA512"}
"""The hash of a signature for each curve, as Sigstore defines it."""


class EllipticKey:
    """A private key on one of the curves P-256, P-384 and P-521.

    Attributes:
      hint: the identifier of the public key: the SHA-256 hash of its PEM text, in hexadecimal.
    """

    hint: str

    def __init__(self, path: str | Path) -> None:
        """Reads the key from a PEM file without a password. Raises ReproError if the file is not such a file."""
        key = read_private_key(path)
        curve = getattr(getattr(key, "curve", None), "name", None)
        if curve not in _HASHES:
            raise ReproError(
                f"{path}: expected a private key on the curve P-256, P-384 or P-521 as PEM without password, such as "
                "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 writes"
            )
        from cryptography.hazmat.primitives import serialization

        encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        self.hint = hashlib.sha256(key.public_key().public_bytes(encoding, form)).hexdigest()
        self._key, self._hash = key, _HASHES[curve]

    def sign(self, message: bytes) -> bytes:
        """Returns the signature (RFC 6979, so that equal messages have equal signatures) in DER encoding."""
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        try:
            signature: bytes = self._key.sign(
                message, ec.ECDSA(getattr(hashes, self._hash)(), deterministic_signing=True)
            )
        except UnsupportedAlgorithm as error:
            raise ReproError(
                f"signatures by RFC 6979 need OpenSSL 3.2: pip install -U cryptography ({error})"
            ) from None
        return signature


def model_statement(facts: Facts) -> dict[str, Any]:
    """Returns the in-toto statement that is signed: the files of the receipt in the order of their paths, and as the
    subject the hash of their hashes."""
    files = sorted(facts.files.values(), key=lambda file: PurePosixPath(file.name))
    hashes = b"".join(bytes.fromhex(file.sha256) for file in files)
    subject = {"name": facts.seal.state_hash, "digest": {"sha256": hashlib.sha256(hashes).hexdigest()}}
    predicate = {
        "serialization": {"method": "files", "hash_type": "sha256", "allow_symlinks": False},
        "resources": [{"name": file.name, "algorithm": "sha256", "digest": file.sha256} for file in files],
    }
    return statement_of([subject], PREDICATE_TYPE, predicate)


def model_bundle(facts: Facts, key: EllipticKey) -> bytes:
    """Returns the JSON text of the bundle of `model_statement`, signed by `key`."""
    payload = canonical_json.dump(model_statement(facts))
    bundle = {
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {"publicKey": {"hint": key.hint}, "tlogEntries": []},
        "dsseEnvelope": envelope_of(payload, "", key.sign(signed_text(payload))),
    }
    return canonical_json.dump(bundle)
