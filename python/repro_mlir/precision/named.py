# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Recipes by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..errors import ReproError
from .formats import DELAYED, REUSED, Format, Hadamard, blocks
from .recipe import Recipe, RolePrecision, Rule

SIGNS_16 = (1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1)
"""(Q5) The signs of the NVFP4 recipe's transform."""


def _recipe(
    name: str,
    activation: Format,
    weight: Format,
    gradient: Format,
    wgrad: tuple[Format, Format] | None = None,
    *rules: Rule,
) -> Recipe:
    """A recipe of formats; `wgrad` are those of the activation and the gradient there, where they differ."""
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
    """Pretraining in NVFP4: weights in blocks of 16 x 16, a transform of both operands of wgrad, gradients rounded
    stochastically. The last layers stay f32."""
    row = blocks("f4E2M1FN", "nvfp4", "nvfp4")
    weight = blocks("f4E2M1FN", "nvfp4_square", "nvfp4")
    gradient = blocks("f4E2M1FN", "nvfp4", "nvfp4", "sr8")
    transform = Hadamard(SIGNS_16, to_bf16=True)
    turned = dataclasses.replace(row, hadamard=transform), dataclasses.replace(gradient, hadamard=transform)
    rules = [Rule(last=skip_last, skip=True)] if skip_last else []
    return _recipe("nvfp4", row, weight, gradient, turned, *rules)


def deepseek_v3() -> Recipe:
    """Activations and gradients in rows of 128, weights in blocks of 128 x 128, all of f8E4M3FN."""
    row = blocks("f8E4M3FN", "row128", "f32_product")
    return _recipe("deepseek_v3", row, blocks("f8E4M3FN", "square128", "f32_product"), row)


def _float8(name: str, tile: str, rule: str = "float8") -> Recipe:
    forward, gradient = blocks("f8E4M3FN", tile, rule), blocks("f8E5M2", tile, rule)
    return _recipe(name, forward, forward, gradient)


def qat(base: Recipe) -> Recipe:
    """Quantization-aware training: the forward pass of a recipe. Gradients are those of the values that it read, with
    respect to what was quantized, as if that were the identity (straight-through)."""
    if "fprop" not in base.roles:
        raise ReproError(f"the recipe {base.name} changes nothing in the forward pass")
    gradients = {
        "dgrad": RolePrecision({"weight": REUSED}),
        "wgrad": RolePrecision({"activation": REUSED}),
    }
    rules = [rule if rule.skip else dataclasses.replace(rule, roles=_forward(rule)) for rule in base.rules]
    rules = [rule for rule in rules if rule.skip or rule.roles]
    return Recipe(f"qat_{base.name}", {"fprop": base.roles["fprop"], **gradients}, tuple(rules))


def _forward(rule: Rule) -> dict[str, RolePrecision]:
    return {role: precision for role, precision in rule.roles.items() if role == "fprop"}


def by_blocks(base: Recipe, accumulator: str = "blocks") -> Recipe:
    """(Q4) A recipe with exact dot products of blocks: two operands in blocks multiply their codes, and each product of
    scales is taken once.

    Args:
      accumulator: `blocks`, which adds with one rounding, or `blocks_split`, with two.
    """
    exact = RolePrecision(accumulator=accumulator)
    roles = {role: precision.overridden(exact) for role, precision in base.roles.items()}
    return dataclasses.replace(base, name=f"{accumulator}_{base.name}", roles=roles)


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

NAMED_RECIPES = (
    *_NAMED,
    *(f"qat_{name}" for name in _WITH_BLOCKS),
    *(f"blocks_{name}" for name in _BY_BLOCKS),
)
"""The names of recipes."""


def named_recipe(name: str) -> Recipe:
    """The recipe of a name, with its default parameters. ReproError for a name that is none."""
    if name.startswith("qat_") and name[4:] in _WITH_BLOCKS:
        return qat(_NAMED[name[4:]]())
    if name.startswith("blocks_") and name[7:] in _BY_BLOCKS:
        return by_blocks(_NAMED[name[7:]]())
    if name not in _NAMED:
        raise ReproError(f"expected a recipe among {', '.join(NAMED_RECIPES)}, got {name!r}")
    return _NAMED[name]()
