# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Hundreds of disputes with adversaries (adversary.py): an honest party never loses, and a cheat loses if it can be
found.

ADVERSARY_DISPUTES=N in the environment runs N disputes instead of a few hundred.
"""

from __future__ import annotations

import os
import time
from collections import Counter

from adversary import CHANGES, attempt, cheats, honest

DISPUTES = int(os.environ.get("ADVERSARY_DISPUTES", "540"))
SECONDS = 20.0
"""The time limit for one dispute, which takes some hundredths of a second."""


def test_an_honest_party_never_loses() -> None:
    outcomes: Counter[str] = Counter()
    assert len(cheats()) > 8 and DISPUTES >= 10 * len(CHANGES)
    for seed in range(DISPUTES):
        begin = time.monotonic()
        tried = attempt(seed)
        assert time.monotonic() - begin < SECONDS, seed
        verdict, other = tried.verdict, "AB".replace(tried.name, "")
        assert other not in verdict.wrong, (seed, verdict)
        outcomes[verdict.outcome] += 1
        if verdict.wrong == (tried.name,):
            continue
        if tried.lies:
            # Without terms, a changed header or number of steps describes another run, and no party is wrong.
            assert not tried.agreed and tried.changed and verdict.outcome in ("header", "length"), (seed, verdict)
        else:
            # The adversary's run is honest, and its change had no effect: the changed answer was never requested or,
            # without terms, describes another run.
            said = ("agreement",) if tried.agreed or not tried.changed else ("agreement", "header", "length")
            assert verdict.outcome in said, (seed, verdict)
    assert outcomes["conduct"] > DISPUTES // 3 and outcomes["operator"] > DISPUTES // 20, outcomes
    assert honest().steps
