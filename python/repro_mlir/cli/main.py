# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The command `repro`."""

from __future__ import annotations

import argparse
import importlib.metadata
from collections.abc import Sequence
from typing import Any

from ..command_line import Parser, run_command
from ..printing import tell
from . import (
    attest,
    cache,
    certify_device,
    compile,
    diff,
    dispute,
    inputs,
    inspect,
    precision,
    roofline,
    run,
    run_bundle,
    serve,
    targets,
    train,
    verify,
)

# In the order of the help.
_COMMANDS = (
    train,
    compile,
    inputs,
    run,
    run_bundle,
    inspect,
    serve,
    verify,
    attest,
    dispute,
    diff,
    precision,
    roofline,
    targets,
    certify_device,
    cache,
)

_EXAMPLES = """examples:
  repro train examples/digits_cnn.py --steps 300
  repro compile examples/digits_cnn.py -o digits.repro
  repro inspect digits.repro
  repro inputs examples/digits_cnn.py -o batch.npz
  repro run digits.repro --inputs batch.npz --target reference
  repro train examples/digits_cnn.py --steps 300 --receipt digits.receipt
  repro verify digits.receipt --steps sample:5
  repro precision examples/digits_cnn.py --recipes bf16,mxfp8 --steps 100
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status.

    See `run_command` for what is returned where a command has no answer.
    """
    return run_command("repro", lambda: _parser().parse_args(arguments), lambda options: int(options.command(options)))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="repro",
        description="Trains and runs neural networks with every bit defined.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, help="print the versions of what takes part and exit")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.register(commands)
    return parser


class _Version(argparse.Action):
    """Prints the versions, which importing the compiler gives: only when they are asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from .._mlir_libs import _repro

        versions = {"repro-mlir": _repro.__version__, "LLVM/MLIR": _repro.llvm_version}
        for package in ("torch", "torch-mlir"):
            try:
                versions[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                versions[package] = "not installed"
        tell(*(f"{name:10} {version}" for name, version in versions.items()))
        parser.exit()
