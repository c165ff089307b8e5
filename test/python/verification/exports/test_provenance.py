# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The provenance by SLSA has the digests of the files and batches of a receipt, and nothing that a receipt lacks."""

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from repro_mlir import Receipt
from repro_mlir.base.numerics.hashing import combine_digests, tensor_digest


def provenance(data: bytes) -> dict[str, Any]:
    statement: dict[str, Any] = json.loads(base64.b64decode(json.loads(data)["payload"]))
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    return statement


def test_the_subject_is_the_last_state(export: Callable[..., bytes], signed: Path) -> None:
    (subject,) = provenance(export(signed, "slsa"))["subject"]
    assert subject["name"] == "checkpoints/6.safetensors"
    assert subject["digest"] == {
        "sha256": hashlib.sha256((signed / "checkpoints" / "6.safetensors").read_bytes()).hexdigest(),
        "reproH3": json.loads((signed / "seal.json").read_bytes())["state_hash"],
    }


def test_dependencies_are_programs_states_and_batches(export: Callable[..., bytes], signed: Path) -> None:
    listed = provenance(export(signed, "slsa"))["predicate"]["buildDefinition"]["resolvedDependencies"]
    found = {each["name"]: each["digest"] for each in listed}
    assert len(found) == len(listed)
    receipt = Receipt(signed)
    # The digests of the batches are computed here from the stored batches; record 4 is the change of the state.
    batches = {}
    for number, record in enumerate((1, 2, 3, 5, 6), 1):
        listed_program = receipt.header.programs[receipt.log[record].program].signature
        count = listed_program.num_hyper_parameters
        for kind, array in zip(listed_program.inputs[count:], receipt.inputs(record)[count:], strict=True):
            batches[f"batches/{number}/{kind.name}"] = tensor_digest(array, kind.element)
    for name, digest in batches.items():
        assert found.pop(name) == {"reproH1": digest.hex()}
    assert found.pop("batches") == {"reproH3": combine_digests([*batches.values()])}
    header = json.loads((signed / "receipt.json").read_bytes())
    for each in header["programs"]:
        assert found[f"programs/{each['identity']}.repro"]["reproH2"] == each["identity"]
    assert found["checkpoints/0.safetensors"]["reproC2"] == header["run"]["initial"]
    assert len(found) == 5 and {"inputs.bin", "changes/4.safetensors"} < {*found}
    for name, digests in found.items():
        assert digests["sha256"] == hashlib.sha256((signed / name).read_bytes()).hexdigest()


def test_details_of_the_run(export: Callable[..., bytes], signed: Path) -> None:
    value = provenance(export(signed, "slsa"))
    seal = json.loads((signed / "seal.json").read_bytes())
    details, definition = value["predicate"]["runDetails"], value["predicate"]["buildDefinition"]
    # The statement lacks the optional metadata: a receipt contains neither times nor an identifier of the run.
    assert {*details} == {"builder", "byproducts"}
    (signature,) = json.loads(export(signed, "slsa"))["signatures"]
    assert details["builder"] == {"id": f"urn:repro-mlir:signer:ed25519:{signature['keyid']}"}
    assert details["byproducts"][0] == {"name": "chain", "digest": {"reproC5": seal["chain"]}}
    assert [each["name"] for each in details["byproducts"][1:]] == ["receipt.json", "steps.jsonl", "seal.json"]
    assert {*definition["internalParameters"]} == {"numerics", "declared"}
    parameters = definition["externalParameters"]
    assert parameters["steps"] == 5 and parameters["changes"] == 1 and parameters["batches"] == 5
    assert [*parameters["hyper_parameters"]] == ["lr", "momentum", "weight_decay"]
    assert {*parameters["hyper_parameters"]["lr"].values()} == {"0.01"}


def test_a_receipt_without_a_signature_and_changes(export: Callable[..., bytes], unsigned: Path) -> None:
    definition = provenance(export(unsigned, "slsa"))["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["changes"] == 0
    assert not any(each["name"].startswith("changes/") for each in definition["resolvedDependencies"])
