# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro attest: exports a finished receipt as a signed in-toto statement."""

from __future__ import annotations

import argparse
import json

from repro_mlir.base.files.storage import write_file
from repro_mlir.base.printing import tell
from repro_mlir.cli.file_kinds import RECEIPT, expect
from repro_mlir.cli.options import Commands, add_command


def register(commands: Commands) -> None:
    """Adds the parser of `repro attest`."""
    command = add_command(commands, "attest", _attest, "export a finished receipt as a signed in-toto statement (DSSE)")
    command.add_argument("receipt", metavar="RECEIPT", help="a directory written by repro train --receipt")
    command.add_argument("--sign", metavar="KEY", required=True, help="the ed25519 private key (PEM) that signs")
    command.add_argument("-o", "--output", metavar="FILE", required=True, help="the file to write")


def _attest(options: argparse.Namespace) -> int:
    from repro_mlir.verification.receipts.attestation import envelope
    from repro_mlir.verification.receipts.receipt import Receipt
    from repro_mlir.verification.receipts.signing import PrivateKey

    expect(options.receipt, RECEIPT)
    data = envelope(Receipt(options.receipt), PrivateKey(options.sign))
    write_file(options.output, data)
    report = {"receipt": options.receipt, "output": options.output, "bytes": len(data)}
    tell(json.dumps(report) if options.json else f"wrote    {options.output}, {len(data):,} bytes")
    return 0
