# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Starts the recorder in a process as soon as its script has imported PyTorch, in any Python environment.

This file imports only the standard library. A `sitecustomize` module, which Python imports at its start, loads this
file by its path (`runs.py`). The script's own order of imports and its environment variables other than PYTHONPATH stay
as they are.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

RECORDER = "repro_mlir_resume_recorder"
"""The name under which the recorder is in `sys.modules` of the process that runs the script."""


def begin(folder: str) -> None:
    """Prepares this process to record; `folder` contains the `sitecustomize` module that calls this function.

    A launcher sets RANK in the processes that it starts; only the process of rank 0 records.
    """
    sys.path[:] = [path for path in sys.path if path != folder]
    if os.environ.get("RANK", "0") == "0":
        if "torch" in sys.modules:
            # A .pth file has imported it.
            _start_recorder()
        else:
            sys.meta_path.insert(0, _WatchImports())
    _import_own_sitecustomize()


def _import_own_sitecustomize() -> None:
    """Imports the `sitecustomize` module of the user's environment, if there is one. If that module raises, Python
    reports the exception and goes on, as it does without this hook."""
    injected = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        if injected is not None:
            sys.modules["sitecustomize"] = injected


class _WatchImports(importlib.abc.MetaPathFinder):
    """Finds PyTorch as Python would, and adds the start of the recorder to its import."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _LoadThenRecord(spec.loader)
        return spec


class _LoadThenRecord(importlib.abc.Loader):
    """Loads a module by another loader, and then starts the recorder."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        _start_recorder()


def _start_recorder() -> None:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorder.py")
    spec = importlib.util.spec_from_file_location(RECORDER, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[RECORDER] = module
    spec.loader.exec_module(module)
    module.start()
