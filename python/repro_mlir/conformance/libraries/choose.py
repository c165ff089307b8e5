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

_FILE_MODULE = "repro_vectors_library"
"""The name of the module that a file of the user becomes."""


def load_library(name: str) -> tuple[Compute, str]:
    """Returns a function that computes operations, and the name of the library with its version.

    Args:
      name: one of KNOWN, "reference" for the reference interpreter, MODULE:FUNCTION or FILE.py:FUNCTION. The function
        is `group.Compute`. The module is searched for in the current folder first, and a file may import the modules
        next to it; their code is executed.
    Raises:
      ReproError: the package is not installed or has another interface, or there is no such function.
    """
    if name == REFERENCE:
        return operations.compute, "reference interpreter"
    if name in KNOWN:
        try:
            module = importlib.import_module(f"repro_mlir.conformance.libraries.of_{name}")
            found: Compute = module.library()
        except ImportError as error:
            raise ReproError(f"library {name}: cannot import the package: {error}: pip install {name}") from None
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {foreign(str(error))}"
            raise ReproError(
                f"library {name}: expected the package in a version that repro vectors supports, got {_labelled(name)} "
                f"({reason}): give another version, or your own function as FILE.py:FUNCTION"
            ) from None
        return found, _labelled(name)
    place, colon, function = name.rpartition(":")
    if not colon or not place or not function.isidentifier():
        known = ", ".join((*KNOWN, REFERENCE))
        raise ReproError(f"expected --library {known}, MODULE:FUNCTION or FILE.py:FUNCTION, got {name!r}")
    own: Compute | None = getattr(_imported(place), function, None)
    if own is None or not callable(own):
        raise ReproError(f"{place}: expected a function {function}(operation, inputs, parameters), found none")
    return own, name


def _labelled(package: str) -> str:
    """Returns the name of a package with its version. A module that was not installed as a package has no version."""
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{package} of unknown version"


def _imported(place: str) -> ModuleType:
    """Returns the module of a name or a Python file."""
    is_file = place.endswith(".py")
    if is_file and not Path(place).is_file():
        raise ReproError(f"{place}: expected a Python file, but there is no such file: check the path")
    # As for `python FILE`, the modules next to the file can be imported, also later by the function.
    folder = str(Path(place).resolve().parent) if is_file else os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return _executed(place) if is_file else importlib.import_module(place)
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {foreign(str(error))}"
        raise ReproError(f"{place}: cannot import it: {reason}: mend the module, or check its name") from None


def _executed(file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(_FILE_MODULE, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickle look up the module of a class in sys.modules. The name does not hide another module.
    sys.modules[_FILE_MODULE] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[_FILE_MODULE]
        raise
    return module
