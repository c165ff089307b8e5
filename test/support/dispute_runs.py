# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Honest runs, and runs in which one operator is wrong."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import repro_mlir
from repro_mlir.base.errors import StepFailed
from repro_mlir.program import read_signature
from repro_mlir.program.canonical import to_bytes
from repro_mlir.program.microbatches import StepProgram
from repro_mlir.verification.dispute import LocalChannel, Prover, RecordedRun, Verdict, settle
from repro_mlir.verification.dispute.bounds import Bound, bound
from repro_mlir.verification.dispute.terms import Terms
from repro_mlir.verification.operators import Operator, OperatorGraph, Tracer
from repro_mlir.verification.operators.commitments import OperatorTree

from support.builder import Builder
from support.every_operator import every_operator, inputs

STEPS = 64


@functools.cache
def graph() -> OperatorGraph:
    """Returns the operator graph of `every_operator`."""
    return OperatorGraph(every_operator())


@functools.cache
def honest() -> RecordedRun:
    """Returns the honest run. All callers share the run and must not modify it."""
    return run(graph(), inputs(STEPS))


def run(graph: OperatorGraph, given: Sequence[Sequence[np.ndarray]], program: StepProgram | None = None) -> RecordedRun:
    results = Tracer(graph).results
    return RecordedRun(program or graph.step, given, lambda _, arrays: results(arrays), graph=graph)


@functools.cache
def chain(operators: int) -> OperatorGraph:
    """Returns the graph of a program with `operators` operators: half of them add tensors of two numbers, one after the
    other, and half make empty tensors."""
    b = Builder()
    start = value = b.argument((2,), "f32")
    for _ in range(operators // 2):
        value = b.elementwise("%r0 = arith.addf %x0, %x1 : f32", value, start, element="f32")
    program = read_signature(to_bytes(b.program(value, states=1)))
    return OperatorGraph(dataclasses.replace(program, initial=(np.array([1, -1], np.float32),)))


def flipped(array: np.ndarray, bit: int) -> np.ndarray:
    """Returns a copy of an array with one bit flipped, or with one boolean negated."""
    changed = array.copy()
    raw = changed.reshape(-1).view(np.uint8)
    bit %= raw.size if changed.dtype == np.bool_ else raw.size * 8
    if changed.dtype == np.bool_:
        raw[bit] ^= 1
    else:
        raw[bit // 8] ^= np.uint8(1 << bit % 8)
    return changed


def faulty_tracer(graph: OperatorGraph, index: int, bit: int) -> Tracer:
    """Returns a tracer that flips one bit in a result of operator `index`."""

    def override(operator: Operator, values: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        if operator.index != index:
            return values
        position = bit % len(values)
        return tuple(flipped(value, bit) if i == position else value for i, value in enumerate(values))

    return Tracer(graph, override=override)


Results = Callable[[list[np.ndarray]], list[np.ndarray]]
"""Maps the arguments of a step to its results."""


def faulty(
    graph: OperatorGraph,
    given: Sequence[Sequence[np.ndarray]],
    step: int,
    index: int,
    bit: int,
    results: Results | None = None,
) -> RecordedRun:
    """Returns a run in which one bit of one operator's result is flipped at one step; later values depend on it.

    `results` computes the results of the other steps; by default, the interpreter does.
    """
    right, wrong = Tracer(graph), faulty_tracer(graph, index, bit)
    others = results or right.results

    def execute(now: int, arrays: list[np.ndarray]) -> list[np.ndarray]:
        return wrong.results(arrays) if now == step else others(arrays)

    def tracer(now: int) -> Tracer:
        return wrong if now == step else right

    return RecordedRun(graph.step, given, execute, graph=graph, tracer=tracer)


@functools.cache
def compiled() -> Results:
    """Returns a function that runs a step of `graph()` in compiled code and returns its results."""
    executable = repro_mlir.compile(graph().program, "cpu", 1)
    names = [kind.name for kind in graph().program.state]

    def results(arrays: list[np.ndarray]) -> list[np.ndarray]:
        state = {name: array.copy() for name, array in zip(names, arrays, strict=False)}
        _, outputs = executable(state, *arrays[len(names) :])
        return [*state.values(), *outputs.values()]

    return results


def effective_fault(step: int, index: int, generator: np.random.Generator) -> RecordedRun | None:
    """Returns the honest run with a bit flipped in the results of operator `index` at one step, so that the results of
    the step differ. Tries several bits; returns None if none of them changes the results."""
    for bit in (*generator.integers(0, 4096, 6), 0, 1):
        try:
            cheat = faulty(graph(), honest().inputs, step, index, int(bit), compiled())
        except StepFailed:
            # (E1) The faulty step fails a check of the program.
            continue
        if cheat.links[step] != honest().links[step]:
            return cheat
    return None


def bounds(graph: OperatorGraph, runs: tuple[RecordedRun, RecordedRun], index: int) -> dict[str, Bound]:
    """Returns, by party, the bound on the questions and bytes of a dispute between two runs that ends at operator
    `index`."""
    steps = min(run.steps for run in runs)
    return {
        name: bound(graph, steps, index, len(run.header), first=name == "A")
        for name, run in zip("AB", runs, strict=True)
    }


_trees: weakref.WeakKeyDictionary[Any, dict[int, OperatorTree]] = weakref.WeakKeyDictionary()


class CachedProver(Prover):
    """A prover that shares the trees of a run's steps with other provers of the run, to save time in tests."""

    def tree(self, record: int) -> OperatorTree:
        """Returns the tree of a record, from the cache of this run if it is there."""
        known = _trees.setdefault(self.run, {})
        if record in known:
            self._settle_on_record(record)
            self._tree = known[record]
        return known.setdefault(record, super().tree(record))


def dispute(first: RecordedRun | Prover, second: RecordedRun | Prover, terms: Terms | None = None) -> Verdict:
    """Settles a dispute between two runs or provers in this process and returns the verdict."""
    channels = [LocalChannel(run if isinstance(run, Prover) else CachedProver(run)) for run in (first, second)]
    return settle(*channels, terms=terms)
