# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Console scripts that execute the native tools shipped with the compiler library."""

import os
import sys
from pathlib import Path

from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import tell


def _execute(tool: str) -> None:
    _check_files()
    path = Path(__file__).parent / "_mlir_libs" / tool
    os.execv(path, [str(path), *sys.argv[1:]])


def _check_files() -> None:
    """Exits with an error if an argument is a file that repro-mlir wrote but that does not contain an MLIR module.

    The native tools would report such a file as malformed MLIR text.
    """
    for argument in sys.argv[1:]:
        if argument.startswith("-") or argument.endswith((".mlir", ".mlirbc")) or not os.path.exists(argument):
            continue
        from repro_mlir.cli.file_kinds import MODULE, STORED, expect

        try:
            expect(argument, MODULE, STORED)
        except ReproError as error:
            tell(f"{Path(sys.argv[0]).name}: error: {error}", stream=sys.stderr)
            sys.exit(1)


def repro_opt() -> None:
    """Runs the `repro-opt` command."""
    _execute("repro-opt")


def repro_lsp_server() -> None:
    """Runs the `repro-lsp-server` command."""
    _execute("repro-lsp-server")


def repro_translate() -> None:
    """Runs the `repro-translate` command."""
    _execute("repro-translate")
