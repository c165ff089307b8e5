# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Fixtures: keys, and a function that exports a receipt with the command."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from repro_mlir.cli.main import main

STORED = Path(__file__).resolve().parents[3] / "data" / "compatibility"


@pytest.fixture(scope="session")
def signed() -> Path:
    """Returns a signed receipt of two programs, with a change of the state by the user."""
    return STORED / "signed.receipt"


@pytest.fixture(scope="session")
def unsigned() -> Path:
    """Returns a receipt without a signature, whose steps are in microbatches."""
    return STORED / "microbatches.receipt"


@pytest.fixture
def copied(signed: Path, tmp_path: Path) -> Path:
    """Returns a copy of the signed receipt under another name."""
    return Path(shutil.copytree(signed, tmp_path / "another name"))


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the private keys ed25519.pem, P-256.pem, P-384.pem, P-521.pem and secp256k1.pem, and their
    public keys NAME.pub."""
    folder = tmp_path_factory.mktemp("keys")
    curves = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1(), "secp256k1": ec.SECP256K1()}
    made = {name: ec.derive_private_key(7 + i, curve) for i, (name, curve) in enumerate(curves.items())}
    for name, key in [*made.items(), ("ed25519", Ed25519PrivateKey.from_private_bytes(bytes(range(32))))]:
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        (folder / f"{name}.pem").write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
        public = serialization.PublicFormat.SubjectPublicKeyInfo
        (folder / f"{name}.pub").write_bytes(key.public_key().public_bytes(pem, public))
    return folder


@pytest.fixture
def export(tmp_path: Path, keys: Path) -> Callable[..., bytes]:
    """Returns a function that runs `repro attest RECEIPT --format FORMAT` with more options and returns the file. Signs
    with ed25519.pem or P-256.pem, unless another key is named."""

    def run(receipt: Path, format: str, *options: str, key: str | None = None) -> bytes:
        default = {"in-toto": "ed25519", "slsa": "ed25519", "oms": "P-256"}.get(format)
        name = key or default
        sign = [] if name is None else ["--sign", str(keys / f"{name}.pem")]
        output = tmp_path / "export"
        assert main(["attest", str(receipt), "--format", format, *sign, *options, "-o", str(output)]) == 0
        return output.read_bytes()

    return run
