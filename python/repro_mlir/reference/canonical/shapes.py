# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(A3) Checks of the operations that move elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from repro_mlir.reference.canonical.uses import Uses
from repro_mlir.reference.program import Operation, ValueType

_MAX_NUMBER = 1 << 40
"""The largest offset, size and padding."""


def _tensor(operation: Operation, number: int = 0) -> tuple[int, ...]:
    """Returns the shape of an operand, which must be a tensor."""
    shape = operation.operand_types[number].shape
    if shape is None:
        raise operation.error(f"expected a tensor as operand #{number}, got {operation.operand_types[number]}")
    return shape


def _result(operation: Operation) -> tuple[int, ...]:
    shape = operation.result_types[0].shape
    if shape is None:
        raise operation.error(f"expected a tensor as result, got {operation.result_types[0]}")
    return shape


def _expect_result(operation: Operation, number: int, shape: Sequence[int]) -> None:
    expected = ValueType(operation.operand_types[number].element, tuple(shape))
    if operation.result_types[0] != expected:
        raise operation.error(f"(A3) expected {expected} as result, got {operation.result_types[0]}")


def check_empty_type(operation: Operation) -> None:
    _result(operation)


def check_same(operation: Operation) -> None:
    _expect_result(operation, 0, _tensor(operation))


def check_splat(operation: Operation) -> None:
    if operation.operand_types[0] != ValueType(operation.result_types[0].element, None):
        raise operation.error(f"expected the element of {operation.result_types[0]}, got {operation.operand_types[0]}")
    _result(operation)


def check_from_elements(operation: Operation) -> None:
    shape, expected = _result(operation), ValueType(operation.result_types[0].element, None)
    if len(operation.operands) != math.prod(shape) or any(kind != expected for kind in operation.operand_types):
        raise operation.error(f"expected an operand for each element of {operation.result_types[0]}")


def check_extract(operation: Operation) -> None:
    shape, (source, *indices) = _tensor(operation), operation.operand_types
    if len(indices) != len(shape) or any(kind.shape is not None or kind.element.name != "index" for kind in indices):
        raise operation.error(f"expected {len(shape)} operands of index, got {', '.join(map(str, indices))}")
    if operation.result_types[0] != ValueType(source.element, None):
        raise operation.error(f"expected {source.element.name} as result, got {operation.result_types[0]}")


def check_dim(operation: Operation, uses: Uses) -> None:
    shape, index = _tensor(operation), operation.operand_types[1]
    made = uses.made.get(operation.operands[1])
    if any(kind.shape is not None or kind.element.name != "index" for kind in (index, operation.result_types[0])):
        raise operation.error(f"expected index as operand and result, got {index}, {operation.result_types[0]}")
    if made is None or made.constant is None or not 0 <= int(made.constant) < len(shape):
        raise operation.error(f"(A3) expected a constant dimension from 0 to {len(shape) - 1}")


def _slice(operation: Operation, shape: Sequence[int]) -> tuple[int, ...]:
    """Checks that a slice stays within a tensor of `shape`; returns the sizes of the slice."""
    offsets, sizes, strides = (operation.attributes[f"static_{name}"] for name in ("offsets", "sizes", "strides"))
    if not len(offsets) == len(sizes) == len(strides) == len(shape):
        raise operation.error(f"(A3) expected {len(shape)} offsets, sizes and strides")
    _check_numbers(operation, (*offsets, *sizes))
    for dim, (extent, offset, size, stride) in enumerate(zip(shape, offsets, sizes, strides, strict=True)):
        last = offset + max(size - 1, 0) * stride
        # A slice without elements begins at an element, too.
        if stride < 1 or last >= extent:
            raise operation.error(
                f"(A3) expected a slice of dimension {dim} within its {extent} elements, got offset {offset}, size "
                f"{size} and stride {stride}"
            )
    return sizes


def _check_numbers(operation: Operation, numbers: Sequence[int]) -> None:
    if any(number > _MAX_NUMBER for number in numbers):
        raise operation.error("(A3) expected offsets, sizes and padding of at most 2^40")


def _drops_units(shape: Sequence[int], reduced: Sequence[int]) -> bool:
    """Returns whether the shape `reduced` results from `shape` by leaving out dimensions of extent 1."""
    rest = list(reduced)
    for extent in shape:
        if rest and rest[0] == extent:
            rest.pop(0)
        elif extent != 1:
            return False
    return not rest


def check_extract_slice(operation: Operation) -> None:
    sizes = _slice(operation, _tensor(operation))
    _check_reduced(operation, sizes, operation.operand_types[0], operation.result_types[0])


def check_insert_slice(operation: Operation) -> None:
    _tensor(operation, 0)
    sizes = _slice(operation, _tensor(operation, 1))
    _expect_result(operation, 1, _tensor(operation, 1))
    _check_reduced(operation, sizes, operation.operand_types[1], operation.operand_types[0])


def _check_reduced(operation: Operation, sizes: Sequence[int], whole: ValueType, part: ValueType) -> None:
    if part.element != whole.element or part.shape is None or not _drops_units(sizes, part.shape):
        expected = ValueType(whole.element, tuple(sizes))
        raise operation.error(f"(A3) expected {expected}, of which dimensions of extent 1 may be left out, got {part}")


def check_pad(operation: Operation, uses: Uses) -> None:
    shape = _tensor(operation)
    low, high = operation.attributes["static_low"], operation.attributes["static_high"]
    _check_numbers(operation, (*low, *high))
    if not len(low) == len(high) == len(shape):
        raise operation.error(f"(A3) expected {len(shape)} numbers of padding, got {len(low)} and {len(high)}")
    _expect_result(operation, 0, [sum(each) for each in zip(shape, low, high, strict=True)])
    (body,) = operation.regions
    if body.operations or len(body.yields) != 1:
        raise operation.error("expected a padding value from outside of the body")
    if any(kind.shape is not None or kind.element.name != "index" for kind in body.argument_types):
        raise operation.error("expected arguments of index in the body")
    if uses.types[body.yields[0]] != ValueType(operation.result_types[0].element, None):
        raise operation.error(f"expected an element of {operation.result_types[0]} as padding value")


def check_concat(operation: Operation) -> None:
    dim, shape = operation.attributes["dim"], list(_tensor(operation))
    if dim >= len(shape):
        raise operation.error(f"(A3) expected a dimension below {len(shape)}, got {dim}")
    for number in range(1, len(operation.operands)):
        other = list(_tensor(operation, number))
        kind, first = operation.operand_types[number], operation.operand_types[0]
        if kind.element != first.element or len(other) != len(shape) or _without(other, dim) != _without(shape, dim):
            raise operation.error(f"(A3) expected inputs that differ only in dimension {dim}, got {first} and {kind}")
        shape[dim] += other[dim]
    _expect_result(operation, 0, shape)


def _without(shape: list[int], dim: int) -> list[int]:
    return shape[:dim] + shape[dim + 1 :]


def check_expand(operation: Operation) -> None:
    shape = operation.attributes["static_output_shape"]
    _check_numbers(operation, shape)
    source = _tensor(operation)
    _expect_result(operation, 0, shape)
    _check_groups(operation, source, _result(operation))


def check_collapse(operation: Operation) -> None:
    source, result = _tensor(operation), _result(operation)
    _expect_result(operation, 0, result)
    _check_groups(operation, result, source)


def _check_groups(operation: Operation, collapsed: Sequence[int], expanded: Sequence[int]) -> None:
    """Checks that each group of dimensions has as many elements as the collapsed dimension."""
    groups = operation.attributes["reassociation"]
    if not all(groups):
        raise operation.error("(A3) expected no group without dimensions")
    if len(expanded) < len(collapsed) or len(groups) != len(collapsed):
        raise operation.error(f"(A3) expected a group of dimensions for each of {len(collapsed)} dimensions")
    # A reshape without groups has one element.
    every = [dim for group in groups for dim in group] if groups else list(range(len(expanded)))
    if every != list(range(len(expanded))):
        raise operation.error("(A3) expected each dimension in one group, in order")
    found = [math.prod(expanded[dim] for dim in group) for group in groups or [every]]
    if found != list(collapsed or [1]):
        raise operation.error(f"(A3) expected groups of {list(collapsed)} elements, got {found}")
