# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Terms: the run on which two parties agree beforehand. A referee checks headers, inputs, programs and state changes of
both parties against the terms."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.verification.dispute import quotas
from repro_mlir.verification.receipts.commitments import Commitment
from repro_mlir.verification.receipts.comparison import first_different_field
from repro_mlir.verification.receipts.form import Signature
from repro_mlir.verification.receipts.receipt import Receipt, digests_of
from repro_mlir.verification.receipts.script_inputs import ScriptSource


@dataclass(frozen=True)
class Due:
    """The agreed data of one record.

    Attributes:
      inputs: the hash (H1) of each input of the step.
      program: the identity (H2) of the step's program; None for a state change.
      state: for a state change, the hash (H1) of each state tensor after it; None for a step.
      signature: the hash (C7) of the names and types of the program's inputs and outputs; None if `program` is None.
    """

    inputs: tuple[bytes, ...]
    program: bytes | None = None
    state: tuple[bytes, ...] | None = None
    signature: bytes | None = None


DueRecord = Callable[[int, Commitment], Due | None]
"""Returns the agreed data of a record, given its number (from 1) and a party's commitment to it; None if unknown."""


@dataclass(frozen=True)
class Terms:
    """The run that the parties agreed on.

    Attributes:
      header: fields that a header must have; other fields are free.
      record: returns the agreed data of each record.
      steps: the number of steps; None if that is free.
    """

    header: Mapping[str, Any]
    record: DueRecord = lambda record, claim: None
    steps: int | None = None

    def first_breach(self, header: Mapping[str, Any]) -> tuple[str, str, str] | None:
        """Returns the first field of a header that breaks the terms: its path, its value and the agreed value; None if
        there is no such field."""
        return first_different_field({name: header.get(name) for name in self.header}, self.header)


def terms_of_receipt(receipt: Receipt) -> Terms:
    """Returns the terms of the run of `receipt`: everything except the results and the number of steps."""

    def due(number: int, claim: Commitment) -> Due | None:
        if not 1 <= number <= receipt.log.records:
            return None
        record = receipt.log[number]
        found = record.commitment
        # After another number of batches, only the kinds of the records can be compared.
        if found.cursor != claim.cursor and (found.program is None) == (claim.program is None):
            return None
        state = found.state if record.program is None else None
        return Due(found.inputs, found.program, state, found.signature)

    return Terms(receipt.header.run(), due)


def terms_of_script(source: ScriptSource, seconds: float = quotas.TOTAL_SECONDS) -> Terms:
    """Returns the terms of the run of a script with `repro train`.

    Args:
      source: the script's batches, none of which has been taken.
      seconds: the time in which the script must yield the batches up to the disputed one.
    Raises:
      ReproError: if the programs of the script depend on the state of the run.
    """
    source.refuse_other_states()
    found: list[Due] = []

    def due(number: int, claim: Commitment) -> Due | None:
        deadline, cursor = time.monotonic() + seconds, claim.cursor
        if claim.steps is not None and claim.program is None:
            # A script's batches do not determine which state changes a user makes.
            return None
        # Batches come in order; the earlier ones are kept because a later call may request them.
        while len(found) < cursor:
            if time.monotonic() > deadline:
                raise ReproError(f"no verdict: {source.script} gave {len(found)} of {cursor} batches in {seconds:g} s")
            inputs = source.take()
            program = source.program
            signature = Signature.of(program).digest
            found.append(Due(digests_of(program.inputs, inputs), bytes.fromhex(program.hash), signature=signature))
        return found[cursor - 1] if cursor >= 1 else None

    return Terms(source.run(), due)
