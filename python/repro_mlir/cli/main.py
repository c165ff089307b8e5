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
    return run_command("repro", lambda: _parser().parse_args(arguments), lambda options: options.command(options))


def _parser() -> argparse.ArgumentParser:
    import argparse
    import importlib

    from repro_mlir.base.command_line import Parser
    from repro_mlir.cli.versions import PrintVersions

    parser = Parser(
        prog="repro",
        description="Trains and runs neural networks with every bit defined.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action=PrintVersions, help="print the versions of repro-mlir, LLVM and PyTorch, and exit"
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        importlib.import_module(f".{command}", __package__).register(commands)
    return parser
