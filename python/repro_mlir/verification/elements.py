# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares two arrays of one type, element by element."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.formats import ElementType, element_type, from_bits, to_bits
from repro_mlir.base.numerics.tensors import TensorType

_LARGEST = sys.float_info.max


def ulps_text(ulps: int) -> str:
    """Returns a distance as text, such as "1 ulp" or "1,024 ulps"."""
    return f"{ulps:,} {'ulp' if ulps == 1 else 'ulps'}"


@dataclass(frozen=True)
class ElementDifference:
    """The first element, row-major, in which two arrays differ.

    Attributes:
      index: the index of the element.
      first, second: the value in each array, as the shortest decimal text.
      first_bits, second_bits: the bits in each array in hexadecimal, with canonical NaNs (V4).
      ulps: the distance of the two values: for floats, the difference of their positions in the ascending order of all
        values; for integers, the absolute difference; None if exactly one value is a NaN.
      count: the number of elements that differ.
      size: the number of elements of each array.
      max_ulps: the largest `ulps` of all elements that differ; None if no such element has one.
      max_absolute: the largest absolute difference of two finite elements, in f64; the largest f64 if it overflows.
      max_magnitude: the largest absolute value of the finite elements of the first array, to which `max_absolute` can
        be compared: elements near 0 can be many ulps apart although their difference is small.
    """

    index: tuple[int, ...]
    first: str
    second: str
    first_bits: str
    second_bits: str
    ulps: int | None
    count: int
    size: int
    max_ulps: int | None
    max_absolute: float
    max_magnitude: float

    @property
    def ratio(self) -> float | None:
        """`max_absolute` divided by `max_magnitude`, at most the largest f64; None if the divisor is 0."""
        return min(self.max_absolute / self.max_magnitude, _LARGEST) if self.max_magnitude else None

    def __str__(self) -> str:
        far = "" if self.ulps is None else f", {ulps_text(self.ulps)} apart"
        return (
            f"element {list(self.index)}: {self.first} ({self.first_bits}) and "
            f"{self.second} ({self.second_bits}){far}; "
            f"{self.count} of {self.size} elements differ"
        )

    def report(self) -> dict[str, Any]:
        """Returns the difference as a JSON object."""
        return {**self.__dict__, "index": list(self.index)}


@float_environment()
def bits_of(array: np.ndarray, kind: TensorType) -> np.ndarray:
    """Returns the bits of the elements of an array as unsigned integers, with canonical NaNs (V4). The array is in the
    representation of base/numerics/tensors.py."""
    element = element_type(kind.element)
    return to_bits(_held(array, element), element)


@float_environment()
def first_difference(first: np.ndarray, second: np.ndarray, kind: TensorType) -> ElementDifference | None:
    """Returns how two arrays of type `kind` differ; None if all bits are equal, where any two NaNs count as equal."""
    a, b = bits_of(first, kind), bits_of(second, kind)
    different = a != b
    count = int(np.count_nonzero(different))
    if count == 0:
        return None
    flat = int(np.argmax(different))
    index = tuple(int(i) for i in np.unravel_index(flat, kind.shape)) if kind.shape else ()
    distances = ulp_distances(first, second, kind)
    digits = 2 * a.dtype.itemsize
    known = distances.reshape(-1)[flat]
    largest = max(distances.reshape(-1)[different.reshape(-1)], default=-1)
    return ElementDifference(
        index,
        _decimal(a.reshape(-1)[flat], kind),
        _decimal(b.reshape(-1)[flat], kind),
        f"0x{int(a.reshape(-1)[flat]):0{digits}x}",
        f"0x{int(b.reshape(-1)[flat]):0{digits}x}",
        None if known < 0 else int(known),
        count,
        a.size,
        None if largest < 0 else int(largest),
        *_magnitudes(first, second, kind),
    )


def _magnitudes(first: np.ndarray, second: np.ndarray, kind: TensorType) -> tuple[float, float]:
    """Returns `max_absolute` and `max_magnitude` of `ElementDifference`."""
    element = element_type(kind.element)
    a, b = (_held(array, element).astype(np.float64) for array in (first, second))
    finite = np.isfinite(a)
    with np.errstate(over="ignore", invalid="ignore"):
        differences = np.abs(a - b)[finite & np.isfinite(b)]
    return min(float(np.max(differences, initial=0.0)), _LARGEST), float(np.max(np.abs(a[finite]), initial=0.0))


@float_environment()
def ulp_distances(first: np.ndarray, second: np.ndarray, kind: TensorType) -> np.ndarray:
    """Computes the distance of two arrays in ulps, element by element.

    Floats are numbered in ascending order; -0 and +0 have the same number, and infinity follows the largest finite
    value.

    Returns:
      the distances as an f64 array of the same shape (exact below 2^53); -1 where exactly one element is a NaN.
    """
    element = element_type(kind.element)
    a, b = _held(first, element), _held(second, element)
    if not element.is_float:
        return np.abs(a.astype(np.float64) - b.astype(np.float64))
    places = []
    for array in (a, b):
        bits = to_bits(array, element).astype(np.uint64)
        sign = np.uint64(element.format.sign)
        magnitude = (bits & ~sign).astype(np.int64)
        places.append(np.where(bits & sign != 0, -magnitude, magnitude))
    with np.errstate(over="ignore"):
        # The numbers of two f64 values of opposite sign may differ by more than 2^63, which overflows int64.
        distance = np.abs(places[0].astype(np.float64) - places[1].astype(np.float64))
        near = np.abs(places[0] - places[1])
    distance = np.where(distance < 2.0**53, near, distance)
    nans = np.isnan(a), np.isnan(b)
    return np.where(nans[0] & nans[1], 0.0, np.where(nans[0] | nans[1], -1.0, distance))


def _held(array: np.ndarray, element: ElementType) -> np.ndarray:
    """Converts an array from the representation of base/numerics/tensors.py to that of the reference interpreter."""
    array = np.asarray(array)
    if element.is_storage:
        return from_bits(np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape), element)
    return array.astype(element.dtype, copy=False)


def _decimal(bits: Any, kind: TensorType) -> str:
    element = element_type(kind.element)
    value = from_bits(np.array(bits), element)
    if not element.is_float:
        return str(bool(value)) if element.width == 1 else str(int(value))
    return str(value[()])
