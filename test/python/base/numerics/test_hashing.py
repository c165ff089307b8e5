# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares hashes of tensors (H1) and states (H3) with those of bytes that are written out in the test."""

import struct
from concurrent.futures import ThreadPoolExecutor

import blake3
import numpy as np
import pytest
from repro_mlir.base.numerics.hashing import state_hash, tensor_bytes, tensor_digests, tensor_hash
from repro_mlir.base.numerics.tensors import TensorType


def digest(*parts: bytes) -> str:
    return blake3.blake3(b"".join(parts)).hexdigest()


def header(name: bytes, *shape: int) -> bytes:
    padded = name + b"\0" * (16 - len(name))
    return b"repro-tensor-v1\0" + padded + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)


def test_H1_matrix() -> None:
    values = np.array([[1.0, -0.0], [0.5, 3.0]], np.float32)
    bits = struct.pack("<4I", 0x3F800000, 0x80000000, 0x3F000000, 0x40400000)
    assert tensor_hash(values, "f32") == digest(header(b"f32", 2, 2), bits)


def test_H1_is_row_major() -> None:
    values = np.arange(6, dtype=np.int64).reshape(2, 3)
    assert tensor_hash(values.T.copy().T, "i64") == tensor_hash(values, "i64")
    assert tensor_hash(values.T, "i64") != tensor_hash(values, "i64")


def test_H1_rank_zero_and_empty() -> None:
    assert tensor_hash(np.array(7, np.int32), "i32") == digest(header(b"i32"), struct.pack("<i", 7))
    assert tensor_hash(np.zeros((0, 3), np.float64), "f64") == digest(header(b"f64", 0, 3))


def test_H1_truth_values_are_bytes() -> None:
    assert tensor_hash(np.array([True, False]), "i1") == digest(header(b"i1", 2), b"\1\0")


@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFC00001, 0x7F800001])
def test_H1_every_nan_is_one(bits: int) -> None:
    value = np.array([bits], np.uint32).view(np.float32)
    assert tensor_hash(value, "f32") == digest(header(b"f32", 1), struct.pack("<I", 0x7FC00000))


def test_H1_storage_types_by_bits_or_values() -> None:
    expected = digest(header(b"bf16", 2), struct.pack("<2H", 0x3F80, 0x7FC0))
    assert tensor_hash(np.array([0x3F80, 0xFFFF], np.uint16), "bf16") == expected
    assert tensor_hash(np.array([1.0, np.nan], np.float32), "bf16") == expected


def test_H1_type_is_part_of_it() -> None:
    zero = np.zeros(2, np.int32)
    assert tensor_hash(zero, "i32") != tensor_hash(zero.astype(np.float32), "f32")


def test_H3_state() -> None:
    first, second = np.array([1.0], np.float32), np.array([2], np.int64)
    parts = [bytes.fromhex(tensor_hash(first, "f32")), bytes.fromhex(tensor_hash(second, "i64"))]
    expected = digest(b"repro-state-v1\0\0", struct.pack("<I", 2), *parts)
    assert state_hash([(first, "f32"), (second, "i64")]) == expected
    assert state_hash([(second, "i64"), (first, "f32")]) != expected


@pytest.mark.parametrize(
    "element", ["f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2", "i64", "i32", "i16", "i8", "i1"]
)
def test_H1_in_place_is_as_copied(element: str) -> None:
    kind = TensorType("x", element, (9, 7))
    random = np.random.default_rng(1)
    raw = random.integers(0, 2 if element == "i1" else 256, kind.dtype.itemsize * 63, np.uint8)
    for values in (raw, raw % 3):
        array = values.view(kind.dtype).reshape(kind.shape)
        expected = digest(header(element.encode(), 9, 7), tensor_bytes(array, element))
        assert tensor_hash(array, element) == expected
        assert tensor_hash(array.astype(kind.dtype.newbyteorder(">")), element) == expected
        assert tensor_hash(array.T.copy().T, element) == expected


def test_H1_by_threads() -> None:
    tensors = [(np.arange(count, dtype=np.float32), "f32") for count in (3, 0, 1000, 7, 100000)]
    with ThreadPoolExecutor(2) as pool:
        assert tensor_digests(tensors, pool) == tensor_digests(tensors)
