# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Gradients of imported programs by the pass `repro-differentiate`: (J1) to (J5) of docs/reference/numerics.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from repro_mlir.program.importing import run_passes_on_text


def differentiate(text: str, results: Sequence[int], arguments: Sequence[int], recompute: Sequence[str] = ()) -> str:
    """Adds a vector-Jacobian product to an imported program: gradients of results become gradients of arguments.

    Args:
      text: MLIR text that follows the contract of imported linalg (docs/contributors/architecture.md), with static
        shapes.
      results: the positions of results of `main`, float tensors, whose gradients become additional arguments of the
        same types, after the existing arguments.
      arguments: the positions of arguments of `main`, float tensors, whose gradients become additional results of the
        same types, after the existing results.
      recompute: (J5) glob patterns that match location names or `FILE:LINE`; matching operations are recomputed for the
        gradients.
    Returns:
      The imported program with the additional arguments and results.
    Raises:
      ReproError: the pass fails, for example for an operation without a derivative or a pattern without a match; the
        message is the first diagnostic.
    """

    def listed(positions: Sequence[int]) -> str:
        return ",".join(map(str, positions))

    chosen = f"results={listed(results)} arguments={listed(arguments)}"
    if recompute:
        chosen += f" recompute={','.join(map(_plain, recompute))}"
    passes = f"import-linalg,cse,repro-differentiate{{{chosen}}},cse,convert-linalg-to-repro"
    return run_passes_on_text(text, passes, "differentiate", _text_of)


def _plain(pattern: str) -> str:
    """Replaces each byte of a pattern that could have a meaning in pass pipeline syntax by `?`."""
    return re.sub(rb"[^!#$%&()*+./0-9:;<=>?@A-Z\[\]^_`a-z|~\\-]", b"?", pattern.encode()).decode()


def _text_of(module: Any) -> str:
    return str(module.operation.get_asm(enable_debug_info=True))
