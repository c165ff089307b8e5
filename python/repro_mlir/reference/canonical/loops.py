# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks of the structured operations with loops, linalg.generic and repro.fold, and of their bodies."""

from __future__ import annotations

import math
from collections.abc import Sequence

from repro_mlir.base.numerics.formats import F32
from repro_mlir.reference.canonical.index_bounds import accesses, check_accesses, check_stable, extents_of
from repro_mlir.reference.canonical.index_expressions import Expression, Expressions
from repro_mlir.reference.canonical.structured import check_destinations, check_elements
from repro_mlir.reference.canonical.uses import Uses, extended_argument
from repro_mlir.reference.folds import Accumulated, AnyOrder, Exact, FoldOrder, Order, Sequential
from repro_mlir.reference.low_precision.accumulators import LateFdpa
from repro_mlir.reference.program import Body, Operation, ValueType

_MAX_ITERATIONS = 1 << 60
_MAX_EXACT_TERMS = 1 << 18

_SUMS = ("arith.addf", "arith.mulf", "math.fma")
"""(F7) The steps whose accumulators are f32 for results of a storage type."""

_INDEPENDENT = ("arith.maximumf", "arith.minimumf")
_STEPS = (
    "arith.addf", "arith.mulf", *_INDEPENDENT, "arith.addi", "arith.muli", "arith.maxsi", "arith.minsi", "arith.maxui",
    "arith.minui", "arith.andi", "arith.ori", "arith.xori",
)  # fmt: skip
"""(F4) The steps that combine an accumulator with a value, in addition to math.fma."""


def check_generic(operation: Operation, uses: Uses, expressions: Expressions) -> None:
    """Checks that a linalg.generic is parallel, and writes each element of its results once."""
    iterators, maps = operation.attributes["iterator_types"], operation.attributes["indexing_maps"]
    if "reduction" in iterators:
        raise operation.error("(F1) expected parallel iterators: a reduction is a repro.fold")
    if operation.operands and all(kind.shape is None for kind in operation.operand_types):
        raise operation.error("expected a tensor among the operands")
    check_destinations(operation)
    check_stable(operation, maps, expressions)
    indices = accesses(maps, expressions)
    extents = extents_of(operation, len(iterators) if maps else 0, indices, operation.operand_types)
    check_accesses(operation, indices, operation.operand_types, extents, checks_ends=True)
    for number, own in enumerate(_outputs(operation, indices)):
        if sorted(_projection(own)) != list(range(len(iterators))):
            raise operation.error(f"expected a permutation as map of output #{number}")
    _check_iterations(operation, extents)
    (body,) = operation.regions
    _check_arguments(operation, body, [ValueType(kind.element, None) for kind in operation.operand_types])
    _check_yields(operation, body, uses, [kind.element.name for kind in operation.result_types])


def check_fold(operation: Operation, uses: Uses, expressions: Expressions) -> None:
    """Checks a repro.fold (F1) to (F7)."""
    check_elements(operation)
    check_destinations(operation)
    iterators, maps = operation.attributes["iterator_types"], operation.attributes["indexing_maps"]
    check_stable(operation, maps, expressions)
    indices = accesses(maps, expressions)
    parallel = [i for i, word in enumerate(iterators) if word == "parallel"]
    for number, own in enumerate(_outputs(operation, indices)):
        if sorted(_projection(own)) != parallel:
            raise operation.error(
                f"expected each parallel dimension, and no reduction dimension, as index of output #{number}"
            )
    extents = extents_of(operation, len(iterators), indices, operation.operand_types)
    check_accesses(operation, indices, operation.operand_types, extents)
    _check_iterations(operation, extents)
    (body,) = operation.regions
    step = fold_step(operation, uses)
    outputs = len(operation.results)
    kinds = [ValueType(kind.element, None) for kind in operation.operand_types]
    if step is not None and step.name in _SUMS:
        kinds[-outputs:] = [ValueType(F32, None) if kind.element.is_storage else kind for kind in kinds[-outputs:]]
    _check_arguments(operation, body, kinds)
    _check_yields(operation, body, uses, [kind.element.name for kind in kinds[-outputs:]])
    reductions = [extent for extent, word in zip(extents, iterators, strict=True) if word == "reduction"]
    _check_order(operation, operation.attributes["order"], step, uses, reductions)


def fold_step(operation: Operation, uses: Uses) -> Operation | None:
    """Returns the operation of a fold's body that computes op(accumulator, f(inputs)); None for another body."""
    (body,) = operation.regions
    if len(operation.results) != 1 or len(body.yields) != 1:
        return None
    step = next((each for each in body.operations if body.yields[0] in each.results), None)
    if step is None or any(use.operation is not None for number in step.results for use in uses.of(number)):
        return None
    accumulator = body.arguments[-1]
    found = uses.of(accumulator)
    if len(found) != 1 or found[0].operation is not step:
        return None
    if step.name == "math.fma":
        return step if step.operands[2] == accumulator else None
    return step if step.name in _STEPS else None


def _outputs(operation: Operation, indices: list[list[Expression]]) -> list[list[Expression]]:
    return indices[len(indices) - len(operation.results) :]


def _projection(indices: Sequence[Expression]) -> list[int]:
    """Returns the dimension that each index is; -1 for an index that is not a dimension alone."""
    return [index.number if index.kind == "dimension" else -1 for index in indices]


def _check_iterations(operation: Operation, extents: Sequence[int]) -> None:
    """(A4) Checks the number of iterations. The reader bounds the number of loops."""
    if math.prod(filter(None, extents)) > _MAX_ITERATIONS:
        raise operation.error("(A4) expected at most 2^60 iterations")


def _check_arguments(operation: Operation, body: Body, kinds: Sequence[ValueType]) -> None:
    for number, (found, kind) in enumerate(zip(body.argument_types, kinds, strict=True)):
        if found != kind:
            raise operation.error(f"expected argument #{number} of the body to be {kind}, got {found}")


def _check_yields(operation: Operation, body: Body, uses: Uses, elements: Sequence[str]) -> None:
    for number, (value, element) in enumerate(zip(body.yields, elements, strict=True)):
        kind = uses.types[value]
        if kind.shape is not None or kind.element.name != element:
            raise operation.error(f"expected {element} as yielded value #{number}, got {kind}")


def _check_order(
    operation: Operation, order: FoldOrder, step: Operation | None, uses: Uses, reductions: Sequence[int]
) -> None:
    """Checks that the order fits the step, by (F1), (F5), (F6), (K4) and (M4)."""
    if step is None:
        if not isinstance(order, Sequential):
            raise operation.error("(F6) expected #repro.sequential for a body that is not op(acc, f(inputs))")
    elif isinstance(order, Exact | Accumulated):
        _check_plain(operation, step, uses)
        _check_sum(operation, order, reductions)
    else:
        kind = step.result_types[0].element
        is_independent = step.name in _INDEPENDENT or not kind.is_float
        if isinstance(order, AnyOrder) != is_independent or not isinstance(order, AnyOrder | Order):
            word = "(F5) expected #repro.any_order" if is_independent else "(F1) expected #repro.order"
            raise operation.error(f"{word} for a fold by '{step.name}'")


def _check_plain(operation: Operation, step: Operation, uses: Uses) -> None:
    (body,) = operation.regions
    others = [each for each in body.operations if each is not step and each.name != "arith.extf"]
    is_plain = step.name == "math.fma" and step.result_types[0].element == F32 and not others
    if not is_plain or any(extended_argument(each, body, uses) is None for each in step.operands[:2]):
        raise operation.error(
            "(K4), (M4) expected acc = math.fma(x, y, acc) in f32 of two inputs or their extensions, and no other "
            "operation, for this order"
        )


def _check_sum(operation: Operation, order: Exact | Accumulated, reductions: Sequence[int]) -> None:
    if isinstance(order, Exact):
        terms = 1
        for extent in reductions:
            terms *= extent
            if terms > _MAX_EXACT_TERMS:
                raise operation.error(f"(K4) expected at most {_MAX_EXACT_TERMS} reduction elements for #repro.exact")
        return
    if order.chunk >= 1 << 63:
        raise operation.error(f"(M4) expected a chunk below 2^63, got {order.chunk}")
    inner = order.accumulator.inner if isinstance(order.accumulator, LateFdpa) else order.accumulator
    result = operation.result_types[0].element.name
    if order.from_init and inner.round == "rne_f16" and result != "f16":
        raise operation.error(f"(M4) expected results of f16 for start = init with rne_f16, got {result}")
