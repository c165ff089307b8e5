# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Support for importing the package again in one process after its modules were removed from sys.modules.

MLIR's bindings have one registry per process and cannot be loaded twice, so all imports of the package share them.
"""

from __future__ import annotations

import sys
from types import ModuleType

_BINDINGS = ("_mlir_libs", "dialects", "extras", "ir", "passmanager", "rewrite")


def share_bindings(package: str) -> None:
    """Reuses the bindings that an earlier import of the package loaded; the package calls this when it is imported."""
    module = sys.modules[package]
    earlier = sys.modules.get(f"_{package}", module)
    for name in _BINDINGS:
        if earlier is not module and isinstance(found := vars(earlier).get(name), ModuleType):
            setattr(module, name, found)
            _publish(found)
    # The alias is not the name of a module of the package, so it survives when those modules are removed.
    sys.modules[f"_{package}"] = module


def _publish(module: ModuleType) -> None:
    """Puts a module and its submodules back into sys.modules."""
    sys.modules[module.__name__] = module
    for name, value in list(vars(module).items()):
        if isinstance(value, ModuleType) and value.__name__ == f"{module.__name__}.{name}":
            _publish(value)
