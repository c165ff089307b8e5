# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The command `repro`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..command_line import Parser, run_command
from . import attest, compile, diff, dispute, inspect, run, run_bundle, train, verify

# In the order of the help.
_COMMANDS = (train, compile, run, run_bundle, inspect, verify, attest, dispute, diff)

_EXAMPLES = """examples:
  repro train examples/digits_cnn.py --steps 300
  repro compile examples/digits_cnn.py -o digits.repro
  repro inspect digits.repro
  repro run digits.repro --inputs batch.npz --target reference
  repro train examples/digits_cnn.py --steps 300 --receipt digits.receipt
  repro verify digits.receipt --steps sample:5
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
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.register(commands)
    return parser
