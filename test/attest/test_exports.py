# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Validates the exports of `repro attest` with the packages of their formats, in a separate environment
(`make attest-test`)."""

from __future__ import annotations

import base64
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement
from model_signing import verifying
from repro_mlir.cli.main import main
from spdx_python_model import v3_0_1 as spdx
from support.key_files import write_keys

RECEIPTS = Path(__file__).resolve().parents[1] / "data" / "compatibility"
SIGNED, UNSIGNED = RECEIPTS / "signed.receipt", RECEIPTS / "microbatches.receipt"
DECLARED = [
    *("--declare", "name=Digits", "--declare", "supplier=ACME", "--declare", "license=Apache-2.0"),
    *("--declare", "location=https://example.org/digits", "--declare", "released=2026-11-30T12:00:00Z"),
]
BOTH = pytest.mark.parametrize("receipt", [SIGNED, UNSIGNED], ids=["signed", "unsigned"])
DECLARATIONS = pytest.mark.parametrize("declared", [[], DECLARED], ids=["plain", "declared"])

Export = Callable[..., Path]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the keys of `write_keys`."""
    folder = tmp_path_factory.mktemp("keys")
    write_keys(folder)
    return folder


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Export:
    """Returns a function that runs `repro attest RECEIPT --format FORMAT` with more options and returns the file."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")

    def run(receipt: Path, name: str, *options: object) -> Path:
        output = tmp_path / "export"
        assert main(["attest", str(receipt), "--format", name, *map(str, options), "-o", str(output)]) == 0
        return output

    return run


def statement_of(path: Path) -> dict[str, Any]:
    statement: dict[str, Any] = json.loads(base64.b64decode(json.loads(path.read_bytes())["payload"]))
    return statement


@BOTH
@pytest.mark.parametrize("name", ["in-toto", "slsa"])
def test_statements_have_the_messages_of_in_toto(export: Export, keys: Path, receipt: Path, name: str) -> None:
    """A parser of protocol buffers refuses unknown fields and fields of other types."""
    value = statement_of(export(receipt, name, "--sign", keys / "ed25519.pem"))
    statement = json_format.ParseDict(value, statement_pb2.Statement())
    Statement.copy_from_pb(statement).validate()
    with pytest.raises(json_format.ParseError):
        json_format.ParseDict(value | {"another": 1}, statement_pb2.Statement())


@BOTH
def test_provenance_has_the_messages_of_slsa(export: Export, keys: Path, receipt: Path) -> None:
    predicate = statement_of(export(receipt, "slsa", "--sign", keys / "ed25519.pem"))["predicate"]
    message = json_format.ParseDict(predicate, provenance_pb2.Provenance())
    listed = [*message.build_definition.resolved_dependencies, *message.run_details.byproducts]
    assert len(listed) > 8
    for each in listed:
        ResourceDescriptor.copy_from_pb(each).validate()
    with pytest.raises(json_format.ParseError):
        json_format.ParseDict(predicate | {"metadata": {}}, provenance_pb2.Provenance())


@BOTH
@pytest.mark.parametrize("curve", ["P-256", "P-384", "P-521"])
def test_model_signing_verifies_the_bundle(export: Export, keys: Path, receipt: Path, curve: str) -> None:
    bundle = export(receipt, "oms", "--sign", keys / f"{curve}.pem")
    verifier = verifying.Config().use_elliptic_key_verifier(public_key=keys / f"{curve}.pub")
    verifier.verify(receipt, bundle)


def test_model_signing_refuses_other_files_and_keys(export: Export, keys: Path, tmp_path: Path) -> None:
    bundle = export(SIGNED, "oms", "--sign", keys / "P-256.pem")

    def verify(receipt: Path, key: str = "P-256.pub", path: Path = bundle) -> None:
        verifying.Config().use_elliptic_key_verifier(public_key=keys / key).verify(receipt, path)

    copy = Path(shutil.copytree(SIGNED, tmp_path / "copy"))
    verify(copy)
    checkpoint = copy / "checkpoints" / "6.safetensors"
    data = checkpoint.read_bytes()
    checkpoint.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ValueError, match=r"Hash mismatch for .*checkpoints/6\.safetensors"):
        verify(copy)
    checkpoint.write_bytes(data)
    (copy / "other.safetensors").write_bytes(data)
    with pytest.raises(ValueError, match="Extra files"):
        verify(copy)
    (copy / "other.safetensors").unlink()
    (copy / "seal.json").unlink()
    with pytest.raises(ValueError, match="Missing files"):
        verify(copy)
    with pytest.raises(ValueError, match="Key mismatch"):
        verify(SIGNED, "P-384.pub")
    value = json.loads(bundle.read_bytes())
    payload = base64.b64decode(value["dsseEnvelope"]["payload"]).replace(
        b'"allow_symlinks":false', b'"allow_symlinks":true'
    )
    value["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
    changed = tmp_path / "changed"
    changed.write_text(json.dumps(value))
    with pytest.raises(InvalidSignature):
        verify(SIGNED, path=changed)


@BOTH
@DECLARATIONS
def test_cyclonedx_schemas(export: Export, receipt: Path, declared: list[str]) -> None:
    """The document has the schema of version 1.6, and with another version number that of 1.7."""
    text = export(receipt, "cyclonedx", *declared).read_text()
    for version in (SchemaVersion.V1_6, SchemaVersion.V1_7):
        value = json.loads(text) | {"specVersion": version.to_version()}
        del value["$schema"]
        validator = JsonStrictValidator(version)
        assert validator.validate_str(json.dumps(value)) is None
        assert validator.validate_str(json.dumps(value | {"another": 1})) is not None
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def read_spdx(text: str) -> spdx.SHACLObjectSet:
    objects = spdx.SHACLObjectSet()
    spdx.JSONLDDeserializer().read(io.BytesIO(text.encode()), objects)
    return objects


@BOTH
@DECLARATIONS
def test_spdx_model(export: Export, receipt: Path, declared: list[str]) -> None:
    """The bindings, which are generated from SPDX's SHACL model, read the document without loss, and write it again,
    for which they check the number of values of each property."""
    text = export(receipt, "spdx", *declared).read_text()
    objects = read_spdx(text)
    assert not objects.missing_ids
    written = io.BytesIO()
    spdx.JSONLDSerializer().write(objects, written)
    found, expected = json.loads(written.getvalue()), json.loads(text)
    assert found["@context"] == expected["@context"]

    def ordered(elements: list[dict[str, Any]]) -> list[dict[str, Any]]:
        # The serializer chooses another name of the blank node that is the creation info.
        named = [{name: each[name] for name in each if name not in ("@id", "creationInfo")} for each in elements]
        return sorted(named, key=lambda each: each.get("spdxId", ""))

    assert ordered(found["@graph"]) == ordered(expected["@graph"])


def test_spdx_model_refuses_other_documents(export: Export) -> None:
    text = export(SIGNED, "spdx").read_text()
    for old, new in (
        ('"ai_hyperparameter"', '"ai_another"'),
        ('"algorithm":"sha256"', '"algorithm":"sha257"'),
        ('"relationshipType":"trainedOn"', '"relationshipType":"trainedWith"'),
        ('"created":"2023-11-14T22:13:20Z"', '"created":"yesterday"'),
    ):
        assert old in text
        with pytest.raises((ValueError, KeyError, TypeError)):
            read_spdx(text.replace(old, new))
    model = next(each for each in read_spdx(text).foreach_type("ai_AIPackage"))
    assert len(model.ai_hyperparameter) == 3
