# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Gradients of imported programs: (J1) to (J4) of docs/numerics.md, by `repro-differentiate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .importing import run_passes


def differentiate(text: str, results: Sequence[int], arguments: Sequence[int]) -> str:
    """Adds to an imported program the product of gradients of some results with the Jacobian.

    Args:
      text: MLIR text that keeps the contract of imported linalg (docs/architecture.md), of static shapes.
      results: positions of the results of `main`, tensors of floats, of which gradients are given: further arguments,
        of the same types, behind the others.
      arguments: positions of the arguments of `main`, tensors of floats, of which gradients are computed: further
        results, of the same types, behind the others.
    Returns:
      the imported program with both.
    Raises:
      ReproError: the first diagnostic of the compiler, such as an operation that has no derivative.
    """

    def listed(positions: Sequence[int]) -> str:
        return ",".join(map(str, positions))

    chosen = f"results={listed(results)} arguments={listed(arguments)}"
    passes = f"import-linalg,cse,repro-differentiate{{{chosen}}},cse,convert-linalg-to-repro"
    return run_passes(text, passes, "differentiate", _text_of)


def _text_of(module: Any) -> str:
    return str(module.operation.get_asm(enable_debug_info=True))
