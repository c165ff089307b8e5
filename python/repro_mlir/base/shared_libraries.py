# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Libraries with an LLVM of their own, in a process in which TensorFlow has published the symbols of its LLVM."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_LIBRARIES = {
    "repro_mlir._mlir_libs": "libReproPythonCAPI.so",
    "torch_mlir._mlir_libs": "libTorchMLIRAggregateCAPI.so",
}
"""By the package whose import loads one."""


class _Apart:
    """Loads such a library before its package does, so that it looks for symbols in itself first. Finds no module."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> None:
        if name in _LIBRARIES and "tensorflow" in sys.modules:
            import ctypes
            from pathlib import Path

            for folder in path or ():
                library = Path(folder) / "_mlir_libs" / _LIBRARIES[name]
                if library.exists():
                    ctypes.CDLL(str(library), mode=os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)


def load_apart() -> None:
    """Keeps these libraries from functions of TensorFlow's LLVM; called when the package is imported."""
    if not any(isinstance(each, _Apart) for each in sys.meta_path):
        sys.meta_path.insert(0, _Apart())
