# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro run-bundle: runs a bundle with this package's runner, never with the Python code in the bundle."""

from __future__ import annotations

import argparse

from repro_mlir.cli.file_kinds import BUNDLE, expect
from repro_mlir.cli.options import Commands, add_command, add_public_key
from repro_mlir.runner.command import add_options, run

_NOTES = """exit status:
  0  the results are those that the bundle expects, or the bundle expects none
  1  the results differ from those that the bundle expects
  2  no answer: no bundle, an invalid signature, or no GPU that can run it
"""


def register(commands: Commands) -> None:
    """Adds the parser of `repro run-bundle`."""
    command = add_command(
        commands,
        "run-bundle",
        _run_bundle,
        "run a bundle on a GPU, with this package's runner",
        "Runs a bundle on a GPU, with this package's runner: only the bundle's kernels are executed.",
    )
    command.epilog = _NOTES
    command.add_argument("bundle", metavar="BUNDLE", help="a file written by repro compile --target cuda")
    add_options(command)
    add_public_key(command)


def _run_bundle(options: argparse.Namespace) -> int:
    from repro_mlir.cli.bundle_signature import check_signature
    from repro_mlir.runner.bundle import Bundle
    from repro_mlir.verification.receipts.signing import read_public_key

    key = read_public_key(options.key) if options.key else None
    expect(options.bundle, BUNDLE)
    bundle = Bundle(options.bundle)
    check_signature(bundle, key)
    return run(bundle, options)
