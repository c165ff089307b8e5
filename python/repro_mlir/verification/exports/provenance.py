# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The provenance of a run by SLSA (slsa.dev/provenance/v1), whose subject is the last state.

docs/verification/exports.md documents the build type.
"""

from __future__ import annotations

from typing import Any

from repro_mlir.verification.exports.dsse import statement_of
from repro_mlir.verification.exports.facts import Facts, File
from repro_mlir.verification.receipts.form import INPUTS

PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:repro-mlir:training-run:v1"
BUILDER = "urn:repro-mlir:signer:ed25519:"
"""The beginning of the builder's identifier; the public key that signs the provenance follows in hexadecimal."""


def provenance(facts: Facts, signer: bytes) -> dict[str, Any]:
    """Returns the in-toto statement with the provenance of the last state.

    Args:
      signer: the public key that signs the statement.
    """
    header, seal = facts.header, facts.seal
    subject = {"name": facts.result.name, "digest": {"sha256": facts.result.sha256, "reproH3": seal.state_hash}}
    internal: dict[str, Any] = {"numerics": header.numerics, "declared": {"environment": header.environment}}
    if header.script is not None:
        internal["declared"]["script"] = {"name": header.script[0], "blake3": header.script[1]}
    predicate = {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": _parameters(facts),
            "internalParameters": internal,
            "resolvedDependencies": _dependencies(facts),
        },
        "runDetails": {
            "builder": {"id": BUILDER + signer.hex()},
            "byproducts": [
                {"name": "chain", "digest": {"reproC5": seal.chain.hex()}},
                *(_described(file) for file in facts.records if file.name != INPUTS),
            ],
        },
    }
    return statement_of([subject], PREDICATE_TYPE, predicate)


def _parameters(facts: Facts) -> dict[str, Any]:
    header = facts.header
    every = {} if header.microbatches_every is None else {"microbatches_every": header.microbatches_every}
    values = {
        each.name: {"first": each.first, "last": each.last, "least": each.least, "greatest": each.greatest}
        for each in facts.hyper_parameters
    }
    steps = {"steps": facts.seal.steps, "changes": len(facts.changed), "batches": facts.taken}
    return {**steps, "nonfinite_loss": header.nonfinite_loss, **every, "hyper_parameters": values}


def _dependencies(facts: Facts) -> list[dict[str, Any]]:
    """Returns the programs, the initial state, the changes by the user, the file of the inputs, and all batches."""
    header = facts.header
    programs = zip(facts.programs, header.programs, strict=True)
    return [
        *(_described(file, reproH2=listed.identity) for file, listed in programs),
        _described(facts.initial, reproC2=header.initial),
        *(_described(file) for file in facts.changes),
        _described(facts.files[INPUTS]),
        {"name": "batches", "digest": {"reproH3": facts.data_hash}},
        *(
            {"name": f"batches/{batch.number}/{name}", "digest": {"reproH1": digest.hex()}}
            for batch in facts.batches
            for name, digest in batch.tensors
        ),
    ]


def _described(file: File, **digests: str) -> dict[str, Any]:
    """Returns the description of a file as in-toto's ResourceDescriptor."""
    return {"name": file.name, "digest": {"sha256": file.sha256, **digests}}
