# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro dispute: finds out who of two is wrong, and where; or answers such questions about a receipt."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ReproError
from ..printing import tell
from ..script import allow_exact_digits
from .options import Commands, add_command, add_exact_digits, add_target

if TYPE_CHECKING:
    from ..dispute import Channel, Published, ReceiptRun, Terms

_NOTES = """A and B are receipts (their runs are repeated here with --target), or provers elsewhere:
  tcp:HOST:PORT  unix:PATH  files:FOLDER
A prover is:  repro dispute --serve RECEIPT --listen ADDRESS

exit status:
  0  the runs agree
  1  they do not, and the party that is wrong is named
  2  no answer: no receipts, or a run that cannot be repeated here
  3  they do not, and nothing shows who is wrong (see --terms)
"""

_IDLE = 600.0
_LONGEST = 1_000_000


def register(commands: Commands) -> None:
    """Adds the parser of `repro dispute`."""
    command = add_command(commands, "dispute", _dispute, "narrow two runs to one wrong operator")
    command.epilog = _NOTES
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.add_argument("parties", metavar="A B", nargs="*", help="receipts or addresses of provers")
    add_target(command)
    command.add_argument("--terms", metavar="T", help="what was agreed on: a script, or a receipt of the same data")
    command.add_argument("--receipt-a", metavar="DIR", help="the receipt that A published, where A is an address")
    command.add_argument("--receipt-b", metavar="DIR", help="the receipt that B published, where B is an address")
    command.add_argument("--timeout", type=float, default=600.0, metavar="S", help="seconds for each answer (600)")
    command.add_argument("--evidence", metavar="DIR", help="write the operator and its inputs, for repro run")
    command.add_argument("--serve", metavar="RECEIPT", help="answer a referee's questions about this receipt")
    command.add_argument("--listen", metavar="ADDRESS", help="where, with --serve: tcp:HOST:PORT, unix:PATH, ...")
    command.add_argument("--script", metavar="FILE", help="gives the batches, where a receipt has none of them")
    add_exact_digits(command)


def _dispute(options: argparse.Namespace) -> int:
    if not 0 < options.timeout <= _LONGEST:
        raise ReproError(f"expected a timeout above 0 s and of at most {_LONGEST:,} s, got {options.timeout:g}")
    allow_exact_digits(options.exact_digits, options.script or (options.terms and Path(options.terms).is_file()))
    if options.serve is not None:
        if options.parties or options.listen is None:
            raise ReproError("expected repro dispute --serve RECEIPT --listen ADDRESS")
        return _serve(options)
    if len(options.parties) != 2 or options.listen is not None:
        raise ReproError("expected two receipts or addresses (see repro dispute --help)")
    return _settle(options)


def _settle(options: argparse.Namespace) -> int:
    from ..dispute import settle

    terms = _terms(options) if options.terms else None
    published = (_published(options.receipt_a), _published(options.receipt_b))
    channels = [_channel(party, options) for party in options.parties]
    verdict = settle(channels[0], channels[1], terms=terms, timeout=options.timeout, published=published)
    if options.evidence and verdict.evidence is not None:
        verdict.evidence.save(options.evidence)
    if options.json:
        tell(json.dumps(verdict.report()))
    else:
        tell(*verdict.lines())
    if verdict.outcome == "agreement":
        return 0
    return 1 if verdict.wrong else 3


def _serve(options: argparse.Namespace) -> int:
    from ..dispute import Prover, serve_files, serve_socket
    from ..dispute.addresses import listen, parts

    prover = Prover(_run(options.serve, options))
    kind, place = parts(options.listen)
    if kind == "files":
        folder = Path(place)
        if not folder.is_dir():
            raise ReproError(f"{place}: expected a folder")
        answered = serve_files(prover, folder, _IDLE)
    else:
        with listen(options.listen) as listener:
            tell(f"listening on {options.listen}", stream=sys.stderr)
            answered = serve_socket(prover, listener)
    tell(json.dumps({"answered": answered}) if options.json else f"answered {answered} questions")
    return 0


def _run(receipt: str, options: argparse.Namespace) -> ReceiptRun:
    from ..dispute import ReceiptRun
    from ..receipts.receipt import Receipt
    from ..receipts.script_inputs import ScriptBatches, ScriptInputs

    opened = Receipt(receipt)
    inputs = ScriptInputs(opened, ScriptBatches(options.script, options.exact_digits)) if options.script else None
    return ReceiptRun(opened, options.target, options.threads, inputs)


def _channel(party: str, options: argparse.Namespace) -> Channel:
    from ..dispute import LocalChannel, Prover
    from ..dispute.addresses import connect, is_address

    if is_address(party):
        return connect(party, options.timeout)
    return LocalChannel(Prover(_run(party, options)))


def _terms(options: argparse.Namespace) -> Terms:
    from ..dispute import terms_of_receipt, terms_of_script
    from ..receipts.receipt import Receipt

    if Path(options.terms).is_dir():
        return terms_of_receipt(Receipt(options.terms))
    return terms_of_script(options.terms, options.exact_digits)


def _published(path: str | None) -> Published | None:
    from ..dispute import Published
    from ..receipts.receipt import Receipt

    if path is None:
        return None
    receipt = Receipt(path)
    steps = receipt.log.steps
    link0 = receipt.header.first_link()
    return Published(link0, steps, receipt.log[steps].chain if steps else link0)
