# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Precision recipes, which choose the formats of the operands of contractions, in programs of any frontend.

Names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro_mlir.base.lazy_imports import load_on_first_use

if TYPE_CHECKING:
    from repro_mlir.precision.apply import apply_precision
    from repro_mlir.precision.formats import Format, Hadamard, Rounding, Scale, blocks
    from repro_mlir.precision.named import NAMED_RECIPES, named_recipe, nvfp4
    from repro_mlir.precision.recipe import BlockAccumulator, Recipe, RolePrecision, Rule
    from repro_mlir.precision.recipe_json import recipe_from_json, recipe_of, recipe_to_json
    from repro_mlir.precision.summary import ContractionPrecision, PrecisionSummary, precision_summary
    from repro_mlir.precision.variants import by_blocks, qat

_HOMES = {
    "BlockAccumulator": "recipe",
    "ContractionPrecision": "summary",
    "Format": "formats",
    "Hadamard": "formats",
    "NAMED_RECIPES": "named",
    "PrecisionSummary": "summary",
    "Recipe": "recipe",
    "RolePrecision": "recipe",
    "Rounding": "formats",
    "Rule": "recipe",
    "Scale": "formats",
    "apply_precision": "apply",
    "blocks": "formats",
    "by_blocks": "variants",
    "named_recipe": "named",
    "nvfp4": "named",
    "precision_summary": "summary",
    "qat": "variants",
    "recipe_from_json": "recipe_json",
    "recipe_of": "recipe_json",
    "recipe_to_json": "recipe_json",
}

__all__ = [
    "NAMED_RECIPES",
    "BlockAccumulator",
    "ContractionPrecision",
    "Format",
    "Hadamard",
    "PrecisionSummary",
    "Recipe",
    "RolePrecision",
    "Rounding",
    "Rule",
    "Scale",
    "apply_precision",
    "blocks",
    "by_blocks",
    "named_recipe",
    "nvfp4",
    "precision_summary",
    "qat",
    "recipe_from_json",
    "recipe_of",
    "recipe_to_json",
]

__getattr__, __dir__ = load_on_first_use(__name__, _HOMES)
