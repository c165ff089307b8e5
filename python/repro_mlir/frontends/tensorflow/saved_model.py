# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Captures signatures of SavedModels as functions."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from repro_mlir.frontends.stablehlo.errors import CaptureError
from repro_mlir.frontends.tensorflow.bindings import TensorFlowBindings
from repro_mlir.frontends.tensorflow.tracing import capture_named
from repro_mlir.program.imported import ImportedProgram


def capture_saved_model(path: str, signature: str | None, sizes: dict[str, int]) -> ImportedProgram[TensorFlowBindings]:
    """Implements `programs.import_saved_model`. Raises CaptureError if the model cannot be loaded or captured."""
    try:
        model = tf.saved_model.load(path)
    except (OSError, ValueError, KeyError, AttributeError, tf.errors.OpError) as error:
        raise CaptureError(f"{path}: TensorFlow cannot load the SavedModel: {str(error).splitlines()[0]}") from None
    function = _signature(model, path, signature)
    specs: dict[str, tf.TensorSpec] = function.structured_input_signature[1]
    names = sorted(specs)
    closed = [_closed(name, specs[name], sizes) for name in names]
    if sizes:
        raise CaptureError(f"expected sizes of open dimensions of the signature alone, got {next(iter(sizes))!r}")
    # The model's variables live only as long as the model, so the closure keeps a reference to it.
    return capture_named(
        lambda *tensors: (model, function(**dict(zip(names, tensors, strict=True))))[1],
        closed,
        names,
        "",
        has_lines=False,
    )


def _signature(model: Any, path: str, name: str | None) -> Any:
    signatures = dict(getattr(model, "signatures", {}))
    if name is None:
        name = next(iter(signatures)) if len(signatures) == 1 else "serving_default"
    if name not in signatures:
        shown = ", ".join(sorted(signatures)) or "none"
        raise CaptureError(f"{path}: the SavedModel has no signature {name!r}, expected one of {shown}")
    return signatures[name]


def _closed(name: str, spec: tf.TensorSpec, sizes: dict[str, int]) -> tf.TensorSpec:
    """Returns an input's type after setting its open dimensions from `sizes`; removes the used entries of `sizes`."""
    if spec.shape.rank is None:
        raise CaptureError(f"input {name} has an unknown rank")
    shape = []
    for number, extent in enumerate(spec.shape):
        key = f"{name}.{number}"
        if extent is None and key not in sizes:
            raise CaptureError(f"dimension {number} of input {name} is open: pass its size as sizes={{{key!r}: ...}}")
        shape.append(sizes.pop(key) if extent is None else extent)
    return tf.TensorSpec(shape, spec.dtype)
