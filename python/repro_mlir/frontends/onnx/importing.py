# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Imports an ONNX model: its signature, its state and the trace of its graph."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.version_converter
import torch

from repro_mlir.base.field_checks import shown
from repro_mlir.base.limits import VARIABLE, limits
from repro_mlir.frontends.onnx.errors import OnnxError
from repro_mlir.frontends.onnx.evaluation import MOST_CALLS, GraphEvaluation, initial_values, versions_of
from repro_mlir.frontends.onnx.files import read_model, require_own_tensors
from repro_mlir.frontends.onnx.shaping import names_in_shapes
from repro_mlir.frontends.onnx.values import Value, dtype_of, to_torch
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.capture.inference import capture_function
from repro_mlir.frontends.torch.objects.captured_program import TorchBindings
from repro_mlir.program.imported import ImportedProgram

_OLDEST = 7
"""The oldest version of operators that is imported as is: older binary operators broadcast only with attributes."""


def import_model(
    model: str | os.PathLike[str] | onnx.ModelProto,
    sizes: Mapping[str, int],
    inputs: Mapping[str, Any],
    constants: Mapping[str, Any],
    options: CaptureOptions,
) -> ImportedProgram[TorchBindings]:
    """Imports a model as `programs.import_model` does."""
    if isinstance(model, onnx.ModelProto):
        require_own_tensors(model)
    else:
        model = read_model(model)
    model = _checked(model)
    graph = model.graph
    fixed = _fixed(graph, constants)
    examples = _examples(graph, sizes, inputs, fixed)
    initial = {**initial_values(graph), **fixed}
    numbers = names_in_shapes(graph)
    state = {
        name: value
        for name, value in initial.items()
        if isinstance(value, torch.Tensor) and name not in numbers and name not in fixed and _is_weight(value)
    }
    known = {name: value for name, value in initial.items() if name not in state}
    origins: dict[int, str] = {}

    def run(weights: dict[str, torch.Tensor], given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        values: dict[str, Value] = {**known, **weights, **given}
        results = GraphEvaluation(model, origins).run(graph, values)
        return {output.name: _result(output.name, value) for output, value in zip(graph.output, results, strict=True)}

    try:
        return capture_function(run, state, examples, origins, options)
    except OnnxError:
        raise
    except CaptureError as error:
        raise OnnxError(str(error)) from None


def _checked(model: onnx.ModelProto) -> onnx.ModelProto:
    """Checks the model and converts operators older than `_OLDEST` to that version. Raises OnnxError for an invalid
    model.
    """
    if len(model.graph.node) > MOST_CALLS:
        raise OnnxError(f"expected a model that runs at most {MOST_CALLS:,} nodes, got {len(model.graph.node):,}")
    if model.ByteSize() < 1 << 31:
        try:
            onnx.checker.check_model(model)
        except (onnx.checker.ValidationError, ValueError, RuntimeError) as error:
            raise OnnxError(f"invalid ONNX model: {_first_line(error)}") from None
    newest = onnx.defs.onnx_opset_version()
    for owner in (model, *model.functions):
        if (version := versions_of(owner.opset_import).get("", _OLDEST)) > newest:
            raise OnnxError(f"expected an operator set of version {newest} or older, got version {version}")
    if versions_of(model.opset_import).get("", _OLDEST) < _OLDEST:
        if any(node.op_type == "PRelu" for node in model.graph.node):
            # The version converter does not convert PRelu.
            raise OnnxError(f"PRelu of operator sets before version {_OLDEST} is not supported")
        try:
            model = onnx.version_converter.convert_version(model, _OLDEST)
        except (onnx.version_converter.ConvertError, ValueError, RuntimeError) as error:
            raise OnnxError(f"cannot convert the model to operator set {_OLDEST}: {_first_line(error)}") from None
    if not model.graph.output:
        raise OnnxError("expected a graph with outputs, got none")
    for value in (*model.graph.input, *model.graph.output):
        if value.type.WhichOneof("value") != "tensor_type":
            kind = str(value.type.WhichOneof("value")).removesuffix("_type")
            raise OnnxError(f"expected tensors as inputs and outputs, got {value.name!r} of the type {kind}")
    names = [output.name for output in model.graph.output]
    if len({*names}) != len(names):
        raise OnnxError("expected outputs of different names, got a name twice")
    return model


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__


def _is_weight(value: torch.Tensor) -> bool:
    """Whether a tensor becomes state of the program: a tensor of floats, i8 or u8. Other tensors become constants."""
    return value.is_floating_point() or value.dtype in (torch.int8, torch.uint8)


def _fixed(graph: onnx.GraphProto, constants: Mapping[str, Any]) -> dict[str, Value]:
    """Returns the values of the inputs that `constants` fixes, keyed by name."""
    declared = {each.name: each.type.tensor_type.elem_type for each in graph.input}
    if unknown := sorted({*constants} - {*declared}):
        raise OnnxError(f"expected constants among {', '.join(declared)}, got {unknown[0]!r}")
    found: dict[str, Value] = {}
    for name, value in constants.items():
        try:
            found[name] = to_torch(onnx.helper.make_tensor(name, declared[name], np.shape(value), np.ravel(value)))
        except (TypeError, ValueError) as error:
            raise OnnxError(f"constant {name!r}: {_first_line(error)}") from None
    return found


def _examples(
    graph: onnx.GraphProto, sizes: Mapping[str, int], inputs: Mapping[str, Any], fixed: Mapping[str, Value]
) -> dict[str, torch.Tensor]:
    """Returns, keyed by name, an example tensor for each input; its elements are never read."""
    initialized = {*(each.name for each in graph.initializer), *fixed}
    declared = [each for each in graph.input if each.name not in initialized]
    if unknown := sorted({*inputs} - {each.name for each in declared}):
        raise OnnxError(f"expected inputs among {', '.join(each.name for each in declared)}, got {unknown[0]!r}")
    named = {dim.dim_param for each in declared for dim in each.type.tensor_type.shape.dim if dim.dim_param}
    if unknown := sorted({*sizes} - named):
        raise OnnxError(f"expected sizes among {', '.join(sorted(named)) or 'none'}, got {unknown[0]!r}")
    examples = {}
    for each in declared:
        kind = each.type.tensor_type
        try:
            dtype = dtype_of(kind.elem_type)
        except OnnxError as error:
            raise OnnxError(f"input {each.name!r}: {error}") from None
        given = np.shape(inputs[each.name]) if each.name in inputs else None
        shape = _shape(each.name, kind, sizes, given)
        if int(np.prod(shape, dtype=object)) * dtype.itemsize > limits().tensor_bytes:
            raise OnnxError(f"input {each.name!r} of shape {list(shape)} exceeds tensor_bytes of {VARIABLE}")
        examples[each.name] = _example(each.name, shape, dtype)
    return examples


def _example(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    try:
        if size <= limits().archive_bytes:
            return torch.empty(shape, dtype=dtype)
    except RuntimeError:
        # The process has less free or permitted memory than the tensor needs.
        pass
    raise OnnxError(f"input {name!r} has the shape {list(shape)}: its {size:,} bytes do not fit in memory")


def _shape(
    name: str, kind: onnx.TypeProto.Tensor, sizes: Mapping[str, int], given: Sequence[int] | None
) -> tuple[int, ...]:
    if not kind.HasField("shape"):
        if given is None:
            raise OnnxError(f"input {name!r} has no shape: pass an example of it in inputs")
        return tuple(given)
    if given is not None and len(given) != len(kind.shape.dim):
        raise OnnxError(f"input {name!r}: expected an example of rank {len(kind.shape.dim)}, got shape {list(given)}")
    shape = []
    for i, dim in enumerate(kind.shape.dim):
        size = dim.dim_value if dim.HasField("dim_value") else sizes.get(dim.dim_param)
        if given is not None and size not in (None, given[i]):
            raise OnnxError(f"input {name!r}: expected extent {size} in dimension {i}, got {given[i]} in the example")
        if size is None and given is not None:
            size = given[i]
        if size is None:
            wanted = f"sizes={{{dim.dim_param!r}: ...}} or " if dim.dim_param else ""
            raise OnnxError(
                f"input {name!r}: dimension {i} ({dim.dim_param or 'without a name'}) has no size: pass {wanted}"
                "an example in inputs"
            )
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise OnnxError(f"input {name!r}: expected a whole number as the size of dimension {i}, got {size!r}")
        shape.append(size)
    return tuple(shape)


def _result(name: str, value: Value) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise OnnxError(f"expected a tensor as output {name!r}, got {shown(value)}")
    return value
