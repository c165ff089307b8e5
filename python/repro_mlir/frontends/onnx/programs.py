# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""`repro_mlir.frontends.onnx.load`: canonical programs of ONNX models."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from repro_mlir.base.compiler import install_extra
from repro_mlir.base.errors import ReproError
from repro_mlir.base.keywords import accepts_keywords
from repro_mlir.base.numerics.environment import require_default_environment
from repro_mlir.base.progress import working
from repro_mlir.frontends.base.tried_versions import warn_if_untried
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions, InferenceKeywords
from repro_mlir.frontends.torch.capture.programs import canonical_program
from repro_mlir.program import Program
from repro_mlir.program.imported import ImportedProgram

if TYPE_CHECKING:
    import onnx

    from repro_mlir.frontends.torch.objects.captured_program import TorchBindings

warn_if_untried("onnx")


@accepts_keywords(InferenceKeywords, CaptureOptions)
def load(
    model: str | os.PathLike[str] | onnx.ModelProto,
    *,
    sizes: Mapping[str, int] | None = None,
    inputs: Mapping[str, Any] | None = None,
    constants: Mapping[str, Any] | None = None,
    **options: Unpack[InferenceKeywords],
) -> Program:
    """Returns the canonical program of an ONNX model for inference, opset 7 or newer.

    Initializers of floats and 8-bit integers are state, under their names, unless shapes are computed from them; the
    inputs and outputs are those of the graph, under their names.

    Args:
      model: the path of a file, whose tensors may be in external files next to it, or a model with all of its tensors.
      sizes: the extents of the named dimensions of the inputs.
      inputs: example inputs by name: the program has their shapes where the model leaves shapes open.
      constants: fixed inputs by name: the program contains their values instead of these inputs. An input from which
        shapes are computed must be fixed.
      exact_digits: 2 or 3 makes all contractions exact, see `exact_contractions`.
      precision: a recipe for the operands of contractions, as for `repro_mlir.capture`.
      attention_block: as for `repro_mlir.capture`.
    Raises:
      ReproError: the file is damaged, too large or not an ONNX model; a size is missing; an operator, element type or
        shape has no program (with the node's name and operator).
    """
    chosen = CaptureOptions.parsed(**options)
    imported = import_model(model, sizes=sizes, inputs=inputs, constants=constants, options=chosen)
    return canonical_program(imported, chosen, advice="")


def import_model(
    model: str | os.PathLike[str] | onnx.ModelProto,
    *,
    sizes: Mapping[str, int] | None = None,
    inputs: Mapping[str, Any] | None = None,
    constants: Mapping[str, Any] | None = None,
    options: CaptureOptions | None = None,
) -> ImportedProgram[TorchBindings]:
    """Returns the imported program for the arguments of `load`. Only `attention_block` of `options` has an effect."""
    require_default_environment()
    try:
        from repro_mlir.frontends.onnx import importing
    except ImportError as error:
        raise ReproError(f"importing ONNX models requires onnx: {install_extra('onnx')} ({error})") from None
    with working("capturing"):
        return importing.import_model(model, sizes or {}, inputs or {}, constants or {}, options or CaptureOptions())
