# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro cache: shows or empties the cache of captures and compiled code."""

from __future__ import annotations

import argparse
import json

from repro_mlir.base.printing import tell
from repro_mlir.cli.options import Commands, add_command


def register(commands: Commands) -> None:
    """Adds the parser of `repro cache`."""
    command = add_command(commands, "cache", _cache, "show or empty the cache of captures and compiled code")
    command.add_argument("--clear", action="store_true", help="remove all entries")


def _cache(options: argparse.Namespace) -> int:
    from repro_mlir.base.files.cache import OFF, VARIABLE, clear, usage

    removed = clear() if options.clear else 0
    found = usage()
    if options.json:
        report = {"path": found.path and str(found.path), "entries": found.entries, "bytes": found.bytes}
        tell(json.dumps(report | {"limit": found.limit, "removed": removed}))
        return 0
    if options.clear:
        tell(f"removed  {removed:,} entries")
    tell(f"path     {found.path or f'none: nothing is kept ({VARIABLE}={OFF}, or no home directory)'}")
    tell(f"entries  {found.entries:,}, {found.bytes:,} bytes")
    tell(f"limit    {found.limit:,} bytes (cache_bytes of REPRO_MLIR_LIMITS)")
    return 0
