# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Bundles by Open Model Signing are signed by keys on three curves. `make attest-test` verifies them with the package
model-signing."""

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from repro_mlir.cli.main import main

CURVES = {"P-256": hashes.SHA256(), "P-384": hashes.SHA384(), "P-521": hashes.SHA512()}


@pytest.mark.parametrize("curve", CURVES)
def test_the_signature_is_valid(export: Callable[..., bytes], signed: Path, keys: Path, curve: str) -> None:
    data = export(signed, "oms", key=curve)
    assert export(signed, "oms", key=curve) == data
    bundle = json.loads(data)
    public = (keys / f"{curve}.pub").read_bytes()
    assert bundle["verificationMaterial"]["publicKey"]["hint"] == hashlib.sha256(public).hexdigest()
    payload = base64.b64decode(bundle["dsseEnvelope"]["payload"])
    text = b"DSSEv1 28 application/vnd.in-toto+json %d %s" % (len(payload), payload)
    signature = base64.b64decode(bundle["dsseEnvelope"]["signatures"][0]["sig"])
    key = serialization.load_pem_public_key(public)
    assert isinstance(key, ec.EllipticCurvePublicKey)
    key.verify(signature, text, ec.ECDSA(CURVES[curve]))
    with pytest.raises(InvalidSignature):
        key.verify(signature, text + b" ", ec.ECDSA(CURVES[curve]))


def test_all_files_are_signed(export: Callable[..., bytes], signed: Path) -> None:
    statement = json.loads(base64.b64decode(json.loads(export(signed, "oms"))["dsseEnvelope"]["payload"]))
    assert statement["predicateType"] == "https://model_signing/signature/v1.0"
    resources = {each["name"]: each["digest"] for each in statement["predicate"]["resources"]}
    files = [path.relative_to(signed) for path in signed.rglob("*") if path.is_file()]
    assert [*resources] == [path.as_posix() for path in sorted(files)]
    for name, digest in resources.items():
        assert hashlib.sha256((signed / name).read_bytes()).hexdigest() == digest
    root = hashlib.sha256(b"".join(map(bytes.fromhex, resources.values()))).hexdigest()
    assert [each["digest"] for each in statement["subject"]] == [{"sha256": root}]


@pytest.mark.parametrize("name", ["ed25519.pem", "secp256k1.pem", "P-256.pub"])
def test_other_keys_are_refused(
    signed: Path, keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    output = tmp_path / "bundle"
    assert main(["attest", str(signed), "--format", "oms", "--sign", str(keys / name), "-o", str(output)]) == 2
    assert "expected a private key on the curve P-256, P-384 or P-521" in capsys.readouterr().err
    assert not output.exists()
