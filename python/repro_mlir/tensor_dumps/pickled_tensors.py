# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads checkpoints of torch.save: tensors, numbers and texts, named by the keys and indices that lead to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.regular import open_regular
from repro_mlir.base.limits import limits
from repro_mlir.base.numerics.tensors import LONGEST_NAME
from repro_mlir.base.printing import foreign
from repro_mlir.tensor_dumps.element_kinds import KINDS, ElementKind, bits_kind
from repro_mlir.tensor_dumps.pickle_machine import MOST_BYTES, PickledTensor, Storage, interpret
from repro_mlir.tensor_dumps.stored_tensors import Span, StoredTensor
from repro_mlir.tensor_dumps.zip_members import member_spans

_MOST_VALUES = 1_000_000
_DEPTH = 32
_FREE_BYTES = 256 << 20
"""The total size of tensors that is allowed regardless of the size of the file: views can share elements."""

_TEXT_BYTES = 256 << 20
"""The total number of characters of names and texts that is allowed: an object can occur in several places."""

_WHAT = "a checkpoint of torch.save"
_NAMES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "bool": "i1",
    "complex128": "complex<f64>", "complex64": "complex<f32>", "complex32": "complex<f16>",
    "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2", "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2fnuz": "f8E5M2FNUZ", "float8_e8m0fnu": "f8E8M0FNU",
    **{f"int{width}": f"i{width}" for width in (8, 16, 32, 64)},
    **{f"uint{width}": f"ui{width}" for width in (8, 16, 32, 64)},
}  # fmt: skip


def read_checkpoint(path: str, follow: bool) -> dict[str, StoredTensor | np.ndarray | str]:
    """Returns the values of a checkpoint by name, such as "optimizer.state.0.exp_avg", in the order of the file.

    A tensor is a `StoredTensor`, a number an f64, i64 or bool array of shape (), and any other value, such as an empty
    container, a text as Python's repr writes it. Keys and containers with items are not values: a list equals a tuple.

    Raises:
      ReproError: the file has another form, such as that of PyTorch 1.5 and older, contains other objects, or its
        tensors exceed the limits of size.
    """
    spans = member_spans(path, lambda name: True, _WHAT, follow)
    roots = [name.removesuffix("/data.pkl") for name in spans if name.endswith("/data.pkl")]
    if len(roots) != 1:
        raise ReproError(f"{path}: expected {_WHAT} with one data.pkl, got a zip file with {len(roots)}")
    (root,) = roots
    pickled = spans[f"{root}/data.pkl"]
    if pickled.deflated is not None or pickled.size > MOST_BYTES:
        raise ReproError(f"{path}: expected data.pkl of at most {MOST_BYTES:,} bytes without compression")
    is_big = False
    with open_regular(path, follow=follow) as file:
        file.seek(pickled.offset)
        data = file.read(pickled.size)
        if order := spans.get(f"{root}/byteorder"):
            file.seek(order.offset)
            written = file.read(min(order.size, 16))
            if order.deflated is not None or written not in (b"little", b"big"):
                raise ReproError(f"{path}: expected the member byteorder to contain little or big, got other bytes")
            is_big = written == b"big"
    found: dict[str, StoredTensor | np.ndarray | str] = {}
    total = characters = 0
    for name, value in _Leaves(path).of(interpret(data, f"{path}: data.pkl")):
        if name in found:
            raise ReproError(f"{path}: expected one value with the name {foreign(name)!r}, got two")
        if isinstance(value, PickledTensor):
            tensor = _stored(value, spans, root, is_big, f"{path}: tensor {foreign(name)}")
            tensor.check(name)
            found[name] = tensor
            total += tensor.size * tensor.kind.itemsize
        elif isinstance(value, Storage):
            raise ReproError(f"{path}: expected tensors, got a storage as {foreign(name)!r}: save a tensor of it")
        else:
            plain = _plain(value)
            characters += len(plain) if isinstance(plain, str) else 0
            found[name] = plain
        characters += len(name)
        if characters > _TEXT_BYTES:
            raise ReproError(f"{path}: expected names and texts of at most {_TEXT_BYTES:,} characters in all, got more")
    size = sum(span.size for span in spans.values())
    most = max(_FREE_BYTES, size * limits().archive_ratio)
    if total > most:
        raise ReproError(f"{path}: expected tensors of at most {most:,} bytes in storages of {size:,}, got {total:,}")
    return found


def _stored(value: PickledTensor, spans: dict[str, Span], root: str, is_big: bool, where: str) -> StoredTensor:
    span = spans.get(f"{root}/data/{value.storage.key}")
    if span is None or span.deflated is not None:
        raise ReproError(f"{where}: expected an uncompressed member {foreign(value.storage.key)}, which is missing")
    kind = _kind_of(value.dtype)
    shape, strides, offset = value.shape, value.strides, value.offset
    if kind.name.startswith("complex"):
        shape, strides, offset = (*shape, 2), (*(2 * stride for stride in strides), 1), 2 * offset
    start = offset * kind.itemsize
    is_contiguous = _is_contiguous(shape, strides)
    return StoredTensor(kind, shape, span, start, None if is_contiguous else strides, is_big)


def _kind_of(dtype: str) -> ElementKind:
    # float4_e2m1fn_x2 has two values in each element.
    return KINDS[_NAMES[dtype]] if dtype in _NAMES else bits_kind(1)


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return True


class _Leaves:
    """Yields the values in nested containers, and the empty containers, with their names.

    An object that occurs in several places is yielded for each place, so a small file can describe very many values.
    The number of visited objects is therefore limited.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._visited = 0

    def of(self, value: Any, name: str = "", depth: int = _DEPTH) -> Iterator[tuple[str, Any]]:
        self._visited += 1
        if self._visited > _MOST_VALUES or depth == 0 or len(name) > LONGEST_NAME:
            raise ReproError(
                f"{self._where}: expected at most {_MOST_VALUES:,} values, in at most {_DEPTH} nested containers, with "
                f"names of at most {LONGEST_NAME} characters, got more at {foreign(name)}"
            )
        begin = f"{name}." if name else ""
        if isinstance(value, dict) and value:
            for key, item in value.items():
                yield from self.of(item, f"{begin}{key}", depth - 1)
        elif isinstance(value, list | tuple) and value:
            for i, item in enumerate(value):
                yield from self.of(item, f"{begin}{i}", depth - 1)
        else:
            yield name, value


def _plain(value: Any) -> np.ndarray | str:
    if isinstance(value, float) or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return np.array(value)
    if isinstance(value, int):
        # Decimal digits of a large integer would take quadratic time.
        return hex(value)
    if isinstance(value, set):
        return "{" + ", ".join(sorted(map(repr, value))) + "}" if value else "set()"
    return repr(value)
