# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Prevents libraries with their own copy of LLVM from using that of TensorFlow, whose LLVM symbols are exported
globally."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_LIBRARIES = {
    "repro_mlir._mlir_libs": "libReproPythonCAPI.so",
    "torch_mlir._mlir_libs": "libTorchMLIRAggregateCAPI.so",
}
"""Maps each package to the library that its import loads."""


class _Apart:
    """An import hook that loads a library of `_LIBRARIES` before its package does, with RTLD_DEEPBIND, so that the
    library looks up symbols in itself first. `find_spec` returns None, so that other finders import the module."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> None:
        if name in _LIBRARIES and "tensorflow" in sys.modules:
            import ctypes
            from pathlib import Path

            for folder in path or ():
                library = Path(folder) / "_mlir_libs" / _LIBRARIES[name]
                if library.exists():
                    ctypes.CDLL(str(library), mode=os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)


def load_apart() -> None:
    """Prevents the libraries of `_LIBRARIES` from calling functions of TensorFlow's LLVM; the package calls this on
    import."""
    if not any(isinstance(each, _Apart) for each in sys.meta_path):
        sys.meta_path.insert(0, _Apart())
