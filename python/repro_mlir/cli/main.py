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

_TASKS = {
    "train and run": ("train", "compile", "inputs", "run", "run_bundle", "serve"),
    "verify": ("verify", "attest", "dispute"),
    "examine": ("inspect", "diff", "determinism", "check_resume"),
    "compare precisions, predict times": ("precision", "roofline", "map"),
    "this machine, other libraries": ("doctor", "targets", "certify_device", "vectors", "cache", "completion"),
}
"""The modules of the commands by task, in the order in which the help lists them."""

_OF_VERIFIER = ("verify", "attest", "dispute", "inspect", "diff", "check_resume", "doctor", "vectors")
"""The commands in the distribution repro-mlir-verify, which has no compiler."""

_EXAMPLES = (
    "repro doctor",
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
    known = {module for modules in _TASKS.values() for module in modules}
    installed = {module for modules in _tasks().values() for module in modules}
    if name.replace("-", "_") in known - installed:
        raise ReproError(f"repro {name} is a command of repro-mlir, and only repro-mlir-verify is installed: {INSTALL}")
    return make_parser().parse_args(arguments)


def commands_of_compiler() -> list[str]:
    """Returns the names of the commands that are not in the distribution repro-mlir-verify."""
    return [each.replace("_", "-") for modules in _TASKS.values() for each in modules if each not in _OF_VERIFIER]


def _tasks() -> dict[str, tuple[str, ...]]:
    """Returns the modules of the commands that are installed, by task."""
    from repro_mlir.base.compiler import has_compiler

    if has_compiler():
        return _TASKS
    found = {task: tuple(each for each in modules if each in _OF_VERIFIER) for task, modules in _TASKS.items()}
    return {task: modules for task, modules in found.items() if modules}


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of `repro` with all commands that are installed."""
    import argparse
    import importlib

    from repro_mlir.base.command_line import Parser
    from repro_mlir.base.compiler import has_compiler
    from repro_mlir.cli.parsers import Help, summaries
    from repro_mlir.cli.versions import PrintVersions

    tasks = _tasks()
    installed = {module for modules in tasks.values() for module in modules}
    parser = Parser(
        prog="repro",
        # Without this text, the usage would lack the command, whose help is suppressed below.
        usage="repro [-h] [--version] COMMAND ...",
        description="Trains and runs neural networks with every bit defined."
        if has_compiler()
        else "Verifies runs of repro-mlir. The distribution repro-mlir has the other commands.",
        epilog="\n  ".join(["examples:", *(each for each in _EXAMPLES if each.split()[1] in installed)])
        + "\n\nrepro COMMAND --help describes a command.",
        formatter_class=Help,
    )
    parser.add_argument(
        "--version", action=PrintVersions, help="print the versions of repro-mlir, LLVM and PyTorch, and exit"
    )
    # Each task is a group whose description lists its commands: argparse cannot group the commands themselves.
    commands = parser.add_subparsers(prog="repro", required=True, metavar="COMMAND", help=argparse.SUPPRESS)
    for task, modules in tasks.items():
        before = set(summaries(commands))
        for module in modules:
            importlib.import_module(f".{module}", __package__).register(commands)
        lines = [f"{name:15} {text}" for name, text in summaries(commands).items() if name not in before]
        parser.add_argument_group(task, "\n".join(lines))
    return parser
