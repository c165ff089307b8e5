# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The results of a comparison of recipes, which are written to two files: the page and the data."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repro_mlir.base.files.storage import make_folder, write_file
from repro_mlir.precision_report.page import page
from repro_mlir.precision_report.statistics import Decibel, OperandStatistics

FORMAT = 1
PAGE, DATA = "report.html", "report.json"


@dataclass(frozen=True)
class Operand:
    """An operand of a contraction in a sampled step.

    Attributes:
      name: the name of the operand, as a recipe spells it.
      format: the format of the operand.
      statistics: the effect of the format on the operand.
    """

    name: str
    format: str
    statistics: OperandStatistics


@dataclass(frozen=True)
class ContractionSample:
    """A contraction in a sampled step.

    Attributes:
      number: the index of the contraction in `Run.contractions`.
      result_sqnr_db: the SQNR of the result, relative to that of the step in f32.
      operands: the operands that do not stay in f32.
    """

    number: int
    result_sqnr_db: Decibel
    operands: tuple[Operand, ...]


@dataclass(frozen=True)
class Sample:
    """A sampled step of a run. It is computed again in f32, and under the recipe, where the values of its contractions
    are recorded.

    Attributes:
      step: the number of the step, from 1.
      loss, loss_f32: the losses under the recipe and in f32; None for one that is not finite.
      contractions: the contractions of the roles fprop, dgrad, wgrad and product.
    """

    step: int
    loss: float | None
    loss_f32: float | None
    contractions: tuple[ContractionSample, ...]


@dataclass(frozen=True)
class Contraction:
    """A contraction of the first step, and what the recipe does to it.

    Attributes:
      role, layer, location: as in `ContractionPrecision`.
      operands: the names and formats of the operands.
      result: the type that the result is rounded to.
      accumulator: the accumulator (M4); empty for f32 (K1).
      in_f32: whether the contraction stays in f32 entirely.
    """

    role: str
    layer: str | None
    location: str
    operands: tuple[tuple[str, str], tuple[str, str]]
    result: str
    accumulator: str
    in_f32: bool


@dataclass(frozen=True)
class WeightError:
    """The error of a layer's final weight: the 2-norm of its difference from the weight of the f32 run, divided by the
    2-norm of that weight."""

    name: str
    relative_error: float | None


@dataclass(frozen=True)
class Run:
    """The training under one recipe.

    Attributes:
      recipe: the name of the recipe; `f32` for the baseline run.
      definition: the recipe as JSON; None for f32.
      program: the identity (H2) of the first step's program.
      state: the hash (H3) of the final state.
      losses: the loss of each step, None if it is not finite.
      first_nonfinite: the first step whose loss is not finite, None if there is none.
      validation: pairs of the number of a step and the mean loss of the script's validation batches after that step.
      contractions: the contractions of the first step's program; empty for a step in microbatches.
      weights: the errors of the layers' weights; empty for f32.
      samples: the sampled steps; empty for f32.
    """

    recipe: str
    definition: dict[str, Any] | None
    program: str
    state: str
    losses: tuple[float | None, ...]
    first_nonfinite: int | None
    validation: tuple[tuple[int, float | None], ...]
    contractions: tuple[Contraction, ...]
    weights: tuple[WeightError, ...]
    samples: tuple[Sample, ...]

    @property
    def loss(self) -> float | None:
        """The loss of the last step."""
        return self.losses[-1]


@dataclass(frozen=True)
class Report:
    """The results of the same training under f32 and under recipes.

    Attributes:
      script: the file name of the script.
      steps: the number of training steps.
      sampled: the sampled steps.
      target: the target that ran the steps.
      initial_state: the hash (H3) of the initial state of all runs.
      note: says what the report lacks and why; empty if it is complete.
      runs: the runs; f32 is the first.
    """

    script: str
    steps: int
    sampled: tuple[int, ...]
    target: str
    initial_state: str
    note: str
    runs: tuple[Run, ...] = field(repr=False)

    def as_json(self) -> dict[str, Any]:
        """Returns the report in the format of docs/schemas/precision-report.schema.json."""
        return {"format": FORMAT, **dataclasses.asdict(self)}

    def write(self, folder: str | Path) -> tuple[Path, Path]:
        """Writes the HTML page and the data into a folder, which is created if it does not exist; returns the paths of
        both files.

        Raises:
          ReproError: the files cannot be written.
        """
        path = make_folder(folder)
        text = json.dumps(self.as_json(), allow_nan=False)
        write_file(path / DATA, (text + "\n").encode())
        write_file(path / PAGE, page(json.loads(text)).encode())
        return path / PAGE, path / DATA
