# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The exception of the ONNX frontend."""

from repro_mlir.frontends.torch.base.errors import CaptureError


class OnnxError(CaptureError):
    """Raised when a model cannot be read or cannot become a program. The message is one line with the file or the
    node."""
