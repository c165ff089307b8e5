# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads untrusted models: a file and its external tensor files, within limits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from repro_mlir.base.files.regular import open_regular, read_regular
from repro_mlir.base.limits import limits
from repro_mlir.frontends.onnx.errors import OnnxError


def read_model(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """Reads the model in a file, including its external tensors.

    Raises:
      ReproError: the file cannot be read, is too large or not an ONNX model, or a tensor is in a file outside the
        model's folder.
    """
    path = Path(path)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(read_regular(path, limits().archive_bytes, follow=True))
    except DecodeError as error:
        raise OnnxError(f"{path}: cannot be read as an ONNX model: {error}") from None
    remaining = limits().archive_bytes
    for tensor in _tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            try:
                tensor.raw_data = _external(path.parent, tensor, remaining)
            except OnnxError as error:
                raise OnnxError(f"{path}: tensor {tensor.name!r}: {error}") from None
            remaining -= len(tensor.raw_data)
            del tensor.external_data[:]
            tensor.data_location = onnx.TensorProto.DEFAULT
    return model


def require_own_tensors(model: onnx.ModelProto) -> None:
    """Raises OnnxError if tensors of the model are in external files, because the model came without a folder."""
    for tensor in _tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise OnnxError(f"tensor {tensor.name!r} is in an external file: pass the path of the model")


def _external(folder: Path, tensor: onnx.TensorProto, most: int) -> bytes:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    root = folder.resolve()
    is_name = location and "\0" not in location and not os.path.isabs(location)
    if not is_name or root not in (file := (root / location).resolve()).parents:
        raise OnnxError(f"expected a file in the folder of the model, got {location!r}")
    offset, length = _number(entries, "offset", 0), _number(entries, "length", None)
    with open_regular(file) as opened:
        size = os.fstat(opened.fileno()).st_size
        assert offset is not None
        if length is None:
            length = max(size - offset, 0)
        if offset + length > size or length > most:
            raise OnnxError(f"expected at most {min(max(size - offset, 0), most)} bytes in {location!r}, got {length}")
        opened.seek(offset)
        return opened.read(length)


def _number(entries: dict[str, str], key: str, default: int | None) -> int | None:
    text = entries.get(key)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise OnnxError(f"expected a number as {key}, got {text[:40]!r}")
    return int(text)


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from _tensors_of(model.graph)
    for function in model.functions:
        for node in function.node:
            yield from _tensors_of_node(node)


def _tensors_of(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _tensors_of_node(node)


def _tensors_of_node(node: onnx.NodeProto) -> Iterator[onnx.TensorProto]:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        if attribute.HasField("sparse_tensor"):
            yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
        for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            yield from _tensors_of(graph)
