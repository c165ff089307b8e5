# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tensors in files, whose elements are read in parts."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.packed_elements import unpack
from repro_mlir.base.files.regular import open_regular
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.printing import foreign
from repro_mlir.tensor_dumps.element_kinds import ElementKind

_PART_BYTES = 1 << 20
_MOST_DIMENSIONS = 32
"""The maximum number of dimensions; NumPy 1 has this limit."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of bytes of a file, which a zip file may have compressed.

    Attributes:
      path: the path of the file.
      follow: whether the path may be a symbolic link, which holds for files that the user named.
      offset: the offset of the first byte in the file.
      size: the number of bytes, after decompression.
      deflated: the number of compressed bytes in the file; None if the bytes are not compressed.
    """

    path: str
    follow: bool
    offset: int
    size: int
    deflated: int | None = None

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[BinaryIO, int]]:
        """Yields a file that contains the bytes, and their offset in it. Compressed bytes are decompressed to a
        temporary file.

        Raises:
          ReproError: the file cannot be read, or does not contain these bytes.
        """
        with open_regular(self.path, follow=self.follow) as file:
            if self.offset + (self.size if self.deflated is None else self.deflated) > os.fstat(file.fileno()).st_size:
                raise ReproError(f"{self.path}: the file is truncated: expected {self.size:,} bytes at {self.offset:,}")
            if self.deflated is None:
                yield file, self.offset
                return
            with tempfile.TemporaryFile() as unpacked:
                for part in self.inflated(file):
                    unpacked.write(part)
                unpacked.flush()
                yield unpacked, 0

    def inflated(self, file: BinaryIO) -> Iterator[bytes]:
        """Yields the decompressed bytes of an open file in parts; fails as soon as there are more than `size`."""
        file.seek(self.offset)
        stream = zlib.decompressobj(-zlib.MAX_WBITS)
        left, found = self.deflated or 0, 0
        data = b""
        while not stream.eof:
            if not data:
                data = file.read(min(left, _PART_BYTES))
                # A file that became shorter has no more bytes.
                left = left - len(data) if data else 0
            try:
                part = stream.decompress(data, _PART_BYTES)
            except zlib.error as error:
                raise ReproError(f"{self.path}: expected compressed data, got damaged data ({error})") from None
            data = stream.unconsumed_tail
            found += len(part)
            if found > self.size or (not part and not data and not left and not stream.eof):
                break
            yield part
        if found != self.size:
            amount = "more" if found > self.size else f"{found:,}"
            raise ReproError(f"{self.path}: expected {self.size:,} bytes of decompressed data, got {amount}")


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a file.

    Attributes:
      kind: the element type.
      shape: the extents.
      span: the bytes that contain the tensor.
      start: the offset of the first element in the span, in bytes.
      strides: the distances of neighbours along each dimension, in elements; None if the elements are contiguous in
        row-major order.
      is_big: whether the bytes of an element are in big-endian order.
    """

    kind: ElementKind
    shape: tuple[int, ...]
    span: Span
    start: int = 0
    strides: tuple[int, ...] | None = None
    is_big: bool = False

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def check(self, name: str) -> None:
        """Raises ReproError, which names the tensor, unless the span contains all elements."""
        where = f"{self.span.path}: tensor {foreign(name)}"
        if len(self.shape) > _MOST_DIMENSIONS:
            raise ReproError(f"{where}: expected at most {_MOST_DIMENSIONS} dimensions, got {len(self.shape)}")
        if min(self.shape, default=0) < 0 or self.start < 0 or min(self.strides or (), default=0) < 0:
            raise ReproError(f"{where}: expected extents, strides and an offset of at least 0, got {[*self.shape]}")
        last = self.size - 1
        if self.strides is not None and self.size:
            last = sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True))
        needed = self.start + (((last + 1) * self.kind.width + 7) // 8 if self.size else 0)
        if needed > self.span.size:
            raise ReproError(
                f"{where}: expected {needed:,} bytes for shape {[*self.shape]} of {self.kind.name}, got "
                f"{self.span.size:,}: the file is truncated or its header is wrong"
            )

    @contextlib.contextmanager
    def opened(self) -> Iterator[Elements]:
        """Yields the reader of the elements. Raises ReproError if the file does not contain them any more."""
        with self.span.opened() as (file, offset), contextlib.ExitStack() as stack:
            yield Elements(self, file, offset + self.start, stack)

    def __str__(self) -> str:
        return f"{self.kind.name} {[*self.shape]}"


class Elements:
    """Reads the elements of a tensor as bits, in row-major order."""

    def __init__(self, tensor: StoredTensor, file: BinaryIO, offset: int, stack: contextlib.ExitStack) -> None:
        self._tensor = tensor
        self._file = file
        self._offset = offset
        dtype = tensor.kind.bits_dtype.newbyteorder(">" if tensor.is_big else "<")
        self._dtype = dtype
        self._view: np.ndarray | None = None
        if tensor.strides is not None and tensor.size:
            data = stack.enter_context(contextlib.closing(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
            # The view must be gone before the mapping is closed.
            stack.callback(self._forget)
            strides = [stride * dtype.itemsize for stride in tensor.strides]
            self._view = np.ndarray(tensor.shape, dtype, data, offset, strides)

    def _forget(self) -> None:
        self._view = None

    def read(self, begin: int, end: int) -> np.ndarray:
        """Returns the bits of the elements from `begin` to `end` (excluded) as a new array; `begin` is a multiple of
        8."""
        kind = self._tensor.kind
        if self._view is not None:
            return np.asarray(self._view.flat[begin:end]).astype(kind.bits_dtype)
        if kind.width < 8:
            return self._unpacked(begin, end)
        size = (end - begin) * kind.itemsize
        data = self._bytes(begin * kind.itemsize, size)
        return np.frombuffer(data, self._dtype).astype(kind.bits_dtype, copy=False)

    def _unpacked(self, begin: int, end: int) -> np.ndarray:
        """Returns elements of less than 8 bits, each in a byte."""
        kind = self._tensor.kind
        whole = -(-(end - begin) // 8) * 8
        data = self._bytes(begin * kind.width // 8, -(-(end - begin) * kind.width // 8))
        data += bytes(whole * kind.width // 8 - len(data))
        return unpack(data, TensorType("", kind.name, (whole,)))[: end - begin]

    def _bytes(self, at: int, size: int) -> bytes:
        self._file.seek(self._offset + at)
        data = self._file.read(size)
        if len(data) != size:
            raise ReproError(f"{self._tensor.span.path}: the file became shorter while it was read")
        return data
