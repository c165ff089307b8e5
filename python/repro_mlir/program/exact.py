# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K4) Selects exact sums of products for all or some contractions of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import shown
from repro_mlir.program.contractions import Contraction, contractions, with_sums

if TYPE_CHECKING:
    from repro_mlir.program import Program


def check_digits(digits: int) -> None:
    """Raises ReproError unless `digits` is 2 or 3, the numbers of digits for which exact contractions (K4) are
    defined."""
    if type(digits) is not int or digits not in (2, 3):
        raise ReproError(f"expected 2 or 3 digits, got {shown(digits)}")


def exact_contractions(program: Program, digits: int, select: Callable[[Contraction], bool] | None = None) -> Program:
    """Returns the program with exact contractions (K4). The results and thus the hash of the program change.

    Args:
      digits: the number of signed bytes that represent a factor. 3 is about as accurate as f32 arithmetic (22 bits
        relative to the largest factor of a result); 2 keeps 14 bits, which is sufficient for bf16 inputs.
      select: a function that returns whether to change a contraction; by default all are changed.
    Raises:
      ReproError: `digits` is neither 2 nor 3, or a selected contraction has more than 2^18 reduction elements.
    """
    check_digits(digits)
    chosen = [each.index for each in contractions(program) if select is None or select(each)]
    if not chosen:
        return program
    option = ",".join(map(str, chosen))
    passes = [f"repro-set-exact{{digits={digits} contractions={option}}}"]
    return with_sums(program, passes, "a contraction cannot be exact")
