# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(V1), (S3), (H1): compares the values of all codes of f8, f6, f4 and f8E8M0FNU, and rounding to them, with
ml_dtypes."""

from __future__ import annotations

import struct

import blake3
import ml_dtypes
import numpy as np
import pytest
from repro_mlir import ReproError
from repro_mlir.base.errors import ProgramError
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.formats import element_type, from_bits, is_exact, round_to_format, to_bits
from repro_mlir.base.numerics.hashing import tensor_bytes, tensor_hash
from repro_mlir.base.numerics.tensors import TensorType, check_canonical, is_canonical, make_canonical
from repro_mlir.base.tensors.arrays import as_array
from repro_mlir.reference.arithmetic import from_integer
from repro_mlir.reference.low_precision.binary_formats import decode
from repro_mlir.reference.low_precision.block_rounding import Rounding, round_elements
from support import inputs as values

SMALL = ("f6E3M2FN", "f6E2M3FN", "f4E2M1FN")
ALL = ("f8E4M3FN", "f8E5M2", *SMALL, "f8E8M0FNU")


def library(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, ELEMENTS[name].library))


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Returns whether two f32 arrays have equal bits, where all NaNs count as equal."""
    nan = np.isnan(a)
    return bool((nan == np.isnan(b)).all() and (a.view(np.uint32)[~nan] == b.view(np.uint32)[~nan]).all())


@pytest.mark.parametrize("name", ALL)
def test_V1_codes(name: str) -> None:
    kind = element_type(name)
    codes = np.arange(1 << kind.width, dtype=np.uint8)
    found = from_bits(codes, kind)
    assert same(found, codes.view(library(name)).astype(np.float32))
    numbers = ~np.isnan(found)
    assert (to_bits(found, kind)[numbers] == codes[numbers]).all()
    assert (to_bits(found, kind)[~numbers] == (kind.format.nan or 0)).all()
    assert is_exact(found, kind)
    assert np.isnan(found).sum() == {"f8E4M3FN": 2, "f8E5M2": 6, "f8E8M0FNU": 1}.get(name, 0)


def saturated(x: np.ndarray, name: str) -> np.ndarray:
    """Returns x converted by ml_dtypes, except that a NaN becomes the largest value (S3)."""
    found = x.astype(library(name)).astype(np.float32)
    return np.where(np.isnan(x), np.float32(ELEMENTS[name].format.max_finite), found)


@pytest.mark.parametrize("name", SMALL)
def test_S3_rounding(name: str) -> None:
    kind = element_type(name)
    rng = np.random.default_rng(1)
    every16 = np.arange(1 << 16, dtype=np.uint16)
    halves = (every16.view(np.float16).astype(np.float32), (every16.astype(np.uint32) << 16).view(np.float32))
    near = from_bits(np.arange(1 << kind.width, dtype=np.uint8), kind)
    middles = ((near[:, None] + near[None, :]) / 2).reshape(-1)
    ties = np.concatenate([middles, np.nextafter(middles, np.float32(9)), np.nextafter(middles, np.float32(-9))])
    drawn = (rng.standard_normal(1 << 22, dtype=np.float32), values.mixed("f32", (1 << 22,), 5), values.special("f32"))
    with np.errstate(all="ignore"):
        for x in (*halves, ties, *drawn):
            assert same(float_environment()(round_to_format)(x, kind), saturated(x, name))
    largest = kind.format.max_finite
    given = np.array([np.inf, -np.inf, np.nan, -np.nan, 1e30, -1e30, -0.0])
    assert round_to_format(given, kind).tolist() == [largest, -largest, largest, largest, largest, -largest, 0]
    assert np.signbit(round_to_format(given, kind))[-1]


@pytest.mark.parametrize("name", ["f8E4M3FN", "f8E5M2", *SMALL])
def test_S3_is_Q3_without_saturation(name: str) -> None:
    """Casts (S3) round like the elements of blocks without saturation (Q3). The rounding of the elements is computed in
    integers."""
    of = ELEMENTS[name].format
    x = np.concatenate([values.mixed("f32", (1 << 18,), 3), values.random("f32", (1 << 18,), 4, 12)])
    with np.errstate(all="ignore"):
        codes = round_elements(x, of, Rounding(saturate=False))
        rounded = round_to_format(x, element_type(name))
    assert same(rounded, decode(codes, of))


@pytest.mark.parametrize("name", SMALL)
def test_S3_integers(name: str) -> None:
    kind = element_type(name)
    wide = np.concatenate([np.arange(-4096, 4096), np.array([2**53 + 1, -(2**63), 2**63 - 1])])
    for signed in (True, False):
        exact = [int(n) if signed or n >= 0 else int(n) + 2**64 for n in wide]
        want = round_to_format(np.array(exact, np.float64), kind)
        assert same(from_integer(wide, kind, 64, signed), want)


def test_S3_f64_is_rounded_once() -> None:
    kind = element_type("f4E2M1FN")
    # Rounding to f32 first would give the tie 1.25, which would then round to 1.
    assert round_to_format(np.array([1.25 + 2.0**-40]), kind).tolist() == [1.5]


def test_V1_nothing_rounds_to_powers() -> None:
    kind = element_type("f8E8M0FNU")
    with pytest.raises(
        ProgramError, match=r"\(V1\) expected an element type that values can be rounded to, got f8E8M0FNU"
    ):
        round_to_format(np.ones(1, np.float32), kind)
    wrong = (0.0, -1.0, 3.0, np.inf, 2.0**-128)
    assert not any(is_exact(np.array([x], np.float32), kind) for x in wrong)


@pytest.mark.parametrize("name", ALL)
def test_H1_a_byte_each(name: str) -> None:
    kind = element_type(name)
    codes = np.arange(1 << kind.width, dtype=np.uint8).reshape(4, -1)
    canonical = to_bits(from_bits(codes, kind), kind)
    assert tensor_bytes(codes, name) == canonical.tobytes()
    assert tensor_bytes(from_bits(codes, kind), name) == canonical.tobytes()
    header = b"repro-tensor-v1\0" + name.encode().ljust(16, b"\0") + struct.pack("<I2Q", 2, *codes.shape)
    assert tensor_hash(codes, name) == blake3.blake3(header + canonical.tobytes()).hexdigest()
    assert tensor_hash(codes.T.copy().T, name) == tensor_hash(codes, name)


@pytest.mark.parametrize("name", SMALL)
def test_V4_bits_above_the_code(name: str) -> None:
    kind, width = TensorType("w", name, (2, 2)), ELEMENTS[name].width
    array = np.array([[1, 2], [3 | 1 << width, 0x80 | 5]], np.uint8)
    assert not is_canonical(array, name)
    most = (1 << width) - 1
    message = rf"here: tensor w: expected 0 to 0x{most:02x} as element \[1, 0\] \(V4\), got 0x{array[1, 0]:02x}"
    with pytest.raises(ReproError, match=message):
        check_canonical(array, kind, "here")
    assert tensor_hash(array, name) == tensor_hash(array & most, name)
    make_canonical(array, name)
    assert array.tolist() == [[1, 2], [3, 5]] and is_canonical(array, name)
    check_canonical(array, kind, "here")


def test_V4_every_byte_of_powers_is_canonical() -> None:
    array = np.arange(256, dtype=np.uint8)
    assert is_canonical(array, "f8E8M0FNU")
    make_canonical(array, "f8E8M0FNU")
    assert (array == np.arange(256)).all()


@pytest.mark.parametrize("name", ALL)
def test_arrays_of_ml_dtypes(name: str) -> None:
    """NumPy arrays of ml_dtypes' types are used without a copy, because this package also stores one byte per
    element."""
    given = np.array([1, 2, 4], np.float32).astype(library(name))
    array = as_array(given, TensorType("x", name, (3,)), "input")
    assert array.dtype == np.uint8 and np.shares_memory(array, given)
    assert from_bits(array, element_type(name)).tolist() == [1, 2, 4]
