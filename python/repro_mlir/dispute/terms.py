# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Terms: what two parties agreed on before either ran, by which a referee judges data."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ReproError
from ..receipts.comparison import first_different_field
from ..receipts.receipt import Receipt, digests_of
from ..receipts.script_inputs import ScriptBatches
from . import limits

DueInputs = Callable[[int, int], tuple[bytes, ...] | None]
"""Gives the hash (H1) of each input of a step, from 1, after which so many batches have been taken from the data; None
where nobody knows."""


@dataclass(frozen=True)
class Terms:
    """What was to be run.

    Attributes:
      header: fields that a header must have; fields that are not named here are free.
      inputs: what each step was to be given.
      steps: how many steps; None where that is free.
    """

    header: Mapping[str, Any]
    inputs: DueInputs = lambda step, cursor: None
    steps: int | None = None

    def first_breach(self, header: Mapping[str, Any]) -> tuple[str, str, str] | None:
        """The first field of a header that breaks the terms: its path, its value and what was agreed."""
        return first_different_field({name: header.get(name) for name in self.header}, self.header)


def terms_of_receipt(receipt: Receipt) -> Terms:
    """What was run in `receipt` is what was to be run; its results, and after how many steps it ended, do not count."""

    def due(step: int, cursor: int) -> tuple[bytes, ...] | None:
        if not 1 <= step <= receipt.log.steps:
            return None
        commitment = receipt.log[step].commitment
        return commitment.inputs if commitment.cursor == cursor else None

    return Terms(receipt.header.run(), due)


def terms_of_script(script: str, exact_digits: int | None = None, seconds: float = limits.TOTAL_SECONDS) -> Terms:
    """What `repro train` would run is what was to be run.

    Args:
      seconds: for the script to give the batches up to the disputed one.
    Raises:
      ReproError: a script that cannot be captured.
    """
    source = ScriptBatches(script, exact_digits)
    program = source.program
    found: list[tuple[bytes, ...]] = []

    def due(step: int, cursor: int) -> tuple[bytes, ...] | None:
        deadline = time.monotonic() + seconds
        # Batches come in their order; those on the way may be asked for later.
        while len(found) < cursor:
            if time.monotonic() > deadline:
                raise ReproError(f"no verdict: {script} gave {len(found)} of {cursor} batches within {seconds:g} s")
            found.append(digests_of(program.inputs, source.take()))
        return found[cursor - 1] if cursor >= 1 else None

    return Terms(source.run, due)
