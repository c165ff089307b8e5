# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The option --version of `repro`."""

from __future__ import annotations

import argparse
import importlib.metadata
from collections.abc import Sequence
from typing import Any

from repro_mlir.base.compiler import has_compiler
from repro_mlir.base.printing import tell
from repro_mlir.base.version import __version__


class PrintVersions(argparse.Action):
    """The action of --version: prints the versions and exits. Imports the compiler, which knows the version, only when
    the option is used."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        if not has_compiler():
            tell(f"repro-mlir-verify {__version__}")
            parser.exit()
        from repro_mlir._mlir_libs import _repro

        versions = {"repro-mlir": _repro.__version__, "LLVM/MLIR": _repro.llvm_version}
        for package in ("torch", "torch-mlir"):
            try:
                versions[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                versions[package] = "not installed"
        tell(*(f"{name:10} {version}" for name, version in versions.items()))
        parser.exit()
