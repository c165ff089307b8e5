# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The library securesystemslib reads and verifies the envelopes that `repro attest` writes."""

import copy
import hashlib
import json
import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from receipt_runs import STEPS, train
from repro_mlir import ReceiptOptions
from repro_mlir.cli.main import main
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey


@pytest.fixture(scope="module")
def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("attestation")


@pytest.fixture(scope="module")
def attested(folder: Path, key: Ed25519PrivateKey) -> tuple[Path, dict]:
    """Records a receipt, attests it with the command and returns the receipt's path and the envelope."""
    receipt = folder / "run.receipt"
    train(ReceiptOptions(receipt))
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    output = folder / "run.intoto.json"
    assert main(["attest", str(receipt), "--sign", str(folder / "key.pem"), "-o", str(output)]) == 0
    return receipt, json.loads(output.read_bytes())


def read(value: dict) -> Envelope:
    # `from_dict` changes its argument.
    return Envelope.from_dict(copy.deepcopy(value))


def public_key(key: Ed25519PrivateKey) -> SSlibKey:
    raw = key.public_key().public_bytes_raw().hex()
    return SSlibKey(raw, "ed25519", "ed25519", {"public": raw})


def test_another_library_verifies_the_envelope(attested: tuple[Path, dict], key: Ed25519PrivateKey) -> None:
    receipt, value = attested
    assert read(value).verify([public_key(key)], 1)
    statement = json.loads(read(value).payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    names = [subject["name"] for subject in statement["subject"]]
    assert names == sorted(str(path.relative_to(receipt)) for path in receipt.rglob("*") if path.is_file())
    assert f"checkpoints/{STEPS}.safetensors" in names
    for subject in statement["subject"]:
        found = hashlib.sha256((receipt / subject["name"]).read_bytes()).hexdigest()
        assert subject["digest"] == {"sha256": found}
    seal = json.loads((receipt / "seal.json").read_bytes())
    assert statement["predicate"]["chain"] == seal["chain"]
    assert statement["predicate"]["state_hash"] == seal["state_hash"]


def test_a_changed_envelope_does_not_verify(attested: tuple[Path, dict], key: Ed25519PrivateKey) -> None:
    _, value = attested
    for name, other in (("payload", "e30="), ("payloadType", "application/json")):
        with pytest.raises(VerificationError):
            read({**value, name: other}).verify([public_key(key)], 1)


def test_a_damaged_receipt_is_not_attested(
    attested: tuple[Path, dict], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    receipt = tmp_path / "changed.receipt"
    shutil.copytree(attested[0], receipt)
    with (receipt / "steps.jsonl").open("ab") as file:
        file.write(b"{}\n")
    arguments = ["attest", str(receipt), "--sign", str(folder / "key.pem"), "-o", str(tmp_path / "other.json")]
    assert main(arguments) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "other.json").exists()
