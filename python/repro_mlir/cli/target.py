# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The option --target of commands that run steps."""

from __future__ import annotations

import argparse

from repro_mlir.base.compiler import has_compiler
from repro_mlir.cli.options import add_no_cache, add_threads
from repro_mlir.cli.parsers import set_names


def add_target(command: argparse.ArgumentParser) -> None:
    """Adds the options --target, --threads and --no-cache of commands that run steps."""
    default = "cpu" if has_compiler() else "reference"
    target = command.add_argument(
        "--target",
        type=_target,
        default=default,
        metavar="T",
        help=f"cpu, cpu:x86-64-v3, cuda, reference, ... ({default})" if has_compiler() else "reference (reference)",
    )
    set_names(target, target_names, in_help=False, listed_by="repro targets")
    add_threads(command)
    add_no_cache(command)


def target_names() -> list[str]:
    """Returns the names of the targets."""
    if not has_compiler():
        return ["reference"]
    from repro_mlir.execute.executable import targets

    return targets()


def _target(name: str) -> str:
    from repro_mlir.verification.executors import check_target

    check_target(name)
    return name
