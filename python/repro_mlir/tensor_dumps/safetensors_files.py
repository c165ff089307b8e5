# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads the headers of safetensors files, of all element types that the format knows."""

from __future__ import annotations

import os
import struct

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import json_shapes as shapes
from repro_mlir.base.files import json_text
from repro_mlir.base.files.regular import open_regular
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.printing import foreign
from repro_mlir.tensor_dumps.element_kinds import KINDS
from repro_mlir.tensor_dumps.stored_tensors import Span, StoredTensor

_HEADER_BYTES = 100_000_000
"""The maximum size of a header in bytes, which the reader of the safetensors package has too."""

_NAMES = {element.safetensors: element.name for element in ELEMENTS.values()}
_NAMES |= {f"U{width}": f"ui{width}" for width in (8, 16, 32, 64)} | {"C64": "complex<f32>", "C128": "complex<f64>"}
_NAMES |= {f"F8_{name}FNUZ": f"f8{name}FNUZ" for name in ("E4M3", "E5M2")}
_ENTRY = shapes.record(
    {
        "dtype": shapes.choice(*_NAMES),
        "shape": shapes.array(shapes.number(0, 2**62)),
        "data_offsets": shapes.array(shapes.number(0, 2**62)),
    }
)


def read_safetensors(path: str, follow: bool) -> dict[str, StoredTensor]:
    """Returns the tensors of a file by name, in the order of their data.

    Raises:
      ReproError: the file has another form or is truncated, or two tensors overlap.
    """
    with open_regular(path, follow=follow) as file:
        size = os.fstat(file.fileno()).st_size
        length = file.read(8)
        (bytes_of_header,) = struct.unpack("<Q", length) if len(length) == 8 else (size,)
        if bytes_of_header > min(_HEADER_BYTES, size - 8):
            raise ReproError(
                f"{path}: expected a safetensors file, got a header of {bytes_of_header:,} bytes in a file of "
                f"{size:,} bytes"
            )
        header = json_text.parse(file.read(bytes_of_header), f"{path}: header", _HEADER_BYTES)
    if not isinstance(header, dict):
        raise ReproError(f"{path}: expected a safetensors file, got a header that is not an object")
    header.pop("__metadata__", None)
    start = 8 + bytes_of_header
    found: dict[str, StoredTensor] = {}
    end = 0
    for name, entry in header.items():
        _ENTRY(entry, f"{path}: header: {foreign(name)}")
    for name, entry in sorted(header.items(), key=lambda each: each[1]["data_offsets"]):
        kind, shape, offsets = KINDS[_NAMES[entry["dtype"]]], tuple(entry["shape"]), entry["data_offsets"]
        if len(offsets) != 2 or not end <= offsets[0] <= offsets[1] <= size - start:
            raise ReproError(
                f"{path}: tensor {foreign(name)}: expected data from {end:,} to at most {size - start:,}, got "
                f"data_offsets {offsets[:3]}: the file is truncated or tensors overlap"
            )
        end = offsets[1]
        shape = (*shape, 2) if kind.name.startswith("complex") else shape
        tensor = StoredTensor(kind, shape, Span(path, follow, start + offsets[0], offsets[1] - offsets[0]))
        tensor.check(name)
        needed = -(-tensor.size * kind.width // 8)
        if needed != tensor.span.size:
            raise ReproError(
                f"{path}: tensor {foreign(name)}: expected {needed:,} bytes for shape {[*shape]} of {kind.name}, got "
                f"{tensor.span.size:,}"
            )
        found[name] = tensor
    return found
