# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tells whether the compiler is installed, and explains imports that fail without the compiler.

The distribution repro-mlir-verify contains the modules that need neither MLIR nor PyTorch; tools/release/verifier.py
lists them. The distribution repro-mlir has the other modules.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from pathlib import Path

from repro_mlir.base.errors import ReproError

_GUIDE = "docs/guides/install.md"

INSTALL = f"install repro-mlir ({_GUIDE})"
"""Says how to install the compiler. The names of the distributions may not exist in an index of packages."""


class CompilerMissing(ReproError, ImportError):
    """Raised by an import of a module that is not part of repro-mlir-verify."""


@functools.cache
def has_compiler() -> bool:
    """Returns whether the package contains the bindings of MLIR, and thus the compiler."""
    return (Path(__file__).parents[1] / "_mlir_libs").is_dir()


def distribution() -> str:
    """Returns the name of the distribution that is installed."""
    return "repro-mlir" if has_compiler() else "repro-mlir-verify"


def install_extra(*names: str) -> str:
    """Says how to install extras, such as "torch", of the distribution that is installed."""
    extras = f"the extra{'s' if len(names) > 1 else ''} {' and '.join(names)}"
    return f"install {extras} of {distribution()} ({_GUIDE})"


def require_compiler(what: str) -> None:
    """Raises CompilerMissing, which names the use `what` of the compiler, if the compiler is not installed."""
    if not has_compiler():
        raise CompilerMissing(f"{what} needs the compiler: {INSTALL}")


class _Explanation:
    """An import hook that is the last one, and thus is asked only for modules that no other hook has found."""

    def __init__(self, package: str) -> None:
        self._prefix = f"{package}."

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> None:
        if name.startswith(self._prefix):
            raise CompilerMissing(f"{name} needs the compiler: {INSTALL}")


def explain_missing_modules(package: str) -> None:
    """Makes imports of absent modules of `package` raise CompilerMissing; the package calls this on import."""
    if not any(isinstance(each, _Explanation) for each in sys.meta_path):
        sys.meta_path.append(_Explanation(package))
