# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Terms: what two parties agreed on before either ran, by which a referee judges data."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from repro_mlir.audit.dispute import quotas
from repro_mlir.audit.receipts.commitments import Commitment
from repro_mlir.audit.receipts.comparison import first_different_field
from repro_mlir.audit.receipts.form import Signature
from repro_mlir.audit.receipts.receipt import Receipt, digests_of
from repro_mlir.audit.receipts.script_inputs import ScriptBatches
from repro_mlir.base.errors import ReproError


@dataclass(frozen=True)
class Due:
    """What a record was to be given.

    Attributes:
      inputs: the hash (H1) of each input of the step.
      program: the identity (H2) of its program; None where the header has it, and of a change.
      state: of a change, the hash (H1) of each state tensor after it; None for a step.
      signature: the hash (C7) of names and types of its inputs and outputs; None where `program` is.
    """

    inputs: tuple[bytes, ...]
    program: bytes | None = None
    state: tuple[bytes, ...] | None = None
    signature: bytes | None = None


DueRecord = Callable[[int, Commitment], Due | None]
"""Gives what a record, from 1, was to be given, of which a party has this commitment; None where nobody knows."""


@dataclass(frozen=True)
class Terms:
    """What was to be run.

    Attributes:
      header: fields that a header must have, or what gives them for a header of either version; fields that are not
        named here are free.
      record: what each record was to be given.
      steps: how many steps; None where that is free.
    """

    header: Mapping[str, Any] | Callable[[Mapping[str, Any]], Mapping[str, Any]]
    record: DueRecord = lambda record, claim: None
    steps: int | None = None

    def first_breach(self, header: Mapping[str, Any]) -> tuple[str, str, str] | None:
        """The first field of a header that breaks the terms: its path, its value and what was agreed."""
        due = self.header(header) if callable(self.header) else self.header
        return first_different_field({name: header.get(name) for name in due}, due)


def terms_of_receipt(receipt: Receipt) -> Terms:
    """What was run in `receipt` is what was to be run; its results, and after how many steps it ended, do not count."""

    def due(number: int, claim: Commitment) -> Due | None:
        if not 1 <= number <= receipt.log.records:
            return None
        record = receipt.log[number]
        found = record.commitment
        if found.cursor != claim.cursor:
            return None
        state = found.state if record.program is None else None
        return Due(found.inputs, found.program, state, found.signature)

    return Terms(receipt.header.run(), due)


def terms_of_script(
    script: str,
    exact_digits: int | None = None,
    precision: str | None = None,
    seconds: float = quotas.TOTAL_SECONDS,
) -> Terms:
    """What `repro train` would run is what was to be run.

    Args:
      seconds: for the script to give the batches up to the disputed one.
    Raises:
      ReproError: a script that cannot be captured.
    """
    source = ScriptBatches(script, exact_digits, precision)
    source.refuse_other_states()
    found: list[Due] = []

    def due(number: int, claim: Commitment) -> Due | None:
        deadline, cursor = time.monotonic() + seconds, claim.cursor
        if claim.steps is not None and claim.program is None:
            # What the user does to the state is no part of a script's batches.
            return None
        # Batches come in their order; those on the way may be asked for later.
        while len(found) < cursor:
            if time.monotonic() > deadline:
                raise ReproError(f"no verdict: {script} gave {len(found)} of {cursor} batches within {seconds:g} s")
            inputs = source.take()
            program = source.program
            signature = Signature.of(program).digest
            found.append(Due(digests_of(program.inputs, inputs), bytes.fromhex(program.hash), signature=signature))
        return found[cursor - 1] if cursor >= 1 else None

    return Terms(source.run, due)
