# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A registry of modules by role. A room (docs/contributors/architecture.md) must not import modules of higher layers,
so it gets these modules from the registry."""

from __future__ import annotations

import importlib
from types import ModuleType

_modules: dict[str, str] = {}


def register(role: str, module: str) -> None:
    """Registers a module for a role, in place of an earlier one; the first use imports the module."""
    _modules[role] = module


def registered(role: str) -> ModuleType | None:
    """Returns the module that is registered for a role; None if there is none."""
    return importlib.import_module(_modules[role]) if role in _modules else None
