# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The command `repro`."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

# Other modules are imported inside `run_command`, which turns an exception into an exit status. If an import at the top
# of this file failed, Python itself would exit with status 1.
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

# The order in which the help lists the commands.
_COMMANDS = (
    "train",
    "compile",
    "inputs",
    "run",
    "run_bundle",
    "inspect",
    "serve",
    "verify",
    "attest",
    "dispute",
    "diff",
    "check_resume",
    "precision",
    "roofline",
    "targets",
    "certify_device",
    "vectors",
    "cache",
)

_OF_VERIFIER = ("inspect", "verify", "attest", "dispute", "diff")
"""The commands in the distribution repro-mlir-verify, which has no compiler."""

_EXAMPLES = (
    "repro train examples/digits_cnn.py --steps 300",
    "repro compile examples/digits_cnn.py -o digits.repro",
    "repro inspect digits.repro",
    "repro inputs examples/digits_cnn.py -o batch.npz",
    "repro run digits.repro --inputs batch.npz --target reference",
    "repro train examples/digits_cnn.py --steps 300 --receipt digits.receipt",
    "repro verify digits.receipt --steps sample:5",
    "repro precision examples/digits_cnn.py --recipes bf16,mxfp8 --steps 100",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit status.

    See `run_command` for the exit status of a command that fails.
    """
    try:
        from repro_mlir.base.command_line import run_command
    except Exception as error:
        # This import fails if, for example, memory or file descriptors have run out.
        with contextlib.suppress(OSError):
            os.write(2, f"repro: error: {error}\n".encode())
        return 2
    return run_command("repro", lambda: _parse(arguments), lambda options: options.command(options))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    import sys

    from repro_mlir.base.compiler import INSTALL
    from repro_mlir.base.errors import ReproError

    given = sys.argv[1:] if arguments is None else arguments
    name = next((each for each in given if not each.startswith("-")), "")
    if name.replace("-", "_") in {*_COMMANDS} - {*_commands()}:
        raise ReproError(f"repro {name} is a command of repro-mlir, and only repro-mlir-verify is installed: {INSTALL}")
    return _parser().parse_args(arguments)


def _commands() -> Sequence[str]:
    """Returns the commands that are installed."""
    from repro_mlir.base.compiler import has_compiler

    return _COMMANDS if has_compiler() else _OF_VERIFIER


def _parser() -> argparse.ArgumentParser:
    import argparse
    import importlib

    from repro_mlir.base.command_line import Parser
    from repro_mlir.cli.versions import PrintVersions

    commands = _commands()
    parser = Parser(
        prog="repro",
        description="Trains and runs neural networks with every bit defined."
        if commands == _COMMANDS
        else "Verifies runs of repro-mlir. The distribution repro-mlir has the other commands.",
        epilog="\n  ".join(["examples:", *(each for each in _EXAMPLES if each.split()[1] in commands)]) + "\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action=PrintVersions, help="print the versions of repro-mlir, LLVM and PyTorch, and exit"
    )
    parsers = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in commands:
        importlib.import_module(f".{command}", __package__).register(parsers)
    return parser
