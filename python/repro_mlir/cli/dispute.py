# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro dispute: determines which of two parties is wrong, and where; or runs a server for one party, which answers a
referee's questions."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from repro_mlir.base.command_line import Status, positive
from repro_mlir.base.compiler import require_compiler
from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import tell
from repro_mlir.cli.file_kinds import RECEIPT, expect
from repro_mlir.cli.options import Commands, add_command, add_numerics, needs_compiler, numerics_of
from repro_mlir.cli.script_inputs import script_inputs
from repro_mlir.cli.target import add_target

if TYPE_CHECKING:
    from repro_mlir.verification.dispute import Channel, Published, ReceiptRun, Terms

_NOTES = """A and B are receipts, or addresses of provers:
  tcp:HOST:PORT  unix:PATH  files:FOLDER
If the last links of the receipts differ, their runs are repeated here with --target, as far as needed. The files of
the receipts are not checked: see repro verify.

To start a prover:  repro dispute --serve RECEIPT --listen ADDRESS [--token FILE]
A prover ends after the dispute.

A token is a text of 16 to 1024 bytes that a prover and its referee share. Each prover has its own token:
  openssl rand -hex 32 > token; chmod 600 token
Without --token, --token-a and --token-b, tokens are read from the environment variables
  REPRO_DISPUTE_TOKEN, REPRO_DISPUTE_TOKEN_A, REPRO_DISPUTE_TOKEN_B

exit status:
  0  the runs agree
  1  the runs differ, and the wrong party is named
  2  no verdict: no receipts, no prover, or a run that cannot be repeated here
  3  the runs differ, and nothing shows which party is wrong (see --terms)
"""

_TOKEN = "REPRO_DISPUTE_TOKEN"


def register(commands: Commands) -> None:
    """Adds the parser of `repro dispute`."""
    command = add_command(
        commands,
        "dispute",
        _dispute,
        "find which of two runs is wrong, and at which operator",
        "Finds the first operator on which two runs differ, and which run is wrong.",
    )
    command.epilog = _NOTES
    command.add_argument("parties", metavar="A B", nargs="*", help="receipts or addresses of provers")
    add_target(command)
    command.add_argument(
        "--terms",
        metavar="TERMS",
        help="what the parties agreed on: a script, or a receipt of the same data" + needs_compiler(of="scripts"),
    )
    command.add_argument("--receipt-a", metavar="DIR", help="the receipt that A published, if A is an address")
    command.add_argument("--receipt-b", metavar="DIR", help="the receipt that B published, if B is an address")
    command.add_argument("--steps", type=positive, metavar="N", help="the number of steps that the parties agreed on")
    command.add_argument("--timeout", type=float, default=600.0, metavar="S", help="seconds for each answer (600)")
    command.add_argument(
        "--total", type=float, default=3600.0, metavar="S", help="seconds for all answers of a party (3600)"
    )
    command.add_argument("--token-a", metavar="FILE", help="the token of prover A")
    command.add_argument("--token-b", metavar="FILE", help="the token of prover B")
    command.add_argument("--evidence", metavar="DIR", help="write the operator and its inputs, for repro run")
    command.add_argument("--serve", metavar="RECEIPT", help="answer a referee's questions about this receipt")
    command.add_argument(
        "--listen", metavar="ADDRESS", help="with --serve: the address, tcp:HOST:PORT, unix:PATH or files:FOLDER"
    )
    command.add_argument("--token", metavar="FILE", help="with --serve: the token that the referee has, too")
    command.add_argument(
        "--script",
        metavar="FILE",
        help="the script that yields the batches, if a receipt does not store them" + needs_compiler(),
    )
    add_numerics(command)


def _dispute(options: argparse.Namespace) -> int:
    from repro_mlir.verification.dispute.quotas import LONGEST_SECONDS
    from repro_mlir.verification.receipts.script_inputs import allow_numerics

    for name in ("timeout", "total"):
        seconds = getattr(options, name)
        if not 0 < seconds <= LONGEST_SECONDS:
            raise ReproError(f"expected --{name} above 0 and at most {LONGEST_SECONDS:,.0f} seconds, got {seconds:g}")
    allow_numerics(options.script or (options.terms and Path(options.terms).is_file()), **numerics_of(options))
    if options.serve is not None:
        if options.parties or options.listen is None:
            raise ReproError("expected --serve RECEIPT with --listen ADDRESS, and without A and B")
        return _serve(options)
    if len(options.parties) != 2 or options.listen is not None or options.token is not None:
        raise ReproError("expected two receipts or addresses, without --listen and --token (see repro dispute --help)")
    return _settle(options)


def _settle(options: argparse.Namespace) -> int:
    from repro_mlir.verification.dispute import settle

    published = (_published(options.receipt_a), _published(options.receipt_b))
    tokens = (options.token_a, f"{_TOKEN}_A"), (options.token_b, f"{_TOKEN}_B")
    channels = [_channel(party, options, *token) for party, token in zip(options.parties, tokens, strict=True)]
    verdict = settle(
        channels[0],
        channels[1],
        terms=_terms(options),
        timeout=options.timeout,
        total=options.total,
        published=published,
    )
    if options.evidence and verdict.evidence is not None:
        verdict.evidence.save(options.evidence)
    if options.json:
        tell(json.dumps(verdict.report() | {"evidence": options.evidence if verdict.evidence else None}))
    else:
        tell(*verdict.lines())
        if options.evidence and verdict.evidence is None:
            tell("evidence none: no operator is disputed, so nothing was written")
    if verdict.outcome == "agreement":
        return 0
    return Status.WRONG if verdict.wrong else Status.UNDECIDED


def _serve(options: argparse.Namespace) -> int:
    from repro_mlir.verification.dispute import serve_files, serve_socket
    from repro_mlir.verification.dispute.addresses import listen, parts

    run = _run(options.serve, options)
    token = _token(options.listen, options.token, _TOKEN)
    kind, place = parts(options.listen)
    if kind == "files":
        tell(f"listening on {options.listen}", stream=sys.stderr)
        answered = serve_files(run, Path(place), options.total)
    else:
        with listen(options.listen, token) as listener:
            tell(f"listening on {options.listen}", stream=sys.stderr)
            answered = serve_socket(run, listener, token, options.total)
    tell(json.dumps({"answered": answered}) if options.json else f"answered {answered} questions")
    return 0


def _run(receipt: str, options: argparse.Namespace) -> ReceiptRun:
    from repro_mlir.verification.dispute import ReceiptRun
    from repro_mlir.verification.executors import check_runs
    from repro_mlir.verification.receipts.receipt import Receipt

    expect(receipt, RECEIPT)
    check_runs(options.target)
    opened = Receipt(receipt)
    return ReceiptRun(opened, options.target, options.threads, script_inputs(opened, options))


def _channel(party: str, options: argparse.Namespace, token_file: str | None, variable: str) -> Channel:
    from repro_mlir.verification.dispute import LocalChannel, Prover
    from repro_mlir.verification.dispute.addresses import connect, is_address

    token = _token(party, token_file, variable)
    if is_address(party):
        return connect(party, options.timeout, token)
    return LocalChannel(Prover(_run(party, options)))


def _token(address: str, file: str | None, variable: str) -> bytes:
    """Returns the token for a network address: from `file`, else from the environment variable `variable`, else
    NO_TOKEN. For any other address, returns NO_TOKEN, but raises ReproError if `file` is given."""
    from repro_mlir.verification.dispute.tokens import NO_TOKEN, read_token, token_of_environment

    if not address.startswith(("tcp:", "unix:")):
        if file is not None:
            raise ReproError(f"expected tcp:HOST:PORT or unix:PATH with a token, got {address}")
        return NO_TOKEN
    return read_token(file) if file is not None else token_of_environment(variable) or NO_TOKEN


def _terms(options: argparse.Namespace) -> Terms | None:
    from repro_mlir.verification.dispute import Terms, terms_of_receipt, terms_of_script
    from repro_mlir.verification.receipts.receipt import Receipt

    if options.terms is None:
        return None if options.steps is None else Terms({}, steps=options.steps)
    if not Path(options.terms).exists():
        raise ReproError(f"{options.terms}: expected a script or a receipt, but there is no such file or folder")
    if Path(options.terms).is_dir():
        terms = terms_of_receipt(Receipt(options.terms))
    else:
        require_compiler("--terms with a script")
        from repro_mlir.script_runs.batches import ScriptBatches

        source = ScriptBatches(options.terms, **numerics_of(options))
        terms = terms_of_script(source, options.total)
    return replace(terms, steps=options.steps)


def _published(path: str | None) -> Published | None:
    from repro_mlir.verification.dispute import Published
    from repro_mlir.verification.receipts.receipt import Receipt

    if path is None:
        return None
    receipt = Receipt(path)
    records = receipt.log.records
    link0 = receipt.header.first_link()
    return Published(link0, records, receipt.log[records].chain if records else link0)
