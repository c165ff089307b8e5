# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Finds the contractions of a training step, with the role and the layer of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from repro_mlir.base.errors import ReproError
from repro_mlir.program.canonical import read_module
from repro_mlir.program.microbatches import MicrobatchProgram

if TYPE_CHECKING:
    from repro_mlir.program import Program


@dataclass(frozen=True)
class Described:
    """A contraction of a step.

    Attributes:
      role: `fprop`, `dgrad`, `wgrad`, `product` or `other`.
      layer: the name of the weight that the contraction reads or whose gradient it computes; None if there is no
        weight.
      number: the index of the layer, in the order of the forward pass; -1 without a layer.
      operands: the names of the two factors, as a recipe spells them.
      forward: the index of the layer's contraction in the forward pass, among all contractions; -1 if there is none.
      elements: the element types of the two factors, such as `bf16`, before the contraction converts them to f32.
      order: the order of the sum (K1), as MLIR prints it.
      has_computed_weight: whether one factor is a weight that was computed, such as a normalized one.
      location: the source location, as MLIR prints it.
      operation: the operation in its module.
    """

    role: str
    layer: str | None
    number: int
    operands: tuple[str, str]
    forward: int
    elements: tuple[str, str]
    order: str
    has_computed_weight: bool
    location: str
    operation: Any = field(repr=False, compare=False)


@dataclass(frozen=True)
class StepShape:
    """Tells where the state and the loss are among a program's arguments and results.

    Attributes:
      state: the names of the leading arguments that are state.
      has_new_state: whether the leading results are the new state.
      loss: the index of the result that is the loss; -1 if `name` selects it.
      name: the name of the loss.
    """

    state: tuple[str, ...]
    has_new_state: bool = True
    loss: int = -1
    name: str = "loss"


def shape_of(program: Program, loss: str | None) -> StepShape:
    """Returns where the state and the loss of a program are. If `loss` is None, the loss is the output `loss`, or else
    the only float scalar."""
    return StepShape(tuple(kind.name for kind in program.state), name=loss or "loss")


def shape_of_microbatch(program: MicrobatchProgram, loss: str | None) -> StepShape:
    """Returns where the state and the loss of a microbatch's program are. The loss is one of the program's sums; the
    end of the step divides that sum to get the mean loss."""
    from repro_mlir import ir

    name = loss or "loss"
    count = len(program.state)
    outputs = [kind.name for kind in program.outputs]
    if name not in outputs:
        raise ReproError(f"expected an output {name!r}, the loss, got {', '.join(outputs)}")
    with ir.Context():
        module = read_module(program.finish.data)
        block = module.body.operations[0].regions[0].blocks[0]
        results = list(block.operations[len(block.operations) - 1].operands)
        sums = _sums_of(ir, results[count + outputs.index(name)], count, count + len(program.sums))
    if len(sums) != 1:
        raise ReproError(f"expected the loss {name!r} to be one sum of the microbatches, got {len(sums)} sums")
    return StepShape(tuple(kind.name for kind in program.state), False, sums[0] - count)


def _sums_of(ir: Any, value: Any, first: int, last: int) -> list[int]:
    """Returns the indices from `first` to `last` - 1 of the arguments on which a value depends."""
    worklist, seen = [value], set()
    found: set[int] = set()
    while worklist:
        value = worklist.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, ir.BlockArgument):
            number = ir.BlockArgument(value).arg_number
            if first <= number < last:
                found.add(number)
        else:
            worklist += list(ir.OpResult(value).owner.operands)
    return sorted(found)


def describe(module: Any, shape: StepShape) -> list[Described]:
    """Returns the contractions of a module whose precision can be chosen, in program order.

    Raises:
      ReproError: the step changes weights, but none of its results is the loss.
    """
    from repro_mlir._mlir_libs import _repro

    try:
        found = _repro.contraction_roles(module, len(shape.state), shape.has_new_state, shape.loss, shape.name)
    except ValueError as error:
        raise ReproError(f"cannot find the roles of the contractions: {str(error).splitlines()[0]}") from None
    weights: Sequence[int] = list(dict.fromkeys(each[4] for each in found if each[1] == "fprop"))
    described = []
    for operation, role, left, right, weight, forward in found:
        operands = ("left", "right") if role in ("product", "other") else (left, right)
        layer = shape.state[weight] if weight >= 0 else None
        number = weights.index(weight) if weight >= 0 else -1
        x, y = map(str, _repro.multiplied_types(operation))
        order, location = str(operation.attributes["order"]), str(operation.location)
        is_computed = role == "product" and "weight" in (left, right)
        described.append(
            Described(role, layer, number, operands, forward, (x, y), order, is_computed, location, operation)
        )
    return described


def locations_of_f64(module: Any) -> list[str]:
    """Returns the locations of the f64 contractions, whose precision cannot be chosen, in program order."""
    found = []
    for function in module.body.operations:
        for operation in function.regions[0].blocks[0].operations:
            if operation.operation.name == "repro.fold":
                body = operation.operation.regions[0].blocks[0].operations
                if any(each.operation.name == "math.fma" and str(each.results[0].type) == "f64" for each in body):
                    found.append(str(operation.location))
    return found
