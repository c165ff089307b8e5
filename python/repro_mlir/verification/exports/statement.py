# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The in-toto statement of a receipt: all of its files, with the programs and results of the run."""

from __future__ import annotations

from typing import Any

from repro_mlir.verification.exports.dsse import statement_of
from repro_mlir.verification.exports.facts import Facts

PREDICATE_TYPE = "urn:repro-mlir:receipt:v2"


def receipt_statement(facts: Facts) -> dict[str, Any]:
    """Returns the in-toto statement of a receipt. The subjects are all files of the receipt, each with its SHA-256; the
    predicate describes the run."""
    header, seal = facts.header, facts.seal
    predicate = {
        "programs": [each.identity for each in header.programs],
        "numerics": header.numerics,
        "initial": header.initial,
        "steps": seal.steps,
        "chain": seal.chain.hex(),
        "state_hash": seal.state_hash,
    }
    subjects = [{"name": file.name, "digest": {"sha256": file.sha256}} for file in facts.files.values()]
    return statement_of(subjects, PREDICATE_TYPE, predicate)
