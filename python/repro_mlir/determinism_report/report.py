# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The contents of a report on determinism, as data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from repro_mlir.determinism_report.text import lines_of

VERSION = 1
GRADES = "everywhere", "same machine", "same run", "unknown"
"""Where the results of an operator are the same bits, the best first."""


class Share(NamedTuple):
    """Parts of the operators and of the arithmetic of a step, from 0 to 1."""

    operators: float
    arithmetic: float


@dataclass(frozen=True)
class EagerOperator:
    """An operator that PyTorch executes, with a cause for which its results may differ.

    Attributes:
      name: the name of the operator, such as "aten.add".
      count: the number of calls in a step.
      arithmetic: the number of arithmetic operations of all calls.
      cause, text: the cause, in a few words and as a sentence.
      cpu, cuda: where results are the same bits, one of `GRADES`.
      places: the user's lines, modules or phases with most calls, each with its number of calls.
    """

    name: str
    count: int
    arithmetic: int
    cause: str
    text: str
    cpu: str
    cuda: str
    places: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class RefusedOperator:
    """An operator that the compiler refuses, also alone.

    Attributes:
      name, count: as for `EagerOperator`.
      place: the user's line, module or phase of the first call.
      reason: the compiler's reason; None if the operator was not tried, since others were refused before.
    """

    name: str
    count: int
    place: str
    reason: str | None


@dataclass(frozen=True)
class Operation:
    """An operation of the canonical program, with the rules that define its results.

    Attributes:
      name: the name of the operation.
      count: how often the program contains it.
      rules: the labels of the rules in docs/reference/numerics.md; empty if the operation is unknown.
      text: what the rules define.
    """

    name: str
    count: int
    rules: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Report:
    """A report on the results of a step that are defined bit by bit.

    Attributes:
      name: the name of the model, script or file.
      program: the identity of the program (H2); None if the compiler refuses the step.
      refusal: the reason for which the compiler refuses the step; None if it accepts the step.
      operations: the operations of the program; empty without a program.
      eager: the operators that PyTorch executes; empty for a program file or a model of another framework.
      refused: the operators that the compiler refuses; empty if it accepts the step.
      accepted: the shares of the operators that the compiler accepts, each alone; None if nothing was tried.
    """

    name: str
    program: str | None
    refusal: str | None
    operations: tuple[Operation, ...] = ()
    eager: tuple[EagerOperator, ...] = ()
    refused: tuple[RefusedOperator, ...] = ()
    accepted: Share | None = None

    @property
    def defined(self) -> float:
        """The share of the program's operations that have rules; 0 if the compiler refuses the step."""
        if self.program is None:
            return 0.0
        known = [(each.count, 0) for each in self.operations if each.rules]
        return share_of(known, [(each.count, 0) for each in self.operations]).operators

    def shares(self, device: str) -> dict[str, Share]:
        """Returns the shares of PyTorch's operators by grade, with an entry for each of `GRADES`.

        Args:
          device: "cpu" or "cuda".
        """
        return {grade: self._share(each for each in self.eager if getattr(each, device) == grade) for grade in GRADES}

    def _share(self, operators: Iterable[EagerOperator]) -> Share:
        chosen = [*operators]
        return share_of(
            [(each.count, each.arithmetic) for each in chosen], [(each.count, each.arithmetic) for each in self.eager]
        )

    def as_json(self) -> dict[str, Any]:
        """Returns the report as JSON data."""
        return {
            "version": VERSION,
            **asdict(self),
            "accepted": None if self.accepted is None else self.accepted._asdict(),
            "defined": self.defined,
            "shares": {
                device: {grade: share._asdict() for grade, share in self.shares(device).items()}
                for device in ("cpu", "cuda")
            }
            if self.eager
            else None,
        }

    def __str__(self) -> str:
        return "\n".join(lines_of(self))


def share_of(part: Iterable[tuple[int, int]], whole: Iterable[tuple[int, int]]) -> Share:
    """Returns the shares of the calls, and of their arithmetic, that `part` has of `whole`. The share of nothing is
    1."""
    (calls, arithmetic), (all_calls, all_arithmetic) = _sums(part), _sums(whole)
    return Share(calls / all_calls if all_calls else 1.0, arithmetic / all_arithmetic if all_arithmetic else 1.0)


def _sums(counts: Iterable[tuple[int, int]]) -> tuple[int, int]:
    pairs = [*counts]
    return sum(calls for calls, _ in pairs), sum(arithmetic for _, arithmetic in pairs)
