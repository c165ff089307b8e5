# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares two sides, tensor by tensor; reads the elements in parts of a fixed size."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from repro_mlir.tensor_dumps.element_kinds import KINDS, ElementKind, bit_lengths
from repro_mlir.tensor_dumps.listing import Entry, Side
from repro_mlir.tensor_dumps.stored_tensors import StoredTensor

_PART = 1 << 18
"""The number of elements that are compared at once, a multiple of 8."""

LISTED = 10_000
"""The maximum number of differing or unmatched tensors that a result lists."""

_BUCKETS = 65


@dataclass(frozen=True)
class ElementPair:
    """Two elements that differ.

    Attributes:
      index: the position in the tensor.
      first, second: the values as the shortest decimal text; "" if the element type is unknown.
      first_bits, second_bits: the bits in hexadecimal.
      ulps: the distance of floats in ulps, and of integers their absolute difference; None if one is a NaN or the
        element type is unknown.
      absolute: |first - second| in f64; None as `ulps`.
      relative: `absolute` / max(|first|, |second|); None as `ulps`.
    """

    index: tuple[int, ...]
    first: str
    second: str
    first_bits: str
    second_bits: str
    ulps: int | None
    absolute: float | None
    relative: float | None


@dataclass
class TensorDifference:
    """A tensor that both sides have, and in which they differ.

    Attributes:
      step, name, module: as in `Entry`.
      first, second: the element type and shape of each side, or the value if it is a text.
      reason: "elements", "shape", "element type" or "value".
      size: the number of elements; 0 unless the reason is "elements".
      count: the number of elements that differ.
      element: the first element that differs, in row-major order.
      ulps: the largest distance, of integers their absolute difference; None if no two elements that differ have one.
      are_integers: whether the elements are integers or booleans, which have no ulps.
      absolute, relative: the largest differences, of any two elements.
      histogram: the number of differing elements by this distance: entry 0 for distance 0, which have zeros of
        different sign; entry n > 0 for distances from 2^(n-1) to 2^n - 1.
      one_nan: the number of elements of which exactly one is a NaN.
      two_nans: the number of elements that are NaNs of different bits.
    """

    step: int | None
    name: str
    module: str
    first: str
    second: str
    reason: str
    size: int = 0
    count: int = 0
    element: ElementPair | None = None
    ulps: int | None = None
    absolute: float | None = None
    relative: float | None = None
    histogram: list[int] = field(default_factory=lambda: [0] * _BUCKETS, repr=False)
    one_nan: int = 0
    two_nans: int = 0
    are_integers: bool = False


@dataclass
class Comparison:
    """The result of a comparison.

    Attributes:
      names: the two sides, as the user named them.
      steps: the number of steps of each side; 0 if a side has no steps.
      compared: the number of tensors that both sides have.
      different: the number of these that differ.
      differences: those that differ, in the order of the first side, at most `LISTED`.
      missing: for each side, step and name of the tensors that only this side has, without the tensors of
        `missing_steps`, at most `LISTED`.
      missing_steps: for each side, the steps that only this side has, at most `LISTED`.
      alone: for each side, the number of tensors that only this side has.
      unlisted: for each side, the number of these that are neither in `missing` nor in a step of `missing_steps`.
      ignored: for each side, the number of files that the pattern does not match.
    """

    names: tuple[str, str]
    steps: tuple[int, int]
    compared: int = 0
    different: int = 0
    differences: list[TensorDifference] = field(default_factory=list)
    missing: tuple[list[tuple[int | None, str]], list[tuple[int | None, str]]] = field(default_factory=lambda: ([], []))
    missing_steps: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    alone: tuple[int, int] = (0, 0)
    unlisted: tuple[int, int] = (0, 0)
    ignored: tuple[int, int] = (0, 0)

    @property
    def is_equal(self) -> bool:
        """Whether both sides have the same tensors with the same elements."""
        return self.different == 0 and self.alone == (0, 0)


class _Reader(Protocol):
    def read(self, begin: int, end: int) -> np.ndarray: ...


def compare_sides(
    first: Side, second: Side, equal_nans: bool = False, advance: Callable[[], None] = lambda: None
) -> Comparison:
    """Compares all tensors that both sides have, and lists those that only one side has.

    Args:
      equal_nans: whether two NaNs are equal if their bits differ.
      advance: called after each comparison of two tensors.
    Raises:
      ReproError: a file has changed or become unreadable.
    """
    sides = first, second
    steps = [each.steps for each in sides]
    counts = [len([step for step in each if step is not None]) for each in steps]
    result = Comparison((first.path, second.path), (counts[0], counts[1]), ignored=(first.ignored, second.ignored))
    alone = [[key for key in own.entries if key not in other.entries] for own, other in (sides, sides[::-1])]
    result.alone = len(alone[0]), len(alone[1])
    lonely = [[step for step in own if step not in other] for own, other in (steps, steps[::-1])]
    unlisted: list[int] = []
    for i in range(2):
        result.missing_steps[i].extend([step for step in lonely[i] if step is not None][:LISTED])
        whole = set(result.missing_steps[i])
        single = [key for key in alone[i] if key[0] not in whole]
        result.missing[i].extend(single[:LISTED])
        unlisted.append(len(single[LISTED:]))
    result.unlisted = unlisted[0], unlisted[1]
    for key, entry in first.entries.items():
        other = second.entries.get(key)
        if other is None:
            continue
        result.compared += 1
        difference = compare_entries(entry, other, equal_nans)
        if difference is not None:
            result.different += 1
            if len(result.differences) < LISTED:
                result.differences.append(difference)
        advance()
    return result


def compare_entries(first: Entry, second: Entry, equal_nans: bool = False) -> TensorDifference | None:
    """Returns how two tensors, numbers or texts differ; None if they are equal. Arguments and errors as for
    `compare_sides`."""
    module = first.module or second.module

    def differs(reason: str, *shown: str) -> TensorDifference:
        return TensorDifference(first.step, first.name, module, shown[0], shown[1], reason)

    a, b = first.value, second.value
    if isinstance(a, str) and isinstance(b, str):
        return None if a == b else differs("value", a, b)
    if isinstance(a, str) or isinstance(b, str):
        return differs("value", *(each if isinstance(each, str) else _described(each)[2] for each in (a, b)))
    (kind, shape, shown), (other_kind, other_shape, other_shown) = _described(a), _described(b)
    if kind != other_kind:
        return differs("element type", shown, other_shown)
    if shape != other_shape:
        return differs("shape", shown, other_shown)
    found = differs("elements", shown, other_shown)
    with _opened(a) as left, _opened(b) as right:
        _compare_elements(found, kind, shape, (left, right), equal_nans)
    return found if found.count else None


def _described(value: StoredTensor | np.ndarray) -> tuple[ElementKind, tuple[int, ...], str]:
    if isinstance(value, StoredTensor):
        return value.kind, value.shape, str(value)
    kind = KINDS[{"f": "f64", "i": "i64", "b": "i1"}[value.dtype.kind]]
    return kind, (), f"{kind.name} number"


class _Number:
    """Reads a number as `Elements` reads a tensor."""

    def __init__(self, value: np.ndarray) -> None:
        self._bits = value.reshape(1).view(f"u{value.itemsize}")

    def read(self, begin: int, end: int) -> np.ndarray:
        return self._bits[begin:end]


@contextlib.contextmanager
def _opened(value: StoredTensor | np.ndarray) -> Iterator[_Reader]:
    if isinstance(value, StoredTensor):
        with value.opened() as elements:
            yield elements
    else:
        yield _Number(value)


def _compare_elements(
    found: TensorDifference, kind: ElementKind, shape: tuple[int, ...], readers: tuple[_Reader, _Reader], nans: bool
) -> None:
    """Fills the numbers of `found`; `nans` is whether two NaNs are equal."""
    size = math.prod(shape)
    found.size = size
    found.are_integers = kind.format is None and kind.is_number
    histogram = np.zeros(_BUCKETS, np.int64)
    for begin in range(0, size, _PART):
        first, second = (reader.read(begin, min(begin + _PART, size)) for reader in readers)
        at = np.flatnonzero(first != second)
        if at.size == 0:
            continue
        first, second = first[at], second[at]
        is_nan = kind.nans(first), kind.nans(second)
        if nans and (is_nan[0] & is_nan[1]).any():
            kept = ~(is_nan[0] & is_nan[1])
            at, first, second = at[kept], first[kept], second[kept]
            is_nan = is_nan[0][kept], is_nan[1][kept]
            if at.size == 0:
                continue
        if found.element is None:
            found.element = _pair(kind, shape, begin + int(at[0]), first[:1], second[:1])
        found.count += at.size
        found.one_nan += int(np.count_nonzero(is_nan[0] ^ is_nan[1]))
        found.two_nans += int(np.count_nonzero(is_nan[0] & is_nan[1]))
        known = ~(is_nan[0] | is_nan[1])
        if kind.is_number and known.any():
            distances = kind.distances(first[known], second[known])
            histogram += np.bincount(bit_lengths(distances), minlength=_BUCKETS)
            absolute, relative = _differences(kind, first[known], second[known])
            found.ulps = max(found.ulps or 0, int(distances.max()))
            found.absolute = max(found.absolute or 0.0, float(absolute.max()))
            found.relative = max(found.relative or 0.0, float(relative.max()))
    found.histogram = histogram.tolist()


def _differences(kind: ElementKind, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns |first - second| and |first - second| / max(|first|, |second|) of elements that are not NaNs, as f64."""
    a, b = kind.numbers(first), kind.numbers(second)
    with np.errstate(all="ignore"):
        absolute = np.abs(a - b)
        relative = absolute / np.maximum(np.abs(a), np.abs(b))
    # Two zeros have the difference 0, and two infinities of different sign differ infinitely.
    relative = np.where(absolute == 0, 0.0, np.where(np.isnan(relative), np.inf, relative))
    return absolute, relative


def _pair(kind: ElementKind, shape: tuple[int, ...], flat: int, first: np.ndarray, second: np.ndarray) -> ElementPair:
    index = []
    rest = flat
    for extent in reversed(shape):
        rest, place = divmod(rest, extent)
        index.append(place)
    numbers: dict[str, Any] = {"ulps": None, "absolute": None, "relative": None}
    if kind.is_number and not (kind.nans(first) | kind.nans(second))[0]:
        absolute, relative = _differences(kind, first, second)
        ulps = int(kind.distances(first, second)[0])
        numbers = {"ulps": ulps, "absolute": float(absolute[0]), "relative": float(relative[0])}
    bits = [f"0x{int(each[0]):0{2 * kind.itemsize}x}" for each in (first, second)]
    return ElementPair((*reversed(index),), kind.shown(first), kind.shown(second), bits[0], bits[1], **numbers)
