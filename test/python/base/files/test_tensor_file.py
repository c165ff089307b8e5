# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Safetensors files that this package did not write are read, or cause one clear error."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repro_mlir import ReproError
from repro_mlir.base.files.tensor_file import read_all_tensors, read_tensors, write_tensors
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.frontends.torch import load_checkpoint

KIND = TensorType("w", "f32", (2,))


def file_of(header: Any, data: bytes = bytes(8)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(**changed: Any) -> dict[str, Any]:
    return {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changed}


DAMAGED = {
    "empty": b"",
    "no header": struct.pack("<Q", 1 << 60),
    "deep": file_of(b"[" * 100_000),
    "list": file_of([]),
    "no object": file_of({"w": 1}),
    "fraction": file_of(entry(data_offsets=[0.0, 8.0])),
    "texts": file_of(entry(data_offsets=["a", "b"])),
    "one offset": file_of(entry(data_offsets=[0])),
    "backwards": file_of(entry(data_offsets=[8, 0])),
    "beyond": file_of(entry(data_offsets=[4, 12])),
    "infinite": file_of(b'{"w":{"dtype":"F32","shape":[Infinity],"data_offsets":[0,8]}}'),
    "negative": file_of(entry(shape=[-1, -2])),
    "type": file_of(entry(dtype=["F32"])),
    "too large": file_of(entry(shape=[1 << 70, 0], data_offsets=[0, 0])),
    "dimensions": file_of(entry(shape=[2] + [1] * 100)),
    "metadata": file_of(entry() | {"__metadata__": {"a": 1}}),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged(data: bytes, tmp_path: Path) -> None:
    for read in (lambda: read_tensors([KIND], data, "file"), lambda: read_all_tensors(data, "file")):
        with pytest.raises(ReproError, match="file: "):
            read()
    path = tmp_path / "checkpoint"
    path.write_bytes(data)
    with pytest.raises(ReproError, match=str(path)):
        load_checkpoint(path)


@pytest.mark.parametrize("value", [{"tensor": ["float32", {}]}, {"tensor": ["float32", 10**400]}, {"tensor": 1}])
def test_damaged_metadata_of_a_checkpoint(value: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "checkpoint"
    path.write_bytes(write_tensors([], [], {"trainer": json.dumps({"param_groups": [{"lr": value}]})}))
    with pytest.raises(ReproError, match="expected a checkpoint of a trainer"):
        load_checkpoint(path)


def test_tensors_survive_a_round_trip() -> None:
    array = np.array([1.5, -0.0], np.float32)
    kinds, arrays, metadata = read_all_tensors(write_tensors([KIND], [array], {"a": "b"}), "file")
    assert kinds == [KIND] and arrays[0].tobytes() == array.tobytes() and metadata == {"a": "b"}
