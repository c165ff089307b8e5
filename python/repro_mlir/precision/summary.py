# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Summarizes the effect of a recipe on each contraction of a program, and lists the contractions that stay in f32."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from repro_mlir.precision.apply import check_rules, requests
from repro_mlir.precision.formats import F32
from repro_mlir.precision.recipe import Recipe
from repro_mlir.precision.recipe_json import recipe_of
from repro_mlir.precision.roles import describe, locations_of_f64, shape_of, shape_of_microbatch
from repro_mlir.program.canonical import read_module
from repro_mlir.program.microbatches import MicrobatchProgram

if TYPE_CHECKING:
    from repro_mlir.program import Program


@dataclass(frozen=True)
class ContractionPrecision:
    """The effect of a recipe on a contraction.

    Attributes:
      role: `fprop`, `dgrad`, `wgrad`, `product` or `other`.
      layer: the name of the layer's weight, None if there is none.
      location: the source location, as MLIR prints it.
      operands: the name and format of the two factors, `f32` for an unchanged one.
      result: the type that the result is rounded to, `f32` if it is not rounded.
      accumulator: the accumulator (M4), (Q4), (M5), as text; empty for f32 (K1).
    """

    role: str
    layer: str | None
    location: str
    operands: tuple[tuple[str, str], tuple[str, str]]
    result: str
    accumulator: str = ""

    @property
    def is_untouched(self) -> bool:
        """Whether the recipe leaves the contraction unchanged."""
        return not self.accumulator and self.result == "f32" and all(format == "f32" for _, format in self.operands)


@dataclass(frozen=True)
class PrecisionSummary:
    """The effect of a recipe on a program; `str` formats it as a table.

    Attributes:
      recipe: the name of the recipe.
      contractions: all contractions whose precision can be chosen, in program order.
      f64: the locations of f64 contractions, as MLIR prints them; their precision cannot be chosen.
    """

    recipe: str
    contractions: tuple[ContractionPrecision, ...]
    f64: tuple[str, ...] = ()

    @property
    def untouched(self) -> tuple[ContractionPrecision, ...]:
        """The contractions that are unchanged."""
        return tuple(each for each in self.contractions if each.is_untouched)

    def __str__(self) -> str:
        rows = list(self._rows())
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        left = [f"{len(self.untouched)} of {len(self.contractions)} are left as they are"]
        if self.f64:
            left.append(f"{len(self.f64)} of f64 are not among them: no recipe changes them")
        return "\n".join([*(line.rstrip() for line in lines), *left])

    def _rows(self) -> Iterator[tuple[str, str, str, str, str]]:
        yield "layer", "role", "operands", "result", "accumulator"
        for each in self.contractions:
            operands = ", ".join(f"{name} {format}" for name, format in each.operands)
            yield each.layer or "-", each.role, operands, each.result, each.accumulator


def precision_summary(
    program: Program | MicrobatchProgram, recipe: Recipe | str | Mapping[str, Any], *, loss: str | None = None
) -> PrecisionSummary:
    """Returns the effect that `apply_precision` would have on a program. Raises the errors that `apply_precision`
    raises for a recipe, but does not check whether the formats fit the contractions."""
    from repro_mlir import ir

    chosen = recipe_of(recipe)
    if isinstance(program, MicrobatchProgram):
        data, shape = program.part.data, shape_of_microbatch(program, loss)
    else:
        data, shape = program.data, shape_of(program, loss)
    with ir.Context():
        # The variable keeps the module alive, because `described` refers to its operations.
        module = read_module(data)
        described = describe(module, shape)
        check_rules(described, program.state, chosen)
        rows = []
        for each, asked in zip(described, requests(described, chosen), strict=True):
            left, right = (
                (name, str(F32 if asked is None else asked.operands.get(name, F32))) for name in each.operands
            )
            result = "f32" if asked is None else asked.result or "f32"
            accumulator = str((asked and asked.accumulator) or "")
            operands = left, right
            rows.append(ContractionPrecision(each.role, each.layer, each.location, operands, result, accumulator))
        return PrecisionSummary(chosen.name, tuple(rows), tuple(locations_of_f64(module)))
