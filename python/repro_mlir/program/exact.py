# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K4) Contractions whose sum of products is exact, chosen for a program or for some of its operations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..errors import ReproError
from .canonical import read_module, write_module

if TYPE_CHECKING:
    from . import Program


@dataclasses.dataclass(frozen=True)
class Contraction:
    """A matrix product, convolution or other contraction of a program.

    Attributes:
      index: its number among the program's contractions, in program order.
      location: where it comes from as MLIR prints it, such as `loc("model.py":12:0)`.
      operands: the types of the two factors and of the initial value, as MLIR prints them.
      order: its present order, `#repro.order<...>` or `#repro.exact<...>`.
      role: what it is for in a step: `fprop`, of a weight in the forward pass; `dgrad` and `wgrad`, the gradients with
        respect to that one's activation and weight; `product`, of no weight in the forward pass; or `other`. None where
        weights change and no output is the loss.
      layer: the name of the weight of that layer; None where there is none.
    """

    index: int
    location: str
    operands: tuple[str, ...]
    order: str
    role: str | None
    layer: str | None


def contractions(program: Program) -> list[Contraction]:
    """The contractions (K1) of a program that `exact_contractions` can change, in program order."""
    from .. import ir

    with ir.Context():
        module = read_module(program.data)
        roles = _roles(program, module)
        return [_describe(index, fold, *roles.get(fold, (None, None))) for index, fold in enumerate(_folds(module))]


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
    from .. import ir, passmanager

    if not isinstance(digits, int) or digits not in (2, 3):
        raise ReproError(f"expected 2 or 3 digits, got {digits!r}")
    chosen = [each.index for each in contractions(program) if select is None or select(each)]
    if not chosen:
        return program
    option = ",".join(map(str, chosen))
    pipeline = f"builtin.module(repro-set-exact{{digits={digits} contractions={option}}})"
    with ir.Context():
        module = read_module(program.data)
        try:
            passmanager.PassManager.parse(pipeline).run(module.operation)
        except ir.MLIRError as error:
            reason = " ".join(str(error).splitlines()[:2])
            raise ReproError(f"a contraction cannot be exact: {reason}") from None
        return dataclasses.replace(program, data=write_module(module))


def _folds(module: Any) -> Iterator[Any]:
    from .._mlir_libs import _repro

    for function in module.body.operations:
        for operation in function.regions[0].blocks[0].operations:
            if _repro.can_be_exact(operation.operation):
                yield operation.operation


def _roles(program: Program, module: Any) -> dict[Any, tuple[str, str | None]]:
    """Role and layer by operation; nothing where it cannot be told what the loss is."""
    from .._mlir_libs import _repro

    try:
        found = _repro.contraction_roles(module, len(program.state), True, -1, "loss")
    except ValueError:
        return {}
    return {fold: (role, program.state[weight].name if weight >= 0 else None) for fold, role, _, _, weight, _ in found}


def _describe(index: int, fold: Any, role: str | None, layer: str | None) -> Contraction:
    operands = tuple(str(value.type) for value in fold.operands)
    return Contraction(index, str(fold.location), operands, str(fold.attributes["order"]), role, layer)
