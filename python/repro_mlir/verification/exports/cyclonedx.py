# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A bill of materials of a run in CycloneDX 1.6 (cyclonedx.org), with a model card."""

from __future__ import annotations

from typing import Any

from repro_mlir.base.files import canonical_json
from repro_mlir.base.version import __version__
from repro_mlir.verification.exports.declared import Declared
from repro_mlir.verification.exports.facts import Facts, File
from repro_mlir.verification.exports.identifiers import uuid_urn
from repro_mlir.verification.receipts.form import INPUTS

_SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"


def cyclonedx_document(facts: Facts, declared: Declared, created: str | None) -> bytes:
    """Returns the JSON text. The serial number derives from the contents.

    Args:
      declared: what the author declares; a property of the model names these fields.
      created: the time that the document states as its creation; None to state none.
    """
    value = _document(facts, declared, created)
    return canonical_json.dump(value | {"serialNumber": uuid_urn(canonical_json.dump(value))})


def _document(facts: Facts, declared: Declared, created: str | None) -> dict[str, Any]:
    tools = {"components": [{"type": "application", "name": "repro-mlir", "version": __version__}]}
    data = {
        "type": "data",
        "bom-ref": "batches",
        "name": "batches",
        "data": [{"type": "dataset", "name": "batches", "contents": {"properties": _properties(_of_batches(facts))}}],
    }
    needed = [*facts.programs, facts.initial, *facts.changes, facts.files[INPUTS]]
    return {
        "$schema": _SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            **({} if created is None else {"timestamp": created}),
            "tools": tools,
            "component": _model(facts, declared),
        },
        "components": [data, *(_file(file) for file in [facts.result, *needed])],
        "dependencies": [
            {"ref": "model", "dependsOn": ["batches", *(file.name for file in [facts.result, *needed])]},
            {"ref": "batches", "dependsOn": [INPUTS]},
        ],
    }


def _of_batches(facts: Facts) -> dict[str, object]:
    return {
        "batches": len(facts.batches),
        "different_batches": facts.different_batches,
        "stored": str(facts.header.stored).lower(),
        "hash_h3": facts.data_hash,
    }


def _model(facts: Facts, declared: Declared) -> dict[str, Any]:
    header, seal = facts.header, facts.seal
    losses = (("loss of the first step", facts.first_loss), ("loss of the last step", facts.last_loss))
    metrics = [{"type": name, "value": value} for name, value in losses if value is not None]
    stated = {
        "state_hash_h3": seal.state_hash,
        "initial_root_c3": header.initial,
        "chain": seal.chain.hex(),
        "numerics": header.numerics,
        "steps": seal.steps,
        "changes": len(facts.changed),
        **{f"program_h2:{i}": each.identity for i, each in enumerate(header.programs)},
        **{f"hyper_parameter:{each.name}": each for each in facts.hyper_parameters},
        **({"declared": ", ".join(declared.made())} if declared.made() else {}),
        **({"declared:released": declared.released} if declared.released else {}),
    }
    location = [{"type": "distribution", "url": declared.location}] if declared.location else []
    return {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": declared.name or seal.state_hash,
        "version": seal.state_hash,
        **({"supplier": {"name": declared.supplier}} if declared.supplier else {}),
        **({"licenses": [{"expression": declared.license}]} if declared.license else {}),
        "hashes": _hashes(facts.result),
        "externalReferences": [
            *location,
            *({"type": "evidence", "url": file.name, "hashes": _hashes(file)} for file in facts.records),
        ],
        "modelCard": {
            "modelParameters": {"datasets": [{"ref": "batches"}]},
            **({"quantitativeAnalysis": {"performanceMetrics": metrics}} if metrics else {}),
        },
        "properties": _properties(stated),
    }


def _file(file: File) -> dict[str, Any]:
    return {"type": "file", "bom-ref": file.name, "name": file.name, "hashes": _hashes(file)}


def _hashes(file: File) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": file.sha256}]


def _properties(values: dict[str, Any]) -> list[dict[str, str]]:
    return [{"name": f"repro-mlir:{name}", "value": str(value)} for name, value in values.items()]
