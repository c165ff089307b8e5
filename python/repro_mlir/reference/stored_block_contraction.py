# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q4), (M5) Checks of the types and attributes of a stored contraction of tensors in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from repro_mlir.reference.low_precision.accumulators import Fdpa, LateFdpa, check_groups
from repro_mlir.reference.low_precision.binary_formats import FORMATS, BinaryFormat
from repro_mlir.reference.program import ValueType
from repro_mlir.reference.stored_block_format import InvalidFormat

_MOST_BLOCK = 8192
_MOST_ROWS = 1 << 40
_MOST_FRACTION_BITS = 64
_CODES = "f8E4M3FN", "f6E3M2FN", "f6E2M3FN", "f4E2M1FN"
_SCALES = "f8E8M0FNU", "f8E4M3FN", "f32"


def check_contraction(attributes: dict[str, Any], operands: Sequence[ValueType], result: ValueType) -> None:
    """Raises InvalidFormat unless the types and attributes form a contraction of tensors in blocks."""
    block, rows, fraction_bits = attributes["block"], attributes["rows"], attributes.get("fraction_bits")
    if not 1 <= block <= _MOST_BLOCK:
        raise InvalidFormat(f"(Q4) expected blocks of 1 to {_MOST_BLOCK}, got {block}")
    if len(rows) != 2 or not 1 <= min(rows) <= max(rows) <= _MOST_ROWS:
        raise InvalidFormat(f"(Q4) expected two numbers of rows from 1 to {_MOST_ROWS}, got {list(rows)}")
    if fraction_bits is not None and fraction_bits > _MOST_FRACTION_BITS:
        raise InvalidFormat(f"(Q4) expected 0 to {_MOST_FRACTION_BITS} fraction bits, got {fraction_bits}")
    shapes = [each.shape for each in operands]
    if any(shape is None or len(shape) < 2 or len(shape) != len(result.shape or ()) for shape in shapes):
        raise InvalidFormat("(Q4) expected tensors with the number of dimensions of the result, at least two")
    *outer, m, n = result.shape or ()
    k = (shapes[0] or ())[-1]
    for side, extent in enumerate((m, n)):
        codes, scales = operands[2 * side : 2 * side + 2]
        known = _CODES if fraction_bits is None else ("i8",)
        if codes.element.name not in known or codes.shape != (*outer, extent, k):
            raise InvalidFormat(f"(Q4) expected codes of {', '.join(known)} and {[*outer, extent, k]}, got {codes}")
        blocks = (*outer, -(-extent // rows[side]), -(-k // block))
        if scales.element.name not in _SCALES or scales.shape != blocks:
            raise InvalidFormat(f"(Q4) expected scales of {', '.join(_SCALES)} and {list(blocks)}, got {scales}")
    if result.element.name != "f32" or operands[4] != result:
        raise InvalidFormat(f"(Q4) expected an initial value and a result of f32, got {operands[4]} and {result}")
    by = attributes.get("accumulator")
    if attributes["step"] == "scaled":
        _check_scaled(by, block, operands)
    elif isinstance(by, Fdpa | LateFdpa) and (by.inner if isinstance(by, LateFdpa) else by).group != 1:
        raise InvalidFormat("(M5) expected group 1 except in scaled contractions")


def _check_scaled(by: Fdpa | LateFdpa | None, block: int, operands: Sequence[ValueType]) -> None:
    """(M5) Raises InvalidFormat for scaled products that the accumulator does not support."""
    if not isinstance(by, Fdpa) or by.fraction is None:
        raise InvalidFormat("(M5) expected an accumulator with a fraction, and not late, for scaled products")
    if block % by.group:
        raise InvalidFormat(f"(M5) expected blocks of whole groups of {by.group} products, got blocks of {block}")
    if any(operands[i].element.name not in _SCALES[:2] for i in (1, 3)):
        raise InvalidFormat(f"(M5) expected scales of {' or '.join(_SCALES[:2])} as factors of products")
    first, second = (FORMATS[operands[i].element.name] for i in (0, 2))
    assert isinstance(first, BinaryFormat) and isinstance(second, BinaryFormat)
    try:
        check_groups(by, (first, second))
    except ValueError as error:
        raise InvalidFormat(f"(M5) {error}") from None
