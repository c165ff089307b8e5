# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A bill of materials of a run in SPDX 3.0.1 (spdx.github.io/spdx-spec/v3.0.1), as JSON-LD."""

from __future__ import annotations

from typing import Any

from repro_mlir.base.files import canonical_json
from repro_mlir.base.printing import count_of
from repro_mlir.base.version import __version__
from repro_mlir.verification.exports.declared import Declared
from repro_mlir.verification.exports.facts import Facts, File
from repro_mlir.verification.exports.identifiers import uuid_urn
from repro_mlir.verification.receipts.form import INPUTS

CONTEXT = "https://spdx.org/rdf/3.0.1/spdx-context.jsonld"
_NO_LICENSE = "expandedlicensing_NoAssertionLicense"
_CREATION = "_:creation"


def spdx_document(facts: Facts, declared: Declared, created: str) -> bytes:
    """Returns the JSON-LD text. The identifiers of its elements derive from its contents.

    Args:
      declared: what the author declares; an annotation names these fields.
      created: the time that the document states as its creation, which SPDX requires.
    """
    unnamed = canonical_json.dump(_document(facts, declared, created, ""))
    return canonical_json.dump(_document(facts, declared, created, uuid_urn(unnamed)))


def _document(facts: Facts, declared: Declared, created: str, namespace: str) -> dict[str, Any]:
    graph = _Graph(namespace)
    agent = graph.add("agent", "SoftwareAgent", name=f"repro-mlir {__version__}")
    model = graph.add("model", "ai_AIPackage", **_model(facts, declared, graph))
    batches = graph.add(
        "batches",
        "dataset_DatasetPackage",
        name="batches",
        comment=f"{count_of(len(facts.batches), 'batch', 'batches')}, {facts.different_batches} of them different. "
        "The hash is the hash (H3) of the hashes (H1) of all tensors of the batches, in the order of the steps; "
        "steps.jsonl lists these hashes.",
        dataset_datasetType=["noAssertion"],
        software_primaryPurpose="data",
        verifiedUsing=[{"type": "Hash", "algorithm": "other", "hashValue": facts.data_hash}],
    )
    files = {
        file.name: graph.add_file(file)
        for file in [*facts.programs, facts.initial, *facts.changes, facts.result, *facts.records]
    }
    license = _license(declared, graph)
    graph.relate("declared", model, "hasDeclaredLicense", [license])
    graph.relate("concluded", model, "hasConcludedLicense", [license])
    graph.relate("trained-on", model, "trainedOn", [batches])
    graph.relate("data-file", batches, "hasDataFile", [files[INPUTS]])
    graph.relate("contains", model, "contains", [files[facts.result.name]])
    graph.relate("descends", model, "descendantOf", [files[facts.initial.name]])
    if facts.changed:
        graph.relate("modified", model, "modifiedBy", [files[file.name] for file in facts.changes])
    for i, file in enumerate(facts.programs):
        graph.relate(f"generates-{i}", files[file.name], "generates", [model])
    graph.relate("evidence", model, "hasEvidence", [files[file.name] for file in facts.records])
    if declared.made():
        graph.add(
            "declaration",
            "Annotation",
            annotationType="other",
            subject=model,
            statement=f"Declared by the author, and not proven by the receipt: {', '.join(declared.made())}.",
        )
    graph.add(
        "document",
        "SpdxDocument",
        name="Bill of materials of a training run",
        comment="States what the files of a receipt state. repro verify checks it by computing steps again.",
        profileConformance=["core", "software", "simpleLicensing", *(["ai"] if _has_all(declared) else [])],
        rootElement=[model],
        element=[each["spdxId"] for each in graph.elements],
    )
    creation = {
        "type": "CreationInfo",
        "@id": _CREATION,
        "specVersion": "3.0.1",
        "created": created,
        "createdBy": [agent],
    }
    return {"@context": CONTEXT, "@graph": [creation, *graph.elements]}


def _has_all(declared: Declared) -> bool:
    """Returns whether all fields are declared that the AI profile requires and a receipt does not contain."""
    return None not in (declared.supplier, declared.location, declared.released)


def _model(facts: Facts, declared: Declared, graph: _Graph) -> dict[str, Any]:
    header, seal = facts.header, facts.seal
    losses = (("loss of the first step", facts.first_loss), ("loss of the last step", facts.last_loss))
    taken: dict[str, Any] = {}
    if declared.supplier is not None:
        taken["suppliedBy"] = graph.add("supplier", "Organization", name=declared.supplier)
    if declared.location is not None:
        taken["software_downloadLocation"] = declared.location
    if declared.released is not None:
        taken["releaseTime"] = declared.released
    elements = {
        "ai_hyperparameter": [_entry(each.name, str(each)) for each in facts.hyper_parameters],
        "ai_metric": [_entry(name, value) for name, value in losses if value is not None],
    }
    return {
        "name": declared.name or seal.state_hash,
        "software_packageVersion": seal.state_hash,
        "software_primaryPurpose": "model",
        "ai_informationAboutTraining": f"{count_of(seal.steps, 'step')} of "
        f"{count_of(len(header.programs), 'program')} under numerics "
        f"{header.numerics}, from the initial state with the root {header.initial}, with "
        f"{count_of(len(facts.changed), 'change')} of the state by the user; last link of the chain: "
        f"{seal.chain.hex()}; hash (H3) of the last state: {seal.state_hash}.",
        **{name: entries for name, entries in elements.items() if entries},
        **taken,
    }


def _license(declared: Declared, graph: _Graph) -> str:
    if declared.license is None:
        return _NO_LICENSE
    return graph.add("license", "simplelicensing_LicenseExpression", simplelicensing_licenseExpression=declared.license)


def _entry(key: str, value: str) -> dict[str, str]:
    return {"type": "DictionaryEntry", "key": key, "value": value}


class _Graph:
    """The elements of a document, which share the creation info.

    Attributes:
      elements: the elements in the order in which they were added.
    """

    def __init__(self, namespace: str) -> None:
        """
        Args:
          namespace: the beginning of the identifiers of the elements, without the "#" that follows it.
        """
        self.elements: list[dict[str, Any]] = []
        self._namespace = namespace

    def add(self, key: str, kind: str, **values: Any) -> str:
        """Adds an element and returns its identifier, which ends with `key`."""
        identifier = f"{self._namespace}#{key}"
        self.elements.append({"type": kind, "spdxId": identifier, "creationInfo": _CREATION, **values})
        return identifier

    def add_file(self, file: File) -> str:
        """Adds a file of the receipt, and returns the identifier of the element."""
        return self.add(
            f"file/{file.name}",
            "software_File",
            name=file.name,
            verifiedUsing=[{"type": "Hash", "algorithm": "sha256", "hashValue": file.sha256}],
        )

    def relate(self, name: str, source: str, kind: str, others: list[str]) -> None:
        """Adds a relationship of one element to others."""
        self.add(f"relationship/{name}", "Relationship", **{"from": source, "relationshipType": kind, "to": others})
