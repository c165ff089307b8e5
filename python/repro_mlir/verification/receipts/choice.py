# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Parses the choice of the steps or microbatches that a verification runs, and writes steps in the same form."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterable, Sequence

from repro_mlir.base.errors import ReproError
from repro_mlir.verification.receipts.step_log import StepLog


def choose_steps(log: StepLog, text: str, draw: random.Random | None, *, committed: bool) -> list[int]:
    """Returns the steps that `text` selects, see `choose`; if `committed`, only steps that commit to their
    microbatches."""
    there = range(1, log.steps + 1)
    if not committed:
        return choose(text, there, "steps", draw)
    what = "steps that commit to their microbatches"
    known = [step for step in there if log[log.record_of(step)].commitment.microbatches]
    if not known:
        raise ReproError(f"the receipt has no {what}: leave out the choice of microbatches, or choose another receipt")
    chosen = set(choose(text, known if text.startswith("sample:") else there, what, draw))
    if not chosen.intersection(known):
        raise ReproError(f"the receipt has no {what} among the steps {text}")
    return sorted(chosen.intersection(known))


def choose(text: str, numbers: Sequence[int], what: str, draw: random.Random | None = None) -> list[int]:
    """Returns the numbers that "all", "sample:N", "A-B", "A" or a list such as "3,5-7" selects, ascending.

    Args:
      numbers: the available numbers, ascending.
      what: what the numbers count, for error messages.
      draw: the random generator that chooses the sample; by default that of the system, which is unpredictable.
    Raises:
      ReproError: if the text has another format, or selects numbers that are not available.
    """
    if not numbers:
        raise ReproError(f"the receipt has no {what}: choose the receipt of a run that has made some")
    if text == "all":
        return list(numbers)
    sample = re.fullmatch(r"sample:([1-9]\d{0,8})", text)
    if sample:
        return sorted((draw or random.SystemRandom()).sample(numbers, min(int(sample[1]), len(numbers))))
    found = set[int]()
    for part in text.split(","):
        span = re.fullmatch(r" ?(\d{1,9})(?:-(\d{1,9}))?", part)
        if not span:
            raise ReproError(
                f"expected the {what} as all, sample:N with N from 1, A-B, A or a list such as 3,5-7, got {text!r}"
            )
        first, last = int(span[1]), int(span[2] or span[1])
        chosen = [number for number in numbers if first <= number <= last]
        if not numbers[0] <= first <= last <= numbers[-1] or not chosen:
            order = ", the first one first" if last < first else ""
            raise ReproError(f"expected {what} from {numbers[0]} to {numbers[-1]}{order}, got {part.strip()}")
        found.update(chosen)
    return sorted(found)


def ranges_of(numbers: Iterable[int]) -> list[str]:
    """Returns ascending numbers as texts "A-B" or "A", each of which `choose` accepts."""
    runs = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    found = ([number for _, number in run] for _, run in runs)
    return [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found]
