# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs one program on two sides, step by step, until their results differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from repro_mlir.base.numerics.tensors import TensorType, parts_of
from repro_mlir.verification.difference.report import Difference, OperatorDifference, TensorDifference, compare
from repro_mlir.verification.executors import compile_step
from repro_mlir.verification.operators import Operator, OperatorGraph, Tracer

Arrays = list[np.ndarray]

_LISTED = 200
"""The maximum number of operators that a report lists."""


class Side(Protocol):
    """A way to run a program. Arrays are in the representation of base/numerics/tensors.py."""

    name: str

    def results(self, arrays: Sequence[np.ndarray]) -> Arrays:
        """Returns the new state and the outputs of a step, given the state before the step and the step's inputs."""

    def values(self, arrays: Sequence[np.ndarray]) -> Iterator[tuple[Operator, tuple[np.ndarray, ...] | None]]:
        """Yields each operator in order with its results (`Operator.outputs`), or with None if this side does not know
        them."""

    def source(self, operator: Operator) -> Operator:
        """Returns the operator to which a difference in the result of `operator` is attributed: `operator` itself or,
        if it only moves data, the operator that computed the data."""


class TargetSide:
    """Implements `Side`: runs a program on one of the targets of `repro_mlir.compile`."""

    def __init__(self, graph: OperatorGraph, target: str, threads: int | None = None) -> None:
        self.name = target
        self._graph = graph
        self._executable = compile_step(graph.step, target, threads)
        self._tracer = Tracer(graph, target, threads)

    def results(self, arrays: Sequence[np.ndarray]) -> Arrays:
        program = self._graph.program
        count = len(program.state)
        state = {kind.name: array.copy() for kind, array in zip(program.state, arrays[:count], strict=True)}
        _, outputs = self._executable(state, *arrays[count:])
        return [*state.values(), *map(parts_of, outputs.values())]

    def values(self, arrays: Sequence[np.ndarray]) -> Iterator[tuple[Operator, tuple[np.ndarray, ...] | None]]:
        yield from self._tracer.run(arrays)

    def source(self, operator: Operator) -> Operator:
        return operator


def find_difference(
    graph: OperatorGraph,
    sides: tuple[Side, Side],
    inputs: Callable[[], Sequence[np.ndarray]],
    steps: int,
    ulps: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> Difference | None:
    """Runs both sides from the initial state on the same inputs, each on its own state, until results differ.

    Args:
      inputs: returns the inputs of the next step.
      steps: the maximum number of steps.
      ulps: the largest distance in ulps at which elements still count as equal.
      advance: called after each step.
    Returns:
      the first difference; None if there is none.
    """
    program = graph.program
    count = len(program.state)
    states = [list(program.initial), list(program.initial)]
    for step in range(1, steps + 1):
        given = list(inputs())
        arguments = [[*state, *given] for state in states]
        found = [side.results(arrays) for side, arrays in zip(sides, arguments, strict=True)]
        results = compare_tensors((*program.state, *program.outputs), found[0], found[1], ulps)
        if results:
            return explain(graph, sides, arguments, step, results, ulps)
        states = [arrays[:count] for arrays in found]
        advance()
    return None


def explain(
    graph: OperatorGraph,
    sides: tuple[Side, Side],
    arguments: Sequence[Sequence[np.ndarray]],
    step: int,
    results: Sequence[TensorDifference],
    ulps: int,
) -> Difference:
    """Returns where two sides diverge within step number `step`, given their arguments and the results that differ."""
    program = graph.program
    given = compare_tensors((*program.state, *program.inputs), arguments[0], arguments[1], 0)
    operators, equal, compared = compare_operators(sides, arguments, ulps)
    computing = sum(not operator.inline and bool(operator.outputs) for operator in graph.operators)
    names = sides[0].name, sides[1].name
    return Difference(names, step, given, operators, tuple(results), (compared, computing), graph=graph, equal=equal)


def compare_operators(
    sides: tuple[Side, Side], arguments: Sequence[Sequence[np.ndarray]], ulps: int
) -> tuple[tuple[OperatorDifference, ...], frozenset[int], int]:
    """Returns the operators that differ, in order, the indices of equal operators, and the number of operators
    compared."""
    found: list[OperatorDifference] = []
    equal: set[int] = set()
    compared = 0
    pairs = zip(sides[0].values(arguments[0]), sides[1].values(arguments[1]), strict=True)
    for (operator, first), (_, second) in pairs:
        if operator.inline or not operator.outputs or first is None or second is None:
            continue
        compared += 1
        if len(found) == _LISTED:
            continue
        source = sides[0].source(sides[1].source(operator))
        kinds = [value.kind for value in operator.outputs]
        if source is not operator:
            kinds = [replace(kind, name=f"{source.name}.{source.index}") for kind in kinds]
        tensors = compare_tensors(kinds, first, second, ulps)
        if tensors:
            found.append(OperatorDifference(source, max(tensors, key=lambda each: each.element.max_ulps or 0)))
        else:
            equal |= {operator.index, source.index}
    found.sort(key=lambda each: each.operator.index)
    return tuple(found), frozenset(equal), compared


def compare_tensors(
    kinds: Sequence[TensorType], first: Sequence[np.ndarray], second: Sequence[np.ndarray], ulps: int
) -> tuple[TensorDifference, ...]:
    """Returns the differences (see `compare`) of those pairs of tensors that differ."""
    pairs = zip(kinds, first, second, strict=True)
    found = [compare(kind.name, kind, a, b, ulps) for kind, a, b in pairs]
    return tuple(each for each in found if each is not None)
