# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Errors of the Keras frontend."""

from repro_mlir.base.errors import ReproError


class CaptureError(ReproError):
    """Raised for a Keras step that cannot be turned into a program."""
