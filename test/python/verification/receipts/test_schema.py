# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""docs/schemas/receipt.schema.json accepts receipts, and refuses values that the package's reader refuses."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from forgery import damage
from repro_mlir import Receipt, ReproError
from repro_mlir.base.files import canonical_json
from repro_mlir.verification.receipts.form import Header, Record, Seal

jsonschema = pytest.importorskip("jsonschema")

SCHEMA = json.loads((Path(__file__).parents[4] / "docs" / "schemas" / "receipt.schema.json").read_text())
VALUES = [None, True, 0, -1, 3, "", "x", "0" * 64, "0" * 128, "stored", "f32", [], {}, ["a"], {"a": "b"}]


def validator(part: str) -> Any:
    return jsonschema.Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{part}"})


def readable(part: str, value: Any, header: Header) -> bool:
    data = canonical_json.dump(value)
    try:
        if part == "receipt":
            Header.load(data, "here")
        elif part == "step":
            Record.load(data, header, "here")
        else:
            Seal.load(data, "here")
    except ReproError as error:
        # Errors with these texts are about rules that a JSON schema cannot express, so the schema accepts such values.
        return any(text in str(error) for text in ("name occurs twice", "hyper-parameters, got", "digests of"))
    return True


@pytest.mark.parametrize("part", ["receipt", "step", "seal"])
def test_the_schema_agrees_with_the_reader(finished: Path, part: str) -> None:
    name = {"receipt": "receipt.json", "step": "steps.jsonl", "seal": "seal.json"}[part]
    honest = json.loads((finished / name).read_bytes().splitlines()[0])
    if part == "seal":
        honest["signature"] = {"key": "0" * 64, "ed25519": "1" * 128}
    header = Receipt(finished).header
    check = validator(part)
    assert check.is_valid(honest) and readable(part, honest, header)
    draw = random.Random(2)
    refused = 0
    for _ in range(400):
        value = copy.deepcopy(honest)
        key = damage(value, draw, VALUES)
        assert check.is_valid(value) == readable(part, value, header), (key, value)
        refused += not check.is_valid(value)
    assert refused > 100
