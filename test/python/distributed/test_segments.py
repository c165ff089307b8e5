# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(T3) The results that owners compute for random programs have the bits of the interpreter."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from loopback import make_loopback, run_ranks
from repro_mlir.base.numerics.tensors import canonical_of
from repro_mlir.distributed import Ranks
from repro_mlir.execute.executable import compile
from repro_mlir.execute.segments import run_steps
from repro_mlir.program.canonical import examine, to_bytes
from repro_mlir.program.partition import Call, assign_owners
from repro_mlir.program.program import read_signature
from support import random_programs


def owned_results(number: int, target: str) -> int:
    """Checks that a random program on ranks returns the interpreter's results. Returns the number of arguments that one
    rank owns."""
    case = random_programs.program(number)
    program = read_signature(to_bytes(case.program))
    kinds, results = [*program.state, *program.inputs], [*program.state, *program.outputs]
    arrays = [
        canonical_of(np.ascontiguousarray(array).view(kind.dtype).reshape(kind.shape), kind.element)
        for array, kind in zip(case.inputs, kinds, strict=True)
    ]
    count = len(program.state)
    state = {kind.name: array.copy() for kind, array in zip(program.state, arrays, strict=False)}
    _, outputs = compile(program, "reference", 1)(state, *arrays[count:])
    want = [np.asarray(each) for each in (*state.values(), *outputs.values())]

    choose = random.Random(~number)
    kept = examine(program.data).kept
    positions = [i for i in range(len(kinds)) if i not in kept and choose.random() < 0.7]
    transports = make_loopback(choose.choice([2, 3, 5]))
    ranks = [Ranks(each) for each in transports]
    plans = [assign_owners(program, each.size, each.rank, positions) for each in ranks]
    segments = [[compile(each, target, 1) for each in plan.segments] for plan in plans]
    found: list[Any] = [None] * len(ranks)

    def work(rank: int) -> None:
        plan = plans[rank]

        def call(step: Call, values: Any) -> dict[int, np.ndarray]:
            segment = segments[rank][step.segment]
            states = [values[i].copy() for i in step.operands[: len(segment.program.state)]]
            gives = [np.empty(kind.shape, kind.dtype) for kind in segment.program.outputs]
            segment.write(states, [values[i] for i in step.operands[len(states) :]], gives)
            return dict(zip(step.results, gives, strict=True))

        # Arguments that another rank owns get meaningless values, which would show if this rank read them.
        values = {
            i: array.copy() if owner in (None, rank) else np.frombuffer(b"\xa5" * array.nbytes, array.dtype)
            for i, (array, owner) in enumerate(zip(arrays, plan.owners, strict=True))
        }
        try:
            failure = run_steps(plan, ranks[rank], values, call)
            found[rank] = failure or [values[i] for i in plan.results]
        except BaseException as error:
            found[rank] = error
            transports[rank].leave()

    run_ranks(len(ranks), work)
    for rank, gave in enumerate(found):
        assert isinstance(gave, list), (number, rank, gave)
        owners = [*plans[rank].owners[:count], *[None] * len(program.outputs)]
        for kind, owner, own, due in zip(results, owners, gave, want, strict=True):
            if owner in (None, rank):
                ours, right = (canonical_of(each.reshape(kind.shape), kind.element) for each in (own, due))
                assert ours.tobytes() == right.tobytes(), (number, rank, kind)
    return sum(owner is not None for owner in plans[0].owners)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_T3_random_programs(first: int) -> None:
    owned = [owned_results(number, "cpu" if number % 20 == 0 else "reference") for number in range(first, first + 20)]
    assert sum(each > 0 for each in owned) >= 5
