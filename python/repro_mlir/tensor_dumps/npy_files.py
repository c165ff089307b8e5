# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads the headers of NumPy's .npy files, and of .npz files, which are zip files of .npy files."""

from __future__ import annotations

import io
import math

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.regular import open_regular
from repro_mlir.base.printing import foreign
from repro_mlir.tensor_dumps.element_kinds import KINDS, ElementKind, bits_kind
from repro_mlir.tensor_dumps.stored_tensors import Span, StoredTensor
from repro_mlir.tensor_dumps.zip_members import member_spans

_HEADER_BYTES = 1 << 14
"""The number of bytes that a header may have; the header of an array has about a hundred."""

_MOST_EXTENT = 2**62

_NAMES = {"f2": "f16", "f4": "f32", "f8": "f64", "c8": "complex<f32>", "c16": "complex<f64>", "b1": "i1"}
_NAMES |= {f"i{size}": f"i{8 * size}" for size in (1, 2, 4, 8)} | {f"u{size}": f"ui{8 * size}" for size in (1, 2, 4, 8)}
_EXPECTED = "a .npy file of numbers"


def read_npy(span: Span) -> StoredTensor:
    """Returns the tensor of a .npy file. Elements of the type void, as which NumPy stores the types of ml_dtypes, are
    compared by their bits alone.

    Raises:
      ReproError: the span has another form, is truncated, or has elements that are Python objects, strings or records.
    """
    with open_regular(span.path, follow=span.follow) as file:
        if span.deflated is None:
            file.seek(span.offset)
            data = file.read(min(span.size, _HEADER_BYTES))
        else:
            data = next(span.inflated(file), b"")[:_HEADER_BYTES]
    beginning = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(beginning)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version}")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_column_major, dtype = read(beginning)
        # Python does not print integers of thousands of digits.
        if any(abs(extent) > _MOST_EXTENT for extent in shape):
            raise ValueError(f"an extent above {_MOST_EXTENT:,}")
    except Exception as error:
        # NumPy can raise any exception for a damaged header.
        raise ReproError(f"{span.path}: expected {_EXPECTED}, got another header ({foreign(str(error))})") from None
    kind = _kind_of(span.path, dtype)
    strides: tuple[int, ...] | None = None
    if is_column_major and len(shape) > 1:
        strides = tuple(math.prod(shape[:i]) for i in range(len(shape)))
    if dtype.kind == "c":
        shape = (*shape, 2)
        strides = None if strides is None else (*(2 * stride for stride in strides), 1)
    start = beginning.tell()
    tensor = StoredTensor(kind, shape, span, start, strides, dtype.byteorder == ">")
    tensor.check("of the file")
    size = tensor.size * kind.itemsize
    if start + size != span.size:
        raise ReproError(f"{span.path}: expected {start + size:,} bytes for this header, got {span.size:,}")
    return tensor


def _kind_of(path: str, dtype: np.dtype) -> ElementKind:
    name = _NAMES.get(dtype.str[1:])
    if name is not None:
        return KINDS[name]
    if dtype.kind == "V" and dtype.names is None and dtype.subdtype is None and dtype.itemsize in (1, 2, 4, 8):
        return bits_kind(dtype.itemsize)
    shown = "Python objects, which only a pickle can store" if dtype.hasobject else foreign(str(dtype))
    raise ReproError(f"{path}: expected {_EXPECTED}, got elements of {shown}")


def read_npz(path: str, follow: bool) -> dict[str, StoredTensor]:
    """Returns the tensors of an .npz file by name, in the order of the file.

    Raises:
      ReproError: as `member_spans` and `read_npy`.
    """
    spans = member_spans(path, lambda name: name.endswith(".npy"), "an .npz file of plain arrays", follow)
    return {name.removesuffix(".npy"): read_npy(span) for name, span in spans.items()}
