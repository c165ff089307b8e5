# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Console scripts that hand over to the tools beside the compiler library."""

import os
import sys
from pathlib import Path


def _execute(tool: str) -> None:
    path = Path(__file__).parent / "_mlir_libs" / tool
    os.execv(path, [str(path), *sys.argv[1:]])


def repro_opt() -> None:
    """The `repro-opt` command."""
    _execute("repro-opt")


def repro_lsp_server() -> None:
    """The `repro-lsp-server` command."""
    _execute("repro-lsp-server")


def repro_translate() -> None:
    """The `repro-translate` command."""
    _execute("repro-translate")
