# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The bills of materials have the fields that a receipt proves, with its values, and mark what the author declares.
`make attest-test` validates them with the packages of these formats."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DECLARED = {
    "name": "Digits",
    "supplier": "ACME",
    "location": "https://example.org/digits",
    # Names of licenses are written as in the list of SPDX.
    "license": "apache-2.0",
    "released": "2026-11-30T12:00:00Z",
}
OPTIONS = [word for name, text in DECLARED.items() for word in ("--declare", f"{name}={text}")]
UUID = r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def seal_of(receipt: Path) -> dict[str, Any]:
    seal: dict[str, Any] = json.loads((receipt / "seal.json").read_bytes())
    return seal


def graph_of(data: bytes) -> dict[str, dict[str, Any]]:
    """Returns the elements of an SPDX document by the part of their identifiers after the #. Checks that all
    references are to elements of the document."""
    value = json.loads(data)
    assert value["@context"] == "https://spdx.org/rdf/3.0.1/spdx-context.jsonld"
    creation, *elements = value["@graph"]
    assert creation["created"] == "2023-11-14T22:13:20Z"
    identifiers = [each["spdxId"] for each in elements]
    assert len({*identifiers}) == len(identifiers) and all(re.fullmatch(f"{UUID}#.+", each) for each in identifiers)
    known = {*identifiers, "_:creation"}
    for each in [creation, *elements]:
        for name in ("createdBy", "creationInfo", "from", "to", "subject", "suppliedBy", "rootElement", "element"):
            targets = each.get(name, [])
            for target in targets if isinstance(targets, list) else [targets]:
                assert target in known or target == "expandedlicensing_NoAssertionLicense", target
    return {each["spdxId"].partition("#")[2]: each for each in elements}


def test_spdx_counts_in_english(export: Callable[..., bytes], signed: Path, unsigned: Path) -> None:
    told = [graph_of(export(each, "spdx"))["model"]["ai_informationAboutTraining"] for each in (signed, unsigned)]
    assert told[0].startswith("5 steps of 2 programs under") and "with 1 change of the state" in told[0]
    assert told[1].startswith("2 steps of 1 program under") and "with 0 changes of the state" in told[1]


def test_spdx(export: Callable[..., bytes], signed: Path) -> None:
    graph = graph_of(export(signed, "spdx"))
    model = graph["model"]
    assert {*model} == {
        *("type", "spdxId", "creationInfo", "name", "software_packageVersion", "software_primaryPurpose"),
        *("ai_hyperparameter", "ai_metric", "ai_informationAboutTraining"),
    }
    assert model["name"] == model["software_packageVersion"] == seal_of(signed)["state_hash"]
    values = {each["key"]: each["value"] for each in model["ai_hyperparameter"]}
    assert values == {"lr": "0.01", "momentum": "0.9", "weight_decay": "0.01"}
    assert [each["value"] for each in model["ai_metric"]] == ["0.6834016", "0.8855711"]
    assert "1 change of the state by the user" in model["ai_informationAboutTraining"]
    files = {each["name"]: each for each in graph.values() if each["type"] == "software_File"}
    assert "changes/4.safetensors" in files and "checkpoints/6.safetensors" in files and "seal.json" in files
    for name, file in files.items():
        assert file["verifiedUsing"] == [{"type": "Hash", "algorithm": "sha256", "hashValue": sha256(signed / name)}]
    relations = {each["relationshipType"] for each in graph.values() if each["type"] == "Relationship"}
    assert {"trainedOn", "hasEvidence", "generates", "descendantOf", "modifiedBy", "contains"} <= relations
    assert graph["relationship/declared"]["to"] == ["expandedlicensing_NoAssertionLicense"]
    assert "declaration" not in graph and "ai" not in graph["document"]["profileConformance"]


def test_spdx_with_declarations(export: Callable[..., bytes], signed: Path) -> None:
    """The AI profile requires a supplier, a location and a time of release, which only the author can declare."""
    graph = graph_of(export(signed, "spdx", *OPTIONS))
    model = graph["model"]
    assert graph["document"]["profileConformance"][-1] == "ai"
    assert graph["declaration"]["subject"] == model["spdxId"]
    assert graph["declaration"]["statement"].endswith(": name, supplier, location, license, released.")
    assert model["name"] == "Digits" and model["releaseTime"] == DECLARED["released"]
    assert model["software_downloadLocation"] == DECLARED["location"]
    assert graph["supplier"]["name"] == "ACME" and model["suppliedBy"] == graph["supplier"]["spdxId"]
    assert graph["license"]["simplelicensing_licenseExpression"] == "Apache-2.0"
    assert graph["relationship/concluded"]["to"] == [graph["license"]["spdxId"]]


def test_cyclonedx(export: Callable[..., bytes], signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value = json.loads(export(signed, "cyclonedx"))
    assert re.fullmatch(UUID, value["serialNumber"])
    model = value["metadata"]["component"]
    assert {*model} == {
        *("type", "bom-ref", "name", "version", "hashes", "externalReferences", "modelCard", "properties"),
    }
    assert {*model["modelCard"]} == {"modelParameters", "quantitativeAnalysis"}
    assert model["hashes"] == [{"alg": "SHA-256", "content": sha256(signed / "checkpoints" / "6.safetensors")}]
    properties = {each["name"]: each["value"] for each in model["properties"]}
    seal = seal_of(signed)
    assert properties["repro-mlir:chain"] == seal["chain"] and properties["repro-mlir:changes"] == "1"
    assert properties["repro-mlir:hyper_parameter:momentum"] == "0.9"
    files = {each["name"]: each["hashes"] for each in value["components"] if each["type"] == "file"}
    evidence = {each["url"]: each["hashes"] for each in model["externalReferences"] if each["type"] == "evidence"}
    assert {*evidence} == {"receipt.json", "steps.jsonl", "inputs.bin", "seal.json"}
    for name, hashes in (files | evidence).items():
        assert hashes == [{"alg": "SHA-256", "content": sha256(signed / name)}]
    references = {"model", *(each["bom-ref"] for each in value["components"])}
    assert len(references) == 1 + len(value["components"])
    for each in value["dependencies"]:
        assert {each["ref"], *each["dependsOn"]} <= references
    assert value["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    other = json.loads(export(signed, "cyclonedx"))
    assert "timestamp" not in other["metadata"] and other["serialNumber"] != value["serialNumber"]


def test_cyclonedx_with_declarations(export: Callable[..., bytes], signed: Path) -> None:
    model = json.loads(export(signed, "cyclonedx", *OPTIONS))["metadata"]["component"]
    properties = {each["name"]: each["value"] for each in model["properties"]}
    assert properties["repro-mlir:declared"] == "name, supplier, location, license, released"
    assert properties["repro-mlir:declared:released"] == DECLARED["released"]
    assert model["name"] == "Digits" and model["supplier"] == {"name": "ACME"}
    assert model["licenses"] == [{"expression": "Apache-2.0"}]
    assert model["externalReferences"][0] == {"type": "distribution", "url": DECLARED["location"]}


@pytest.mark.parametrize("name", ["spdx", "cyclonedx"])
def test_nothing_depends_on_the_environment(
    export: Callable[..., bytes], signed: Path, copied: Path, name: str
) -> None:
    """A bill contains neither the declarations of the receipt's writer nor the path of the receipt."""
    data = export(signed, name)
    for text in (b"x86-64-v3", b"Linux", b"3.11.7", b"signed.receipt"):
        assert text not in data
    assert export(copied, name) == data
