# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Honest runs, and runs with one wrong operator."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from every_operator import every_operator, inputs
from repro_mlir.dispute import LocalChannel, Prover, RecordedRun, Verdict, settle
from repro_mlir.dispute.terms import Terms
from repro_mlir.operators import Operator, OperatorGraph, Tracer
from repro_mlir.program import Program

STEPS = 64


@functools.cache
def graph() -> OperatorGraph:
    return OperatorGraph(every_operator())


@functools.cache
def honest() -> RecordedRun:
    """A run that nobody may change."""
    return run(graph(), inputs(STEPS))


def run(graph: OperatorGraph, given: Sequence[Sequence[np.ndarray]], program: Program | None = None) -> RecordedRun:
    tracer = Tracer(graph)
    return RecordedRun(program or graph.program, given, lambda _, arrays: tracer.results(arrays), graph=graph)


def flipped(array: np.ndarray, bit: int) -> np.ndarray:
    """A copy with one bit other than before; of an i1 the value."""
    changed = array.copy()
    raw = changed.reshape(-1).view(np.uint8)
    bit %= raw.size if changed.dtype == np.bool_ else raw.size * 8
    if changed.dtype == np.bool_:
        raw[bit] ^= 1
    else:
        raw[bit // 8] ^= np.uint8(1 << bit % 8)
    return changed


def faulty_tracer(graph: OperatorGraph, index: int, bit: int) -> Tracer:
    def override(operator: Operator, values: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        if operator.index != index:
            return values
        position = bit % len(values)
        return tuple(flipped(value, bit) if i == position else value for i, value in enumerate(values))

    return Tracer(graph, override=override)


def faulty(graph: OperatorGraph, given: Sequence[Sequence[np.ndarray]], step: int, index: int, bit: int) -> RecordedRun:
    """As `run`, but at one step one bit of what one operator gives is wrong; all that follows is computed from it."""
    right, wrong = Tracer(graph), faulty_tracer(graph, index, bit)

    def tracer(now: int) -> Tracer:
        return wrong if now == step else right

    return RecordedRun(
        graph.program, given, lambda now, arrays: tracer(now).results(arrays), graph=graph, tracer=tracer
    )


def dispute(first: RecordedRun | Prover, second: RecordedRun | Prover, terms: Terms | None = None) -> Verdict:
    channels = [LocalChannel(run if isinstance(run, Prover) else Prover(run)) for run in (first, second)]
    return settle(*channels, terms=terms)
