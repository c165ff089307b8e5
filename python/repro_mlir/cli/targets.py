# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro targets: lists the values of --target, and which of them this machine can execute."""

from __future__ import annotations

import argparse
import dataclasses
import json

from repro_mlir.base.printing import tell
from repro_mlir.cli.options import Commands, add_command


def register(commands: Commands) -> None:
    """Adds the parser of `repro targets`."""
    add_command(commands, "targets", _targets, "list the targets, and which of them this machine can execute")


def _targets(options: argparse.Namespace) -> int:
    from repro_mlir.execute.availability import describe_targets

    found = describe_targets()
    if options.json:
        tell(json.dumps({"targets": [dataclasses.asdict(target) for target in found]}))
        return 0
    names, executions = (max(map(len, column)) for column in zip(*((t.name, t.execution) for t in found), strict=True))
    for target in found:
        tell(f"{target.name:{names}}  {target.execution:{executions}}  {target.description} ({target.detail})")
    return 0
