# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Processes that each have some rows of a tensor compute the digest (H1) of the whole tensor."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from repro_mlir._mlir_libs import _repro
from repro_mlir.base.numerics.digest import blake3_of
from repro_mlir.base.numerics.hashing import tensor_digest
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.execute.divided_tensor import DividedTensor

DATA = np.random.default_rng(0).integers(0, 256, 40_000, np.uint8)


def test_stretches_of_bytes_have_the_hash_of_the_whole() -> None:
    """Covers divisions of the bytes at any position, including next to the ends of BLAKE3 chunks and tree nodes."""
    random = np.random.default_rng(1)
    for total in (0, 1, 63, 64, 1023, 1024, 1025, 2048, 2049, 3072, 8191, 8192, 9000, 16_384, 40_000):
        at_chunks = 1024 * random.integers(0, total // 1024 + 1, 3)
        cuts = [[0, 0], [total, total], [total // 2], [min(total, 1024), total], random.integers(0, total + 1, 4)]
        for inner in (*cuts, at_chunks, np.minimum(at_chunks + 1, total), np.maximum(at_chunks - 1, 0)):
            bounds = [0, *map(int, sorted(inner)), total]
            pairs = [*itertools.pairwise(bounds)]
            told = [_repro.hash_stretch(DATA[begin:end], begin, total) for begin, end in pairs]
            sizes = [_repro.hash_stretch_size(begin, end, total) for begin, end in pairs]
            assert [len(each) for each in told] == sizes, (total, bounds)
            assert _repro.hash_of_stretches(told, bounds[1:]) == blake3_of(DATA[:total].data), (total, bounds)


def test_the_hash_of_a_long_stretch_is_short() -> None:
    data = np.zeros(1 << 20, np.uint8)
    assert len(_repro.hash_stretch(data, 5000, 1 << 21)) <= 2 * 1023 + 2 * 32 * 11


@pytest.mark.parametrize("element", ["f32", "f64", "i64", "i1", "bf16", "f8E4M3FN", "f4E2M1FN"])
def test_rows_have_the_digest_of_the_tensor(element: str) -> None:
    kind = TensorType("x", element, (7, 33, 5))
    array = np.random.default_rng(2).integers(0, 2, kind.shape).astype(kind.dtype)
    want = tensor_digest(array, element)
    for ends in ((7,), (3, 7), (0, 7), (7, 7), (2, 2, 5, 7)):
        tensor = DividedTensor(kind, tuple(range(begin, end) for begin, end in itertools.pairwise((0, *ends))))
        told = [tensor.told(i, array[rows.start : rows.stop]) for i, rows in enumerate(tensor.rows)]
        assert [len(each) for each in told] == [tensor.size(i) for i in range(len(ends))]
        assert tensor.digest(told) == want, ends


def test_nan_is_canonical() -> None:
    """(V4) A NaN that is not canonical has the hash of the canonical NaN."""
    kind = TensorType("x", "f32", (2, 3))
    array = np.zeros(kind.shape, np.float32)
    array.view(np.uint32)[1, 2] = 0xFFC12345
    tensor = DividedTensor(kind, (range(1), range(1, 2)))
    assert tensor.digest([tensor.told(0, array[:1]), tensor.told(1, array[1:])]) == tensor_digest(array, "f32")


def test_other_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="expected what hash_stretch gives"):
        _repro.hash_of_stretches([b"\0" * 5, b""], [4, 4])
    with pytest.raises(ValueError, match="expected bytes of the whole"):
        _repro.hash_stretch(DATA, 0, 5)
    with pytest.raises(ValueError, match="expected the end of each stretch"):
        _repro.hash_of_stretches([], [])
