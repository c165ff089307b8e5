# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The option --target, separate from options.py because checking a target requires the compiler."""

from __future__ import annotations

import argparse

from repro_mlir.cli.options import add_no_cache, add_threads


def add_target(command: argparse.ArgumentParser) -> None:
    """Adds the options --target, --threads and --no-cache of commands that run steps."""
    command.add_argument(
        "--target", type=_target, default="cpu", metavar="T", help="cpu, cpu:x86-64-v3, cuda, reference, ... (cpu)"
    )
    add_threads(command)
    add_no_cache(command)


def _target(name: str) -> str:
    from repro_mlir.execute.executable import check_target

    check_target(name)
    return name
