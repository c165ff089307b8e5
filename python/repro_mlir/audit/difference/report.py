# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What was found where two runs part."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from repro_mlir.audit.elements import ElementDifference, first_difference, ulp_distances
from repro_mlir.audit.operators import Operator, OperatorGraph
from repro_mlir.base.numerics.tensors import TensorType


@dataclass(frozen=True)
class TensorDifference:
    """A tensor that differs.

    Attributes:
      name: of an input, a state tensor, an output, or the operator that gave it.
      kind: its type.
      element: the first element that differs.
      histogram: how many elements are how far apart: label and count, from equal elements on.
    """

    name: str
    kind: TensorType
    element: ElementDifference
    histogram: tuple[tuple[str, int], ...] = field(repr=False)

    def report(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "name": self.name,
            "element_type": self.kind.element,
            "shape": list(self.kind.shape),
            "first": self.element.report(),
            "histogram": [list(bar) for bar in self.histogram],
        }


@dataclass(frozen=True)
class OperatorDifference:
    """An operator with a result that differs: the result that differs most."""

    operator: Operator
    tensor: TensorDifference


@dataclass(frozen=True)
class Difference:
    """Where two runs part.

    Attributes:
      names: of the two.
      step: the first step whose results differ, from 1; 0 for the initial state.
      given: what the step was given and differs already: inputs, or the state before it.
      operators: the operators that differ, in order; of long lists the first.
      results: what the step gave and differs: new state and outputs.
      compared: how many operators were compared, of how many that compute something.
      note: what else there is to say.
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
    graph: OperatorGraph | None = field(default=None, repr=False, compare=False)
    equal: frozenset[int] = field(default=frozenset(), repr=False, compare=False)

    @property
    def first(self) -> TensorDifference | None:
        """The tensor with which it begins: what was given, else of the first operator, else a result."""
        if self.given:
            return self.given[0]
        return self.operators[0].tensor if self.operators else next(iter(self.results), None)

    def report(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "equal": False,
            "first": self.names[0],
            "second": self.names[1],
            "step": self.step,
            "given": [tensor.report() for tensor in self.given],
            "operators": [
                {"index": each.operator.index, "name": each.operator.name, "line": each.operator.line}
                | {"module": each.operator.module or None, "tensor": each.tensor.report()}
                for each in self.operators
            ],
            "results": [tensor.report() for tensor in self.results],
            "compared": list(self.compared),
            "note": self.note,
        }

    def lines(self) -> list[str]:
        """For people."""
        told = [f"first    {self.names[0]}", f"second   {self.names[1]}", f"step     {self.step}"]
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
    far = "" if element.max_ulps is None else f", at most {element.max_ulps:,} ulps apart"
    also = f"; and {more} more" if more > 0 else ""
    return [
        f"{role:8} {tensor.kind}: {element.count:,} of {element.size:,} elements differ{far}{also}",
        f"  at     {list(element.index)}",
        f"  first  {element.first_bits}  {element.first}",
        f"  second {element.second_bits}  {element.second}"
        + ("" if element.ulps is None else f"  ({element.ulps:,} {'ulp' if element.ulps == 1 else 'ulps'})"),
    ]


def compare(
    name: str, kind: TensorType, first: np.ndarray, second: np.ndarray, ulps: int = 0
) -> TensorDifference | None:
    """How two tensors differ; None where they are equal, or no two elements are more than `ulps` apart."""
    element = first_difference(first, second, kind)
    if element is None or (element.max_ulps is not None and element.max_ulps <= ulps and not _nan_apart(element)):
        return None
    return TensorDifference(name, kind, element, _histogram(ulp_distances(first, second, kind), kind))


def _nan_apart(element: ElementDifference) -> bool:
    return element.ulps is None


def _histogram(distances: np.ndarray, kind: TensorType) -> tuple[tuple[str, int], ...]:
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
