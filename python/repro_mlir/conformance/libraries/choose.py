# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Returns the function that computes the operations of conformance vectors by a library."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import foreign
from repro_mlir.conformance import operations
from repro_mlir.conformance.group import Compute

REFERENCE = "reference"
KNOWN = ("ml_dtypes", "gfloat", "torchao", "numpy")
"""The packages for which this project has a module of_NAME."""


def load_library(name: str) -> tuple[Compute, str]:
    """Returns a function that computes operations, and the name of the library with its version.

    Args:
      name: one of KNOWN, "reference" for the reference interpreter, MODULE:FUNCTION or FILE.py:FUNCTION. The function
        is `group.Compute`. The module is searched for in the current folder first; its code is executed.
    Raises:
      ReproError: the package is not installed, or there is no such function.
    """
    if name == REFERENCE:
        return operations.compute, "reference interpreter"
    if name in KNOWN:
        try:
            module = importlib.import_module(f"repro_mlir.conformance.libraries.of_{name}")
            found: Compute = module.library()
        except ImportError as error:
            raise ReproError(f"library {name}: cannot import the package: {error}: pip install {name}") from None
        return found, f"{name} {importlib.metadata.version(name)}"
    place, colon, function = name.rpartition(":")
    if not colon or not place or not function.isidentifier():
        known = ", ".join((*KNOWN, REFERENCE))
        raise ReproError(f"expected --library {known}, MODULE:FUNCTION or FILE.py:FUNCTION, got {name!r}")
    own: Compute | None = getattr(_module(place), function, None)
    if own is None or not callable(own):
        raise ReproError(f"{place}: expected a function {function}(operation, inputs, parameters), found none")
    return own, name


def _module(place: str) -> ModuleType:
    try:
        if not place.endswith(".py"):
            sys.path.insert(0, os.getcwd())
            return importlib.import_module(place)
        if not Path(place).is_file():
            raise ReproError(f"{place}: expected a Python file, found no file")
        spec = importlib.util.spec_from_file_location(Path(place).stem, place)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except ReproError:
        raise
    except Exception as error:
        raise ReproError(f"{place}: cannot import it: {type(error).__name__}: {foreign(str(error))}") from None
