# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The verdict of a referee."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from repro_mlir.base.files.npz import write_arrays
from repro_mlir.base.files.storage import make_folder
from repro_mlir.base.printing import count_of, foreign
from repro_mlir.verification.elements import ElementDifference
from repro_mlir.verification.operators import Extraction, Operator

_UNCHECKED = "only the commitments were compared; run repro verify on each receipt, too"
"""The note on runs whose common records agree."""

_LONGEST = 1000
"""The maximum number of characters of a reason, which may quote a party."""


@dataclass
class Traffic:
    """The traffic between a referee and one party.

    Attributes:
      questions: the number of the referee's messages; each had one answer.
      sent: the number of bytes of the questions.
      received: the number of bytes of the answers.
      tensors: the number of bytes of the answers that contain tensors; included in `received`.
      program: the number of bytes of the answer that contains the program; included in `received`.
    """

    questions: int = 0
    sent: int = 0
    received: int = 0
    tensors: int = 0
    program: int = 0

    @property
    def narrowing(self) -> int:
        """The number of bytes in both directions except tensors and the program; logarithmic in steps and operators."""
        return self.sent + self.received - self.tensors - self.program


@dataclass(frozen=True)
class Evidence:
    """An operator as a separate program, and the inputs to which both parties have committed."""

    extraction: Extraction
    inputs: tuple[np.ndarray, ...]

    def save(self, folder: str | Path) -> None:
        """Writes operator.repro and inputs.npz, from which `repro run` computes the operator's outputs on any target.

        Raises ReproError if the files cannot be written.
        """
        # A party chose the input names: two may be equal, and some have a special meaning for NumPy.
        inputs = tuple(replace(kind, name=f"input {i}") for i, kind in enumerate(self.extraction.program.inputs))
        program = replace(self.extraction.program, inputs=inputs)
        arrays = {kind.name: array for kind, array in zip(inputs, self.inputs, strict=True)}
        path = make_folder(folder)
        write_arrays(path / "inputs.npz", arrays)
        program.save(path / "operator.repro")


@dataclass(frozen=True)
class Verdict:
    """The outcome of a dispute.

    Attributes:
      outcome: the subject of the disagreement: "agreement" (none), "length" (one run is shorter), "header", "data" (a
        batch or another input of a step), "operator" (an operator's inputs or results), "commitment" (a step's
        commitment does not follow from its operators) or "conduct" (silence, malformed answers, contradictions).
      wrong: the parties, "A" or "B", that are wrong; empty if they agree or the referee cannot decide.
      reasons: for each wrong party, the reason; if no party is found wrong, a remark on each.
      step: the first step on which the parties disagree, from 1; if `is_change`, the step before the change.
      subject: the field, input, tensor or operator in dispute.
      operator: the operator in dispute, if one was found.
      values: for each party, the first element in which its tensor differs from the referee's (the party's value is
        `first`, the referee's value is `second`).
      evidence: the operator and its inputs, if the operator was recomputed; see `Evidence.save`.
      traffic: the traffic of each party.
      is_change: whether the parties disagree on a change of the state by the user, after step `step`.
    """

    outcome: str
    wrong: tuple[str, ...]
    reasons: dict[str, str]
    step: int | None = None
    subject: str | None = None
    operator: Operator | None = None
    values: dict[str, ElementDifference] = field(default_factory=dict)
    evidence: Evidence | None = field(default=None, repr=False, compare=False)
    traffic: dict[str, Traffic] = field(default_factory=dict)
    is_change: bool = False

    @property
    def note(self) -> str | None:
        """A remark on a verdict for which no step was run; None for another verdict."""
        return _UNCHECKED if self.outcome in ("agreement", "length") else None

    def report(self) -> dict[str, Any]:
        """Returns the verdict as a JSON object."""
        operator = self.operator
        return {
            "outcome": self.outcome,
            "wrong": list(self.wrong),
            "reasons": self.reasons,
            "step": self.step,
            "is_change": self.is_change,
            "subject": self.subject,
            "operator": operator and {"index": operator.index, "name": operator.name, "line": operator.line},
            "values": {name: value.report() for name, value in self.values.items()},
            "note": self.note,
            "traffic": {name: dict(traffic.__dict__) for name, traffic in self.traffic.items()},
        }

    def lines(self) -> list[str]:
        """Returns the lines of a human-readable report."""
        if self.outcome == "agreement":
            told = ["the runs agree"]
        elif self.wrong:
            told = [f"wrong    {' and '.join(self.wrong)}"]
        else:
            unknown = "how long the run is (--steps)" if self.outcome == "length" else "which party is right (--terms)"
            told = [f"wrong    not decided: no terms say {unknown}"]
        if self.step is not None:
            told.append(f"after    step {self.step}" if self.is_change else f"step     {self.step}")
        if self.subject is not None:
            told.append(f"about    {foreign(self.subject, _LONGEST)}")
        told += [f"{name:8} {foreign(reason, _LONGEST)}" for name, reason in self.reasons.items()]
        told += [f"{name:8} {value}" for name, value in self.values.items()]
        if self.note is not None:
            told.append(f"note     {self.note}")
        for name, traffic in self.traffic.items():
            told.append(
                f"traffic  {name}: {count_of(traffic.questions, 'question')}, "
                f"{traffic.sent + traffic.received:,} bytes, "
                f"{traffic.tensors:,} of them tensors"
            )
        return told
