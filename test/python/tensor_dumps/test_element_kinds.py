# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares the element types of dumps with the formats of the reference interpreter, with ml_dtypes and with integers
of Python."""

import ml_dtypes
import numpy as np
import pytest
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.formats import element_type, from_bits
from repro_mlir.tensor_dumps.element_kinds import KINDS, bit_lengths

SMALL = [name for name, element in ELEMENTS.items() if element.format is not None and element.width <= 16]
FNUZ = {"f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz}


def codes(name: str) -> np.ndarray:
    kind = KINDS[name]
    return np.arange(1 << kind.width).astype(kind.bits_dtype)


@pytest.mark.parametrize("name", SMALL)
def test_values_are_those_of_the_formats(name: str) -> None:
    expected = from_bits(codes(name), element_type(name)).astype(np.float64)
    found = KINDS[name].numbers(codes(name))
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(np.signbit(found), np.signbit(expected) & ~np.isnan(expected))
    assert np.array_equal(KINDS[name].nans(codes(name)), np.isnan(expected))


@pytest.mark.parametrize("name", FNUZ)
def test_values_without_negative_zero(name: str) -> None:
    expected = codes(name).view(FNUZ[name]).astype(np.float64)
    assert np.array_equal(KINDS[name].numbers(codes(name)), expected, equal_nan=True)
    assert np.array_equal(KINDS[name].nans(codes(name)), np.isnan(expected))


@pytest.mark.parametrize("name", SMALL)
def test_distances_count_the_values_between(name: str) -> None:
    """The distance is the difference of the positions in the sorted list of all values."""
    kind = KINDS[name]
    found = codes(name)[~kind.nans(codes(name))]
    numbers = kind.numbers(found)
    distinct = np.unique(numbers)
    positions = np.searchsorted(distinct, numbers)
    other = np.random.default_rng(0).permutation(found.size)
    expected = np.abs(positions - positions[other])
    assert np.array_equal(kind.distances(found, found[other]), expected.astype(np.uint64))


def test_distances_of_wide_types_are_exact() -> None:
    largest = 0x7FEFFFFFFFFFFFFF
    ends = np.array([largest], np.uint64), np.array([largest | 1 << 63], np.uint64)
    assert KINDS["f64"].distances(*ends).tolist() == [2 * largest]
    least, most = np.array([-(2**63)]).view(np.uint64), np.array([2**63 - 1]).view(np.uint64)
    assert KINDS["i64"].distances(least, most).tolist() == [2**64 - 1]
    assert KINDS["i8"].distances(*(np.array([each], np.uint8) for each in (0x80, 0x7F))).tolist() == [255]
    assert KINDS["ui8"].distances(*(np.array([each], np.uint8) for each in (0x80, 0x7F))).tolist() == [1]
    zeros = np.array([0], np.uint32), np.array([1 << 31], np.uint32)
    assert KINDS["f32"].distances(*zeros).tolist() == [0]


def test_bit_lengths_are_those_of_integers() -> None:
    numbers = sorted({0, *(2**n + d for n in range(64) for d in (-1, 0, 1)), 2**64 - 1})
    assert bit_lengths(np.array(numbers, np.uint64)).tolist() == [number.bit_length() for number in numbers]
