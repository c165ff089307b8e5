# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a comparison of recipes found, and its two files."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.storage import write_file
from repro_mlir.precision.report.page import page
from repro_mlir.precision.report.statistics import Decibel, OperandStatistics

FORMAT = 1
PAGE, DATA = "report.html", "report.json"


@dataclass(frozen=True)
class Operand:
    """An operand of a contraction in a sampled step.

    Attributes:
      name: as a recipe has it.
      format: what it became.
      statistics: what that did.
    """

    name: str
    format: str
    statistics: OperandStatistics


@dataclass(frozen=True)
class ContractionSample:
    """A contraction in a sampled step.

    Attributes:
      number: its position in `Run.contractions`.
      result_sqnr_db: of its result, against that of the step in f32.
      operands: those that do not stay f32.
    """

    number: int
    result_sqnr_db: Decibel
    operands: tuple[Operand, ...]


@dataclass(frozen=True)
class Sample:
    """A step of a run that was computed a second time, with the values of its contractions, and in f32 beside it.

    Attributes:
      step: its number, from 1.
      loss, loss_f32: None where it is not finite.
      contractions: of the roles fprop, dgrad, wgrad and product.
    """

    step: int
    loss: float | None
    loss_f32: float | None
    contractions: tuple[ContractionSample, ...]


@dataclass(frozen=True)
class Contraction:
    """A contraction of the step, and what the recipe does with it.

    Attributes:
      role, layer, location: as `ContractionPrecision` has them.
      operands: names and what becomes of them.
      result: to what its result is rounded.
      accumulator: in which it adds (M4); empty for f32 (K1).
      in_f32: whether all of it is left in f32.
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
    """A layer's weight at the end, against that of the run in f32: the 2-norm of the difference, relative."""

    name: str
    relative_error: float | None


@dataclass(frozen=True)
class Run:
    """The training under one recipe.

    Attributes:
      recipe: its name; `f32` of the run that the others are compared with.
      definition: the recipe as JSON; None of f32.
      program: the identity (H2) of the first step's program.
      state: the hash (H3) of the state at the end.
      losses: of each step, None where it is not finite.
      first_nonfinite: the first step whose loss is not finite, None without one.
      validation: steps, and the mean loss of the script's validation after them.
      contractions: of the first step's program; empty of a step in microbatches.
      weights: of the layers; empty of f32.
      samples: of the sampled steps; empty of f32.
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
        """The last loss."""
        return self.losses[-1]


@dataclass(frozen=True)
class Report:
    """The same training under f32 and under recipes.

    Attributes:
      script: the name of its file.
      steps: how many were trained.
      sampled: the steps that were looked at.
      target: what ran them.
      initial_state: the hash (H3) of the state that all began with.
      note: what was left out, and why; empty for nothing.
      runs: f32 first.
    """

    script: str
    steps: int
    sampled: tuple[int, ...]
    target: str
    initial_state: str
    note: str
    runs: tuple[Run, ...] = field(repr=False)

    def as_json(self) -> dict[str, Any]:
        """As docs/precision-report.schema.json says."""
        return {"format": FORMAT, **dataclasses.asdict(self)}

    def write(self, folder: str | Path) -> tuple[Path, Path]:
        """Writes page and data into a folder, which is made where there is none; what they are called.

        Raises:
          ReproError: they cannot be written.
        """
        path = make_folder(folder)
        text = json.dumps(self.as_json(), allow_nan=False)
        write_file(path / DATA, (text + "\n").encode())
        write_file(path / PAGE, page(json.loads(text)).encode())
        return path / PAGE, path / DATA


def make_folder(folder: str | Path) -> Path:
    """A folder that is there afterwards. ReproError where none can be made."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReproError(f"cannot make the folder {path}: {error.strerror}") from None
    return path
