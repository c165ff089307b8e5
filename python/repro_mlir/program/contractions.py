# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The contractions (K1) of a program, whose summation a user may choose: exact sums (K4) or accumulators (M4)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from repro_mlir.program.canonical import read_module, write_module
from repro_mlir.program.passes import run_passes

if TYPE_CHECKING:
    from repro_mlir.program import Program


@dataclasses.dataclass(frozen=True)
class Contraction:
    """A matrix product, convolution or other contraction of a program.

    Attributes:
      index: the index among the program's contractions, in program order.
      location: the source location as MLIR prints it, such as `loc("model.py":12:0)`.
      operands: the types of the two factors and of the initial value, as MLIR prints them.
      order: the current order of summation, `#repro.order<...>`, `#repro.exact<...>` or `#repro.fdpa<...>`.
      elements: the element types of the two factors before they are extended, such as `bf16`.
      result: the element type of the result.
      role: the role in a step: `fprop` (forward pass, with a weight), `dgrad` and `wgrad` (gradients with respect to
        the activation and the weight of an `fprop`), `product` (forward pass, without a weight) or `other`. None if
        weights change and no output is the loss.
      layer: the name of the weight of the layer; None without a weight.
    """

    index: int
    location: str
    operands: tuple[str, ...]
    order: str
    elements: tuple[str, str]
    result: str
    role: str | None
    layer: str | None


def contractions(program: Program) -> list[Contraction]:
    """Returns the contractions (K1) of a program whose summation can be chosen, in program order."""
    from repro_mlir import ir

    with ir.Context():
        module = read_module(program.data)
        roles = _roles(program, module)
        return [
            _describe(index, fold, types, *roles.get(fold, (None, None)))
            for index, (fold, types) in enumerate(_folds(module))
        ]


def with_sums(program: Program, passes: Sequence[str], refused: str) -> Program:
    """Applies passes that change the summation of contractions; returns the new program, whose hash differs.

    Raises:
      ReproError: a contraction does not support the summation; the message is `refused` and the reason.
    """
    from repro_mlir import ir

    with ir.Context():
        module = read_module(program.data)
        run_passes(module, ",".join(passes), refused)
        return dataclasses.replace(program, data=write_module(module))


def _folds(module: Any) -> Iterator[tuple[Any, tuple[Any, Any]]]:
    """Yields each contraction with the element types of its two factors."""
    from repro_mlir._mlir_libs import _repro

    for function in module.body.operations:
        for operation in function.regions[0].blocks[0].operations:
            if types := _repro.multiplied_types(operation.operation):
                yield operation.operation, types


def _roles(program: Program, module: Any) -> dict[Any, tuple[str, str | None]]:
    """Returns the role and the layer (as in `Contraction`) of each operation; an empty dict if the loss cannot be
    determined."""
    from repro_mlir._mlir_libs import _repro

    try:
        found = _repro.contraction_roles(module, len(program.state), True, -1, "loss")
    except ValueError:
        return {}
    return {fold: (role, program.state[weight].name if weight >= 0 else None) for fold, role, _, _, weight, _ in found}


def _describe(index: int, fold: Any, types: tuple[Any, Any], role: str | None, layer: str | None) -> Contraction:
    operands = tuple(str(value.type) for value in fold.operands)
    result = str(fold.results[0].type.element_type)
    x, y = map(str, types)
    return Contraction(index, str(fold.location), operands, str(fold.attributes["order"]), (x, y), result, role, layer)
