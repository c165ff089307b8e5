# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Recipes that consist of formats alone."""

from __future__ import annotations

from collections.abc import Sequence

from repro_mlir.precision import Format, Recipe, RolePrecision, Rule


def of_roles(name: str, rules: Sequence[Rule] = (), **formats: dict[str, Format]) -> Recipe:
    """Returns a recipe. For each role, `formats` contains the formats of the role's operands, by operand."""
    return Recipe(name, {role: RolePrecision(given) for role, given in formats.items()}, rules)
