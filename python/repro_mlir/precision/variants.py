# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Returns variants of recipes. A recipe can be given in any form that `recipe_of` accepts."""

from collections.abc import Mapping
from typing import Any

from repro_mlir.precision.named import multiplied_by_blocks, quantized_in_training
from repro_mlir.precision.recipe import BlockAccumulator, Recipe
from repro_mlir.precision.recipe_json import recipe_of


def qat(base: Recipe | str | Mapping[str, Any]) -> Recipe:
    """Returns the recipe for quantization-aware training, which keeps only the forward pass of `base`. Gradients are
    computed at the quantized values, as if quantization were the identity (straight-through).

    Args:
      base: as for `recipe_of`. If it has contractions in blocks (Q4), the forward pass multiplies codes, and gradients
        read the values of these codes in f32.
    Raises:
      ReproError: `base` is not a recipe, or changes nothing in the forward pass.
    """
    return quantized_in_training(recipe_of(base))


def by_blocks(
    base: Recipe | str | Mapping[str, Any], accumulator: str | BlockAccumulator = "blocks", name: str | None = None
) -> Recipe:
    """(Q4), (M5) Returns a recipe whose contractions multiply codes if both operands are in blocks.

    Args:
      base: as for `recipe_of`; all its operands are in blocks.
      accumulator: `blocks`, where the exact dot product of two blocks is scaled and added with one rounding, or
        `blocks_split`, with two roundings; `blackwell_mx`, `blackwell_mxf4` or `blackwell_nvfp4`, whose scales are
        factors of the products; or a `BlockAccumulator`.
      name: the recipe's name. The default is, for example, `blocks_mxfp8`, or `split_ada_mxfp8` for a
        `BlockAccumulator`.
    Raises:
      ReproError: `base` is not a recipe, or the accumulator is unknown.
    """
    return multiplied_by_blocks(recipe_of(base), accumulator, name)
