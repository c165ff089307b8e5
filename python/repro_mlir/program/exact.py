# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K4) Contractions whose sum of products is exact, chosen for a program or for some of its operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import shown
from repro_mlir.program.contractions import Contraction, contractions, with_sums

if TYPE_CHECKING:
    from repro_mlir.program import Program


def exact_contractions(program: Program, digits: int, select: Callable[[Contraction], bool] | None = None) -> Program:
    """The program with exact contractions (K4): other sums, so another program with another hash.

    Args:
      program: a canonical program.
      digits: signed bytes that hold a factor. 3 is about as accurate as float32 arithmetic (22 bits relative to the
        largest factor of a result); 2 keeps 14 bits, as much as bfloat16 inputs need.
      select: which contractions to change, by default all.
    Raises:
      ReproError: digits other than 2 and 3, or a selected contraction with more than 2^18 reduction elements.
    """
    if not isinstance(digits, int) or digits not in (2, 3):
        raise ReproError(f"expected 2 or 3 digits, got {shown(digits)}")
    chosen = [each.index for each in contractions(program) if select is None or select(each)]
    if not chosen:
        return program
    option = ",".join(map(str, chosen))
    passes = [f"repro-set-exact{{digits={digits} contractions={option}}}"]
    return with_sums(program, passes, "a contraction cannot be exact")
