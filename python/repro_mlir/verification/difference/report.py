# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Describes where two runs diverge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.verification.elements import ElementDifference, first_difference, ulp_distances, ulps_text
from repro_mlir.verification.operators import Operator, OperatorGraph


@dataclass(frozen=True)
class TensorDifference:
    """A tensor that differs.

    Attributes:
      name: the name of an input, a state tensor or an output, or of the operator that computed the tensor.
      kind: the type of the tensor.
      element: the first element that differs.
      histogram: the number of elements per range of ulp distance, as pairs of label and count; equal elements first.
    """

    name: str
    kind: TensorType
    element: ElementDifference
    histogram: tuple[tuple[str, int], ...] = field(repr=False)

    def report(self) -> dict[str, Any]:
        """Returns the difference as a JSON object."""
        return {
            "name": self.name,
            "element_type": self.kind.element,
            "shape": list(self.kind.shape),
            "first": self.element.report(),
            "histogram": [list(bar) for bar in self.histogram],
        }


@dataclass(frozen=True)
class OperatorDifference:
    """An operator with a result that differs.

    Attributes:
      tensor: the operator's result with the largest difference.
    """

    operator: Operator
    tensor: TensorDifference


@dataclass(frozen=True)
class Difference:
    """The point where two runs diverge.

    Attributes:
      names: the names of the two runs.
      step: the first step whose results differ, counted from 1; 0 for the initial state; if `is_change`, the step
        before the change.
      given: the step's arguments that already differ: inputs, or the state before the step.
      operators: the operators that differ, in order; only the first ones of a long list.
      results: the step's results that differ: new state and outputs.
      compared: the number of operators that were compared, and the number of operators that compute something.
      note: a remark for the reader; may be empty.
      steps, changes: the numbers of steps and of state changes of the two runs, if all that the runs have in common is
        equal, and one run has more; else None.
      is_change: whether the runs differ in a change of the state by the user, after step `step`.
      graph: the operators of the program.
      equal: the indices of operators that were compared and do not differ.
    """

    names: tuple[str, str]
    step: int
    given: tuple[TensorDifference, ...] = ()
    operators: tuple[OperatorDifference, ...] = ()
    results: tuple[TensorDifference, ...] = ()
    compared: tuple[int, int] = (0, 0)
    note: str = ""
    steps: tuple[int, int] | None = None
    changes: tuple[int, int] | None = None
    is_change: bool = False
    graph: OperatorGraph | None = field(default=None, repr=False, compare=False)
    equal: frozenset[int] = field(default=frozenset(), repr=False, compare=False)

    @property
    def first(self) -> TensorDifference | None:
        """The first tensor that differs: an argument, else the result of an operator, else a result of the step."""
        if self.given:
            return self.given[0]
        return self.operators[0].tensor if self.operators else next(iter(self.results), None)

    def report(self) -> dict[str, Any]:
        """Returns the difference as a JSON object."""
        return {
            "equal": False,
            "first": self.names[0],
            "second": self.names[1],
            "step": self.step,
            "is_change": self.is_change,
            "given": [tensor.report() for tensor in self.given],
            "operators": [
                {"index": each.operator.index, "name": each.operator.name, "line": each.operator.line}
                | {"module": each.operator.module or None, "tensor": each.tensor.report()}
                for each in self.operators
            ],
            "results": [tensor.report() for tensor in self.results],
            "compared": list(self.compared),
            "note": self.note,
            "steps": self.steps and list(self.steps),
            "changes": self.changes and list(self.changes),
        }

    def lines(self) -> list[str]:
        """Returns the lines of a human-readable report."""
        where = f"after    step {self.step}" if self.is_change else f"step     {self.step}"
        told = [f"first    {self.names[0]}", f"second   {self.names[1]}", where]
        if self.given:
            told += _described("given", self.given[0], len(self.given) - 1)
        if self.operators:
            told.append(f"operator {str(self.operators[0].operator).removeprefix('operator ')}")
            told += _described("tensor", self.operators[0].tensor, len(self.operators) - 1)
        if self.results:
            told += _described("result", self.results[0], len(self.results) - 1)
        if self.compared[1]:
            told.append(f"compared {self.compared[0]} of {self.compared[1]} operators")
        if self.note:
            told.append(f"note     {self.note}")
        return told


def _described(role: str, tensor: TensorDifference, more: int) -> list[str]:
    element = tensor.element
    far = "" if element.max_ulps is None else f", at most {ulps_text(element.max_ulps)} apart"
    also = f"; and {more} more" if more > 0 else ""
    return [
        f"{role:8} {tensor.kind}: {element.count:,} of {element.size:,} elements differ{far}{also}",
        f"  at     {list(element.index)}",
        f"  first  {element.first_bits}  {element.first}",
        f"  second {element.second_bits}  {element.second}"
        + ("" if element.ulps is None else f"  ({ulps_text(element.ulps)})"),
    ]


def compare(
    name: str, kind: TensorType, first: np.ndarray, second: np.ndarray, ulps: int = 0
) -> TensorDifference | None:
    """Returns the difference of two tensors; None if they are equal, or if no two corresponding elements are more than
    `ulps` apart."""
    element = first_difference(first, second, kind)
    if element is None or (element.max_ulps is not None and element.max_ulps <= ulps and not _nan_apart(element)):
        return None
    return TensorDifference(name, kind, element, _histogram(ulp_distances(first, second, kind)))


def _nan_apart(element: ElementDifference) -> bool:
    return element.ulps is None


def _histogram(distances: np.ndarray) -> tuple[tuple[str, int], ...]:
    flat = distances.reshape(-1)
    bars = [("0", int(np.count_nonzero(flat == 0)))]
    low = 1
    top = flat.max(initial=0)
    while low <= top:
        high = 2 * low
        count = int(np.count_nonzero((flat >= low) & (flat < high)))
        bars.append((str(low) if high == low + 1 else f"{_short(low)} to {_short(high - 1)}", count))
        low = high
    nans = int(np.count_nonzero(flat < 0))
    return (*bars, ("one is NaN", nans)) if nans else tuple(bars)


def _short(number: int) -> str:
    return str(number) if number < 10_000 else f"{number:.1e}"
