# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a referee decides."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from repro_mlir.audit.elements import ElementDifference
from repro_mlir.audit.operators import Extraction, Operator
from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.npz import write_arrays
from repro_mlir.base.printing import foreign

_LONGEST = 1000
"""Characters of a reason, which may quote a party."""


@dataclass
class Traffic:
    """What a referee and one party sent each other.

    Attributes:
      questions: messages of the referee; each had one answer.
      sent: bytes of the questions.
      received: bytes of the answers.
      tensors: bytes of those answers that hold tensors, which are part of `received`.
      program: bytes of the answer that holds the program, which is part of `received`.
    """

    questions: int = 0
    sent: int = 0
    received: int = 0
    tensors: int = 0
    program: int = 0

    @property
    def narrowing(self) -> int:
        """Bytes both ways without tensors and the program: what is logarithmic in steps and operators."""
        return self.sent + self.received - self.tensors - self.program


@dataclass(frozen=True)
class Evidence:
    """An operator as a program of its own, and the inputs to which both parties are committed."""

    extraction: Extraction
    inputs: tuple[np.ndarray, ...]

    def save(self, folder: str | Path) -> None:
        """Writes operator.repro and inputs.npz, with which `repro run` gives the operator's outputs on any target.

        ReproError where they cannot be written.
        """
        # Names are a party's: two may be the same, and NumPy has a use of its own for some.
        inputs = tuple(replace(kind, name=f"input {i}") for i, kind in enumerate(self.extraction.program.inputs))
        program = replace(self.extraction.program, inputs=inputs)
        arrays = {kind.name: array for kind, array in zip(inputs, self.inputs, strict=True)}
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ReproError(f"cannot write {error.filename or folder}: {error.strerror}") from None
        write_arrays(Path(folder) / "inputs.npz", arrays)
        program.save(Path(folder) / "operator.repro")


@dataclass(frozen=True)
class Verdict:
    """How a dispute ended.

    Attributes:
      outcome: what the parties disagree about: "agreement" (nothing), "length" (one stopped earlier), "header",
        "data" (a batch or another input of a step), "operator" (what an operator computed or took), "commitment" (a
        step's commitment does not follow from its operators) or "conduct" (silence, nonsense, another story).
      wrong: the parties that are wrong, of "A" and "B"; none if they agree or nothing shows who is.
      reasons: why each of them is wrong.
      step: the first step on which they disagree, from 1.
      subject: the field, input, tensor or operator that it is about.
      operator: the operator, where one was found.
      values: the first element in which a party's tensor differs from what the referee computed (first value the
        party's, second the referee's), by party.
      evidence: the operator's inputs, where it was recomputed; see `Evidence.save`.
      traffic: by party.
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

    def report(self) -> dict[str, Any]:
        """As JSON."""
        operator = self.operator
        return {
            "outcome": self.outcome,
            "wrong": list(self.wrong),
            "reasons": self.reasons,
            "step": self.step,
            "subject": self.subject,
            "operator": operator and {"index": operator.index, "name": operator.name, "line": operator.line},
            "values": {name: value.report() for name, value in self.values.items()},
            "traffic": {name: dict(traffic.__dict__) for name, traffic in self.traffic.items()},
        }

    def lines(self) -> list[str]:
        """For people."""
        if self.outcome == "agreement":
            told = ["the runs agree"]
        elif self.wrong:
            told = [f"wrong    {' and '.join(self.wrong)}"]
        else:
            told = ["wrong    not decided"]
        if self.step is not None:
            told.append(f"step     {self.step}")
        if self.subject is not None:
            told.append(f"about    {foreign(self.subject, _LONGEST)}")
        told += [f"{name:8} {foreign(reason, _LONGEST)}" for name, reason in self.reasons.items()]
        told += [f"{name:8} {value}" for name, value in self.values.items()]
        for name, traffic in self.traffic.items():
            told.append(
                f"traffic  {name}: {traffic.questions} questions, {traffic.sent + traffic.received:,} bytes, "
                f"{traffic.tensors:,} of them tensors"
            )
        return told
