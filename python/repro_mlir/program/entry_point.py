# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Finds out which function of an external module is the program; works with any package of MLIR bindings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from repro_mlir.base.errors import ReproError


def entry_point(ir: Any, functions: Sequence[Any]) -> Any:
    """Returns the function `main`, else the only public function.

    Args:
      ir: the `ir` module of the MLIR bindings to which the functions belong.
      functions: the candidates, `func.func` operations.
    Raises:
      ReproError: no function qualifies.
    """
    named = {ir.StringAttr(each.attributes["sym_name"]).value: each for each in functions}
    public = [name for name, each in named.items() if _is_public(ir, each)]
    name = "main" if "main" in named else public[0] if len(public) == 1 else None
    if name is None:
        shown = ", ".join(public[:5]) or "none"
        raise ReproError(f"expected a function main, or one public function, got {shown}")
    return named[name]


def _is_public(ir: Any, function: Any) -> bool:
    key = "sym_visibility"
    return key not in function.attributes or ir.StringAttr(function.attributes[key]).value == "public"
