# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests safetensors files with f6 and f4 tensors, whose elements are packed into bytes."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from repro_mlir import ReproError
from repro_mlir.base.files.tensor_file import read_all_tensors, read_tensors, write_tensors
from repro_mlir.base.numerics.tensors import TensorType


def test_bytes() -> None:
    kinds = [TensorType(name, name, (2, 4)) for name in ("f4E2M1FN", "f6E2M3FN", "f6E3M2FN", "f8E8M0FNU")]
    arrays = [np.arange(8, dtype=np.uint8).reshape(2, 4) for _ in kinds]
    data = write_tensors(kinds, arrays)
    (size,) = struct.unpack_from("<Q", data)
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    assert [entry["dtype"] for entry in header.values()] == ["F4", "F6_E2M3", "F6_E3M2", "F8_E8M0"]
    assert all(entry["shape"] == [2, 4] for entry in header.values())
    assert [entry["data_offsets"] for entry in header.values()] == [[0, 4], [4, 10], [10, 16], [16, 24]]
    # The first element of a byte is in its lowest bits.
    assert body[:4] == bytes([0x10, 0x32, 0x54, 0x76])
    number = sum(i << 6 * i for i in range(8))
    assert body[4:10] == body[10:16] == number.to_bytes(6, "little")
    assert body[16:] == bytes(range(8))
    for read in (read_tensors(kinds, data, "file"), read_all_tensors(data, "file")[1]):
        assert all((a == b).all() and a.flags.writeable for a, b in zip(read, arrays, strict=True))
    assert read_all_tensors(data, "file")[0] == kinds


@pytest.mark.parametrize("element", ["f4E2M1FN", "f6E3M2FN", "f6E2M3FN"])
def test_every_code(element: str) -> None:
    width = int(element[1])
    for shape in ((1 << width,), (2, 1 << (width - 1), 1), (0, 3), (8,)):
        kind = TensorType("w", element, shape)
        array = (np.arange(int(np.prod(shape))) & ((1 << width) - 1)).astype(np.uint8).reshape(shape)
        data = write_tensors([kind], [array])
        (read,) = read_tensors([kind], data, "file")
        assert (read == array).all() and read.shape == shape


@pytest.mark.parametrize(("element", "shape"), [("f4E2M1FN", (3,)), ("f6E3M2FN", (2, 3)), ("f6E2M3FN", ())])
def test_V1_elements_that_do_not_fill_bytes(element: str, shape: tuple[int, ...]) -> None:
    kind = TensorType("w", element, shape)
    message = rf"tensor w: expected a number of elements of {element} that fills whole bytes of a safetensors file"
    with pytest.raises(ReproError, match=message):
        write_tensors([kind], [np.zeros(shape, np.uint8)])
    names = {"f4E2M1FN": "F4", "f6E3M2FN": "F6_E3M2", "f6E2M3FN": "F6_E2M3"}
    entry = {"w": {"dtype": names[element], "shape": list(shape), "data_offsets": [0, 2]}}
    text = json.dumps(entry).encode()
    data = struct.pack("<Q", len(text)) + text + bytes(2)
    for read in (lambda: read_tensors([kind], data, "file"), lambda: read_all_tensors(data, "file")):
        with pytest.raises(ReproError, match=f"file: {message}"):
            read()


def test_sizes() -> None:
    entry = {"w": {"dtype": "F4", "shape": [4], "data_offsets": [0, 4]}}
    text = json.dumps(entry).encode()
    data = struct.pack("<Q", len(text)) + text + bytes(4)
    with pytest.raises(ReproError, match=r"file: tensor w: expected 2 bytes, got data_offsets \[0, 4\]"):
        read_all_tensors(data, "file")
