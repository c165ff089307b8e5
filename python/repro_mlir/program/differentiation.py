# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Gradients of imported programs: (J1) to (J5) of docs/numerics.md, by `repro-differentiate`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from repro_mlir.program.importing import run_passes


def differentiate(text: str, results: Sequence[int], arguments: Sequence[int], recompute: Sequence[str] = ()) -> str:
    """Adds to an imported program the product of gradients of some results with the Jacobian.

    Args:
      text: MLIR text that keeps the contract of imported linalg (docs/architecture.md), of static shapes.
      results: positions of the results of `main`, tensors of floats, of which gradients are given: further arguments,
        of the same types, behind the others.
      arguments: positions of the arguments of `main`, tensors of floats, of which gradients are computed: further
        results, of the same types, behind the others.
      recompute: (J5) glob patterns of locations, their names or `FILE:LINE`, whose operations are computed again for
        the gradients.
    Returns:
      the imported program with both.
    Raises:
      ReproError: the first diagnostic of the compiler, such as an operation that has no derivative, or a pattern that
        describes none.
    """

    def listed(positions: Sequence[int]) -> str:
        return ",".join(map(str, positions))

    chosen = f"results={listed(results)} arguments={listed(arguments)}"
    if recompute:
        chosen += f" recompute={','.join(map(_plain, recompute))}"
    passes = f"import-linalg,cse,repro-differentiate{{{chosen}}},cse,convert-linalg-to-repro"
    return run_passes(text, passes, "differentiate", _text_of)


def _plain(pattern: str) -> str:
    """The pattern with `?` for each byte that means something in a pipeline of passes."""
    return re.sub(rb"[^!#$%&()*+./0-9:;<=>?@A-Z\[\]^_`a-z|~\\-]", b"?", pattern.encode()).decode()


def _text_of(module: Any) -> str:
    return str(module.operation.get_asm(enable_debug_info=True))
