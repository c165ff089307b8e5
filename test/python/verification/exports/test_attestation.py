# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The library securesystemslib reads and verifies the envelopes that `repro attest` writes."""

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

FORMATS = ("in-toto", "slsa")


def read(value: dict) -> Envelope:
    # `from_dict` changes its argument.
    return Envelope.from_dict(copy.deepcopy(value))


@pytest.fixture
def public_key(keys: Path) -> SSlibKey:
    key = serialization.load_pem_public_key((keys / "ed25519.pub").read_bytes())
    raw = key.public_bytes_raw().hex()  # type: ignore[union-attr]
    return SSlibKey(raw, "ed25519", "ed25519", {"public": raw})


def test_the_statement_names_all_files(export: Callable[..., bytes], signed: Path, public_key: SSlibKey) -> None:
    value = json.loads(export(signed, "in-toto"))
    assert read(value).verify([public_key], 1)
    statement = json.loads(read(value).payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    names = [subject["name"] for subject in statement["subject"]]
    assert names == sorted(path.relative_to(signed).as_posix() for path in signed.rglob("*") if path.is_file())
    for subject in statement["subject"]:
        found = hashlib.sha256((signed / subject["name"]).read_bytes()).hexdigest()
        assert subject["digest"] == {"sha256": found}
    seal = json.loads((signed / "seal.json").read_bytes())
    assert statement["predicate"]["chain"] == seal["chain"]
    assert statement["predicate"]["state_hash"] == seal["state_hash"]
    assert len(statement["predicate"]["programs"]) == 2


@pytest.mark.parametrize("name", FORMATS)
def test_a_changed_envelope_does_not_verify(
    export: Callable[..., bytes], signed: Path, public_key: SSlibKey, name: str
) -> None:
    value = json.loads(export(signed, name))
    assert read(value).verify([public_key], 1)
    for field, other in (("payload", "e30="), ("payloadType", "application/json")):
        with pytest.raises(VerificationError):
            read({**value, field: other}).verify([public_key], 1)
