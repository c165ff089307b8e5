# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads and writes state tensors as safetensors files.

The format is a u64 with the length of a JSON header, the header, and the data. This module does not use the safetensors
package: equal tensors must give equal bytes, whatever version of the package is installed, and bf16, f8, f6 and f4 are
handled as bits.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import json_shapes as shapes
from repro_mlir.base.files.packed_elements import pack, packed_size, unpack
from repro_mlir.base.files.regular import read_regular
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType, check_canonical

_HEADER_BYTES = 1 << 24
"""The maximum size of a header in bytes."""

_UNSIGNED = {"U8": "i8", "U16": "i16", "U32": "i32", "U64": "i64"}
_ELEMENTS = {element.safetensors: element.name for element in ELEMENTS.values()} | _UNSIGNED
_NAMES = {(name, dtype in _UNSIGNED): dtype for dtype, name in _ELEMENTS.items()}
"""The safetensors name of an element type, by its MLIR name and whether it is unsigned."""

_ENTRIES = shapes.mapping(
    shapes.record(
        {
            "dtype": shapes.choice(*_ELEMENTS),
            "shape": shapes.array(shapes.number(0)),
            "data_offsets": shapes.array(shapes.number(0)),
        }
    )
)
_METADATA = shapes.mapping(shapes.text)


def tensor_header(kinds: Sequence[TensorType], metadata: Mapping[str, str] | None = None) -> bytes:
    """Returns the length field and the JSON header of a file, which depend only on names, types, shapes and metadata.

    Raises:
      ReproError: the format cannot represent an f6 or f4 tensor (`packed_size`).
    """
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": {**metadata}}
    end = 0
    for kind in kinds:
        begin, end = end, end + packed_size(kind)
        header[kind.name] = {
            "dtype": _NAMES[kind.element, kind.unsigned],
            "shape": list(kind.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def tensor_parts(
    kinds: Sequence[TensorType], arrays: Sequence[np.ndarray], metadata: Mapping[str, str] | None = None
) -> Iterator[bytes | memoryview]:
    """Yields the file in parts, so that large states are not copied."""
    yield tensor_header(kinds, metadata)
    for array, kind in zip(arrays, kinds, strict=True):
        yield pack(array, kind)


def write_tensors(
    kinds: Sequence[TensorType], arrays: Sequence[np.ndarray], metadata: Mapping[str, str] | None = None
) -> bytes:
    """Returns the file with one tensor per entry of `kinds`, in order, and optional metadata."""
    return b"".join(tensor_parts(kinds, arrays, metadata))


def read_tensors(kinds: Sequence[TensorType], data: bytes, where: str) -> tuple[np.ndarray, ...]:
    """Returns new arrays with the tensors of a file that `kinds` describes; `where` names the file in messages.

    Raises:
      ReproError: the data has another format, a tensor is missing or has another shape or element type, or elements are
        not canonical (V4).
    """
    found, _, body = _parsed(data, where)
    arrays = []
    for kind in kinds:
        if kind.name not in found:
            raise ReproError(f"{where}: expected a tensor {kind.name}, which is missing")
        dtype, shape, offsets = (found[kind.name][key] for key in ("dtype", "shape", "data_offsets"))
        known = _NAMES[kind.element, kind.unsigned]
        if dtype != known or shape != list(kind.shape):
            raise ReproError(
                f"{where}: tensor {kind.name}: expected shape {list(kind.shape)} of {known}, got {shape} of {dtype}"
            )
        try:
            size = packed_size(kind)
        except ReproError as error:
            raise ReproError(f"{where}: {error}") from None
        if len(offsets) != 2 or not 0 <= offsets[0] <= offsets[1] <= len(body) or offsets[1] - offsets[0] != size:
            raise ReproError(f"{where}: tensor {kind.name}: expected {size} bytes, got data_offsets {offsets}")
        array = unpack(body[offsets[0] : offsets[1]], kind)
        check_canonical(array, kind, where)
        arrays.append(array)
    return tuple(arrays)


def load_tensors(kinds: Sequence[TensorType], path: str | Path) -> tuple[np.ndarray, ...]:
    """Loads tensors as `read_tensors` does, from a path that the user gave.

    Raises:
      ReproError: as `read_tensors`; also if the file is larger than these tensors and the largest header together.
    """
    limit = 8 + _HEADER_BYTES + sum(kind.nbytes for kind in kinds)
    return read_tensors(kinds, read_regular(path, limit, follow=True), str(path))


def read_all_tensors(data: bytes, where: str) -> tuple[list[TensorType], tuple[np.ndarray, ...], dict[str, str]]:
    """Returns the types and arrays of all tensors of a file, and the file's metadata. Raises ReproError if the file has
    another format."""
    found, metadata, _ = _parsed(data, where)
    kinds = [
        TensorType(name, _ELEMENTS[entry["dtype"]], tuple(entry["shape"]), entry["dtype"] in _UNSIGNED)
        for name, entry in found.items()
    ]
    try:
        return kinds, read_tensors(kinds, data, where), metadata
    except (ValueError, OverflowError):
        # NumPy does not support the extents or the rank.
        raise ReproError(f"{where}: expected shapes that NumPy supports") from None


def _parsed(data: bytes, where: str) -> tuple[dict[str, Any], dict[str, str], memoryview]:
    """Returns the validated entries of the header by name, the metadata, and the data after the header."""
    try:
        (size,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + size]) if size <= _HEADER_BYTES else None
    except (struct.error, ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise ReproError(f"{where}: expected a safetensors file")
    metadata = header.pop("__metadata__", {})
    _METADATA(metadata, f"{where}: __metadata__")
    _ENTRIES(header, where)
    return header, metadata, memoryview(data)[8 + size :]
