# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Decodes the formats of tensors in blocks, (Q1) to (Q3), from the numbers that represent them in a stored program."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from repro_mlir.base.numerics.formats import ElementType, element_type
from repro_mlir.reference.low_precision.binary_formats import (
    ELEMENT_FORMATS,
    F4E2M1FN,
    MXINT8,
    MXINT8_FULL,
    FixedFormat,
    Format,
)
from repro_mlir.reference.low_precision.block_quantization import BlockFormat
from repro_mlir.reference.low_precision.block_rounding import NAN_CODES, Rounding
from repro_mlir.reference.low_precision.block_scales import (
    Encoding,
    Given,
    InfiniteAmax,
    OneLevelQuotient,
    PowerOfTwo,
    PowerRule,
    ScaleRule,
    Single,
    TwoLevel,
    TwoLevelQuotient,
)
from repro_mlir.reference.low_precision.exact_rounding import Direction
from repro_mlir.reference.program import ValueType

_DIRECTIONS = (Direction.NEAREST_EVEN, Direction.NEAREST_AWAY, Direction.TOWARD_ZERO, Direction.STOCHASTIC)
_LAYOUTS = ("site", "ptx")
_RULES = tuple(PowerRule)
_INFINITIES = tuple(InfiniteAmax)
_ENCODINGS = tuple(Encoding)
_FLAGS = (False, True)
_KINDS = ("power", "two levels", "quotient", "f32", "given")
_MOST_ROWS = 1 << 31

_T = TypeVar("_T")


class InvalidFormat(Exception):
    """Raised for numbers or types that are not valid for a tensor in blocks; the message states what was expected."""


@dataclass(frozen=True)
class StoredFormat:
    """The block format of a quantization, as stored in a program.

    Attributes:
      format: the block format. A stored tile extent of 0, which means the whole extent, is None here.
      element: the element type of the codes in the program.
      is_ptx: whether stochastic rounding assigns random bits to elements as PTX does (Q3); otherwise it uses the first
        bits of each element's word.
    """

    format: BlockFormat
    element: ElementType
    is_ptx: bool

    @property
    def is_stochastic(self) -> bool:
        """Whether quantizing an element needs random bits."""
        return self.format.rounding.direction is Direction.STOCHASTIC

    @property
    def takes_tensor(self) -> bool:
        """Whether quantizing reads the amax, or the scale, of the whole tensor."""
        return isinstance(self.format.scale, TwoLevel | TwoLevelQuotient | Given)

    @property
    def keeps_tensor(self) -> bool:
        """Whether dequantizing also reads the amax, or the scale, of the whole tensor."""
        return self.takes_tensor and not isinstance(self.format.scale, Given)

    @property
    def scale_element(self) -> ElementType:
        """The element type of the scales."""
        if isinstance(self.format.scale, PowerOfTwo):
            return element_type("f8E8M0FNU")
        return element_type("f32" if isinstance(self.format.scale, Single | Given) else "f8E4M3FN")

    def scale_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the scales of a tensor of rank 2 or more."""
        sizes = (size or max(extent, 1) for size, extent in zip(self.format.tile, shape[-2:], strict=True))
        blocks = (-(-extent // size) for size, extent in zip(sizes, shape[-2:], strict=True))
        return (*shape[:-2], *blocks)

    def within(self, shape: Sequence[int]) -> BlockFormat:
        """Returns this format for a tensor of the given shape, with the tile clamped to that shape."""
        rows, columns = (
            min(size or extent, max(extent, 1)) for size, extent in zip(self.format.tile, shape[-2:], strict=True)
        )
        return BlockFormat(self.format.element, (rows, columns), self.format.scale, self.format.rounding)


class _Numbers:
    """Reads a sequence of numbers one by one."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._left: Iterator[int] = iter(numbers)

    def take(self) -> int:
        """Returns the next number, read as two's complement."""
        number = next(self._left, None)
        if number is None:
            raise InvalidFormat("expected more numbers of a format of blocks")
        return number - (1 << 64) if number >> 63 else number

    def take_of(self, values: Sequence[_T]) -> _T:
        number = self.take()
        if not 0 <= number < len(values):
            raise InvalidFormat(f"expected a number of a format of blocks below {len(values)}, got {number}")
        return values[number]

    def expect_end(self) -> None:
        if next(self._left, None) is not None:
            raise InvalidFormat("expected no more numbers of a format of blocks")


def _expect(holds: bool, message: str) -> None:
    if not holds:
        raise InvalidFormat(message)


def block_format(stored: Sequence[int], element: ElementType) -> StoredFormat:
    """Returns the format that the numbers encode (docs/verification/identity.md).

    Raises InvalidFormat for invalid numbers.
    """
    numbers = _Numbers(stored)
    rows, columns, symmetric = numbers.take(), numbers.take(), numbers.take_of(_FLAGS)
    direction, bits, layout = numbers.take_of(_DIRECTIONS), numbers.take(), numbers.take_of(_LAYOUTS)
    saturate, nan, signed_zero = numbers.take_of(_FLAGS), numbers.take_of(NAN_CODES), numbers.take_of(_FLAGS)
    scale = _scale(numbers)
    numbers.expect_end()
    if direction is not Direction.STOCHASTIC:
        _expect(bits == 0 and layout == "site", f"(Q3) expected random bits only for a stochastic rounding, got {bits}")
    else:
        _expect(1 <= bits <= 32, f"(Q3) expected 1 to 32 random bits, got {bits}")
        _expect(layout == "site" or bits == 16, f"(Q3) expected 16 random bits of `ptx`, got {bits}")
    form = _element_format(element, symmetric)
    _expect(
        0 <= rows <= _MOST_ROWS and 0 <= columns <= _MOST_ROWS,
        f"(Q2) expected blocks of up to 2^31 rows and columns, 0 for all, got {rows} and {columns}",
    )
    _expect(
        not isinstance(scale, Given) or rows == columns == 0,
        f"(Q2) expected a block of all rows and columns under a given scale, got {rows} and {columns}",
    )
    _expect(
        form == F4E2M1FN or isinstance(scale, PowerOfTwo | Single | Given),
        f"(Q2) expected elements of f4E2M1FN under scales of f8E4M3FN, got {element.name}",
    )
    _expect(
        layout == "site" or not isinstance(form, FixedFormat),
        f"(Q3) expected floats for `ptx`, got {element.name}",
    )
    rounding = Rounding(direction, bits, saturate, nan, signed_zero)
    return StoredFormat(
        BlockFormat(form, (rows or None, columns or None), scale, rounding), element, is_ptx=layout == "ptx"
    )


def _element_format(element: ElementType, symmetric: bool) -> Format:
    if element.name == "i8":
        return MXINT8 if symmetric else MXINT8_FULL
    form = ELEMENT_FORMATS.get(element.name)
    if form is None:
        known = "f8E4M3FN, f8E5M2, f6E3M2FN, f6E2M3FN, f4E2M1FN or i8"
        raise InvalidFormat(f"(Q1) expected elements of {known}, got {element.name}")
    _expect(symmetric, f"(Q1) expected i8 for a format that is not symmetric, got {element.name}")
    return form


def _scale(numbers: _Numbers) -> ScaleRule:
    match numbers.take_of(_KINDS):
        case "power":
            rule, infinity = numbers.take_of(_RULES), numbers.take_of(_INFINITIES)
            nan, least_exponent = numbers.take(), numbers.take()
            _expect(0 <= nan <= 255, f"(Q2) expected a byte for NaN, got {nan}")
            _expect(
                -127 <= least_exponent <= 127,
                f"(Q2) expected a least exponent from -127 to 127, got {least_exponent}",
            )
            return PowerOfTwo(rule, infinity, nan, least_exponent)
        case "two levels":
            largest = numbers.take()
            _expect(largest in (448, 256), f"(Q2) expected a largest scale of 448 or 256, got {largest}")
            return TwoLevel(largest)
        case "quotient":
            levels = numbers.take()
            _expect(levels in (1, 2), f"(Q2) expected 1 or 2 levels, got {levels}")
            return TwoLevelQuotient() if levels == 2 else OneLevelQuotient()
        case "given":
            return Given()
    encoding = numbers.take_of(_ENCODINGS)
    (least,) = struct.unpack("<d", struct.pack("<q", numbers.take()))
    inverse, power = numbers.take_of(_FLAGS), numbers.take_of(_FLAGS)
    # The comparison also rejects NaN.
    _expect(2.0**-126 <= least <= 2.0**127, f"(Q2) expected a least amax that is normal in f32, got {least}")
    try:
        return Single(least, encoding, inverse, power)
    except ValueError:
        raise InvalidFormat("(Q2) expected a product for an inverse scale, and no product by a power of two") from None


def check_packed(codes: ValueType, packed: ValueType) -> None:
    """Raises InvalidFormat unless the types are those of codes and of their packed bytes (Q7)."""
    shape = codes.shape
    if not shape or codes.element.name != "f4E2M1FN":
        raise InvalidFormat(f"(Q7) expected codes of f4E2M1FN in rows, got {codes}")
    expected = ValueType(element_type("i8"), (*shape[:-1], -(-shape[-1] // 2)))
    _expect(packed == expected, f"(Q7) expected two codes in a byte, {expected} of {codes}, got {packed}")


def check_types(
    form: StoredFormat,
    values: ValueType,
    codes: ValueType,
    scales: ValueType,
    tensor: ValueType | None,
    takes_tensor: bool,
) -> None:
    """Raises InvalidFormat unless the types are those of a tensor in blocks. `values` is the type of the dequantized
    tensor; `tensor` is the type of the amax or the scale that the format requires if `takes_tensor`."""
    shape = values.shape
    if shape is None or len(shape) < 2 or values.element.name != "f32":
        raise InvalidFormat(f"(Q2) expected f32 of two dimensions or more, got {values}")
    expected_codes = ValueType(form.element, shape)
    _expect(codes == expected_codes, f"(Q1) expected codes of {expected_codes}, got {codes}")
    expected_scales = ValueType(form.scale_element, form.scale_shape(shape))
    _expect(scales == expected_scales, f"(Q2) expected scales of {expected_scales}, got {scales}")
    if (tensor is not None) != takes_tensor:
        found = "no value" if tensor is not None else "a value"
        raise InvalidFormat(f"(Q2) expected {found} of the whole tensor for this scale")
    if tensor is None or (tensor.shape == () and tensor.element.name == "f32"):
        return
    of_rows = isinstance(form.format.scale, TwoLevel) and form.format.tile[0] == 1
    _expect(
        of_rows and tensor.element.name == "f32" and tensor.shape == shape[:-1],
        f"(Q2) expected f32 of the whole tensor, or an amax of each row where blocks have one, got {tensor}",
    )
