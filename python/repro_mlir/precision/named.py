# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Named recipes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import check_among
from repro_mlir.precision.formats import DELAYED, REUSED, Format, Hadamard, blocks
from repro_mlir.precision.recipe import BLOCK_STEPS, BlockAccumulator, Recipe, RolePrecision, Rule
from repro_mlir.program.accumulators import SCALED_CLASSES

SIGNS_16 = (1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1)
"""(Q5) The signs of the transform of the NVFP4 recipe."""

_FORWARD = ("fprop", "product")


def _recipe(
    name: str,
    activation: Format,
    weight: Format,
    gradient: Format,
    wgrad: tuple[Format, Format] | None = None,
    *rules: Rule,
) -> Recipe:
    """Returns a recipe with a format for activations, weights and gradients in all roles. `wgrad`, if given, replaces
    the formats of the activation and the gradient in the role `wgrad`."""
    of_activation, of_gradient = wgrad or (activation, gradient)
    return Recipe(
        name,
        {
            "fprop": RolePrecision({"activation": activation, "weight": weight}),
            "dgrad": RolePrecision({"gradient": gradient, "weight": weight}),
            "wgrad": RolePrecision({"activation": of_activation, "gradient": of_gradient}),
        },
        rules,
    )


def _alike(name: str, format: Format) -> Recipe:
    return _recipe(name, format, format, format)


def nvfp4(skip_last: int = 1) -> Recipe:
    """Returns the recipe for pretraining in NVFP4: weights in blocks of 16 x 16, a transform of both operands of wgrad,
    and stochastic rounding of gradients. The last `skip_last` layers stay in f32."""
    row = blocks("f4E2M1FN", "nvfp4", "nvfp4")
    weight = blocks("f4E2M1FN", "nvfp4_square", "nvfp4")
    gradient = blocks("f4E2M1FN", "nvfp4", "nvfp4", "sr8")
    transform = Hadamard(SIGNS_16, to_bf16=True)
    turned = dataclasses.replace(row, hadamard=transform), dataclasses.replace(gradient, hadamard=transform)
    rules = [Rule(last=skip_last, skip=True)] if skip_last else []
    return _recipe("nvfp4", row, weight, gradient, turned, *rules)


def deepseek_v3() -> Recipe:
    """Returns the recipe of DeepSeek-V3: f8E4M3FN with a scale per 128 elements of a row for activations and gradients,
    and per 128 x 128 block for weights."""
    row = blocks("f8E4M3FN", "row128", "f32_product")
    return _recipe("deepseek_v3", row, blocks("f8E4M3FN", "square128", "f32_product"), row)


def _float8(name: str, tile: str, rule: str = "float8") -> Recipe:
    forward, gradient = blocks("f8E4M3FN", tile, rule), blocks("f8E5M2", tile, rule)
    return _recipe(name, forward, forward, gradient)


def quantized_in_training(base: Recipe) -> Recipe:
    """Implements `qat` (variants.py)."""
    if not any(role in each.roles for each in (base, *base.rules) for role in _FORWARD):
        raise ReproError(f"expected a recipe that changes the forward pass, got {base.name}")
    roles = {role: precision for role, precision in base.roles.items() if role in _FORWARD}
    roles["dgrad"] = RolePrecision({"weight": REUSED})
    roles["wgrad"] = RolePrecision({"activation": REUSED})
    rules = (
        # A rule that only has formats for gradients becomes an empty rule. If it were dropped, a later rule could match
        # its layers, since the first matching rule applies.
        rule if rule.skip else dataclasses.replace(rule, roles={"fprop": rule.roles.get("fprop", RolePrecision())})
        for rule in base.rules
    )
    return Recipe(f"qat_{base.name}", roles, tuple(rules))


def multiplied_by_blocks(
    base: Recipe, accumulator: str | BlockAccumulator = "blocks", name: str | None = None
) -> Recipe:
    """Implements `by_blocks` (variants.py)."""
    if not isinstance(accumulator, BlockAccumulator):
        check_among("an accumulator of blocks", accumulator, (*BLOCK_STEPS, *SCALED_CLASSES))
    chosen = RolePrecision(accumulator=accumulator)
    roles = {role: precision.overridden(chosen) for role, precision in base.roles.items()}
    if name is None:
        name = f"{_short_name(accumulator)}_{base.name}"
    return dataclasses.replace(base, name=name, roles=roles)


def _short_name(accumulator: str | BlockAccumulator) -> str:
    if isinstance(accumulator, str):
        return accumulator
    # A custom `Accumulator` has too many parameters for a name, so the name contains only the `step`.
    return f"{accumulator.step}_{accumulator.within}" if isinstance(accumulator.within, str) else accumulator.step


def _mx(name: str, element: str, rule: str) -> Callable[[], Recipe]:
    return lambda: _alike(name, blocks(element, "mx", rule))


_NAMED: dict[str, Callable[[], Recipe]] = {
    "bf16": lambda: _alike("bf16", Format("bf16")),
    "f16": lambda: _alike("f16", Format("f16")),
    "tf32": lambda: _alike("tf32", Format("tf32")),
    "fp8_tensorwise": lambda: _float8("fp8_tensorwise", "tensor"),
    "fp8_rowwise": lambda: _float8("fp8_rowwise", "row"),
    "fp8_delayed": lambda: _float8("fp8_delayed", "tensor", DELAYED),
    "mxfp8": _mx("mxfp8", "f8E4M3FN", "rceil"),
    "mxfp6": _mx("mxfp6", "f6E3M2FN", "rceil"),
    "mxfp4": _mx("mxfp4", "f4E2M1FN", "rceil"),
    "mxint8": _mx("mxint8", "mxint8", "floor"),
    "nvfp4": nvfp4,
    "deepseek_v3": deepseek_v3,
}
_WITH_BLOCKS = tuple(name for name in _NAMED if name not in ("bf16", "f16", "tf32"))

_BY_BLOCKS = tuple(name for name in _WITH_BLOCKS if not name.startswith("fp8"))

_IN_UNITS: dict[str, tuple[str, str | BlockAccumulator]] = {
    "blackwell_mxfp8": ("mxfp8", "blackwell_mx"),
    "blackwell_mxfp6": ("mxfp6", "blackwell_mx"),
    "blackwell_mxfp4": ("mxfp4", "blackwell_mxf4"),
    "blackwell_nvfp4": ("nvfp4", "blackwell_nvfp4"),
    "deepseek_v3_promoted": ("deepseek_v3", BlockAccumulator("fused", "hopper")),
}
"""(M5) The recipes that use accumulators of matrix units, by name, each with its base recipe and its accumulator."""

NAMED_RECIPES = (
    *_NAMED,
    *(f"qat_{name}" for name in _WITH_BLOCKS),
    *(f"blocks_{name}" for name in _BY_BLOCKS),
    *_IN_UNITS,
)
"""The names of all named recipes."""


def named_recipe(name: str) -> Recipe:
    """Returns the named recipe with its default parameters. Raises ReproError for an unknown name."""
    check_among("a recipe", name, NAMED_RECIPES)
    if name.startswith("qat_"):
        return quantized_in_training(_NAMED[name[4:]]())
    if name.startswith("blocks_"):
        return multiplied_by_blocks(_NAMED[name[7:]]())
    if name in _IN_UNITS:
        base, accumulator = _IN_UNITS[name]
        return multiplied_by_blocks(_NAMED[base](), accumulator, name)
    return _NAMED[name]()
