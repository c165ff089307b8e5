# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""docs/verification/exports.md names each field of the exports that this project chooses."""

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "verification" / "exports.md").read_text()


def named(text: str) -> bool:
    """Returns whether the page contains the name as code, alone or as the end of a path of fields."""
    return f"`{text}`" in PAGE or f".{text}`" in PAGE or f"`repro-mlir:{text}`" in PAGE


def test_fields_of_statements(export: Callable[..., bytes], signed: Path, unsigned: Path) -> None:
    fields = set()
    for receipt in (signed, unsigned):
        value = json.loads(base64.b64decode(json.loads(export(receipt, "slsa"))["payload"]))
        definition = value["predicate"]["buildDefinition"]
        assert definition["buildType"] in PAGE
        internal = definition["internalParameters"]
        fields |= {*definition["externalParameters"], *internal["declared"], *internal} - {"declared"}
        listed = [
            *value["subject"],
            *definition["resolvedDependencies"],
            *value["predicate"]["runDetails"]["byproducts"],
        ]
        fields |= {name for each in listed for name in each["digest"]}
        value = json.loads(base64.b64decode(json.loads(export(receipt, "in-toto"))["payload"]))
        assert value["predicateType"] in PAGE
        fields |= {*value["predicate"]}
    assert {"steps", "environment", "reproH1", "state_hash"} <= fields
    assert [name for name in fields if not named(name)] == []


def test_fields_of_bills(export: Callable[..., bytes], signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    declared = ["--declare", "name=x", "--declare", "released=2026-11-30T12:00:00Z"]
    model = json.loads(export(signed, "cyclonedx", *declared))
    found = [each["name"] for each in model["metadata"]["component"]["properties"]]
    (batches,) = (each for each in model["components"] if each["type"] == "data")
    found += [each["name"] for each in batches["data"][0]["contents"]["properties"]]
    assert "repro-mlir:hash_h3" in found and "repro-mlir:declared:released" in found
    for name in found:
        text = name.removeprefix("repro-mlir:")
        kind, _, which = text.partition(":")
        general = {"program_h2": "program_h2:I", "hyper_parameter": "hyper_parameter:NAME"}.get(kind, text)
        assert name.startswith("repro-mlir:") and named(general), (name, which)
    graph = json.loads(export(signed, "spdx", *declared))["@graph"]
    kinds = {each["type"] for each in graph} - {"CreationInfo", "SpdxDocument", "SoftwareAgent", "Annotation"}
    relations = {each["relationshipType"] for each in graph if each["type"] == "Relationship"}
    fields = {name for each in graph if each["type"] == "ai_AIPackage" for name in each if "_" in name}
    fields -= {"software_primaryPurpose"}
    assert [name for name in kinds | relations | fields if not named(name)] == []
