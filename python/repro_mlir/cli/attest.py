# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro attest: exports a finished receipt in the formats that other tools read."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from repro_mlir.base.command_line import positive
from repro_mlir.base.compiler import require_compiler
from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.base.files.storage import check_can_write, write_file
from repro_mlir.base.printing import count_of, tell
from repro_mlir.cli.file_kinds import RECEIPT, expect
from repro_mlir.cli.options import Commands, add_command, add_public_key, needs_compiler
from repro_mlir.cli.wrong_receipt import tell_wrong

if TYPE_CHECKING:
    from repro_mlir.verification.exports.declared import Declared
    from repro_mlir.verification.exports.facts import Facts
    from repro_mlir.verification.exports.page import Prediction

_EPOCH = "SOURCE_DATE_EPOCH"

_NOTES = """formats:
  in-toto    the files of the receipt as an in-toto statement, signed (DSSE)
  slsa       the provenance of the last state by SLSA 1.0, signed (DSSE)
  oms        the signature of the receipt with its checkpoints by Open Model Signing 1.0
  spdx       a bill of materials in SPDX 3.0.1 (JSON-LD)
  cyclonedx  a bill of materials in CycloneDX 1.6 (JSON)
  page       the documentation of the model as one page of HTML

docs/verification/exports.md lists the source of every field. An export repeats the statements of a receipt, after all
checks of repro verify that run no step: run repro verify, too. Equal receipts and options give equal bytes; the only
time in an export is that of the environment variable SOURCE_DATE_EPOCH.

exit status:
  0  the export was written
  1  nothing was written: the receipt is wrong, and repro verify says so, too
  2  nothing was written for another reason, which the message states

examples:
  repro attest run.receipt --sign key.pem -o run.intoto.json
  repro attest run.receipt --format slsa --sign key.pem -o run.provenance.json
  repro attest run.receipt --format oms --sign ec-key.pem -o run.sig
  repro attest run.receipt --format cyclonedx --declare name=digits -o run.cdx.json
  repro attest run.receipt --format page --machine h100 -o run.html
"""


@dataclass(frozen=True)
class _Format:
    """A format of `repro attest`.

    Attributes:
      write: returns the bytes of the file.
      is_signed: whether the format contains a signature, and needs --sign.
      is_described: whether the format contains the declarations of --declare.
    """

    write: Callable[[Facts, argparse.Namespace, Declared], bytes]
    is_signed: bool
    is_described: bool


def register(commands: Commands) -> None:
    """Adds the parser of `repro attest`."""
    command = add_command(
        commands,
        "attest",
        _attest,
        "export a finished receipt for auditors' tools (SLSA, SPDX)",
        "Exports a finished receipt in a format that other tools read.",
    )
    command.epilog = _NOTES
    command.add_argument("receipt", metavar="RECEIPT", help="a directory written by repro train --receipt")
    command.add_argument("--format", choices=[*_FORMATS], default="in-toto", help="the format (in-toto)")
    command.add_argument(
        "--sign",
        metavar="KEY",
        help="the private key (PEM) that signs: ed25519 for in-toto and slsa, P-256, P-384 or P-521 for oms",
    )
    command.add_argument(
        "--declare",
        action="append",
        default=[],
        type=_declaration,
        metavar="NAME=TEXT",
        help="a statement of the author, marked as such, in spdx, cyclonedx and page: name, supplier, location, "
        "license or released; may be given again",
    )
    command.add_argument(
        "--machine",
        metavar="M",
        help="with page: predict time and energy for this machine, a .json file or a name" + needs_compiler(),
    )
    command.add_argument("--threads", type=positive, metavar="N", help="with --machine: threads of a step (1)")
    add_public_key(command)
    command.add_argument("-o", "--output", metavar="FILE", required=True, help="the file to write")


def _declaration(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found:
        raise argparse.ArgumentTypeError(f"expected NAME=TEXT, got {text!r}")
    return name, value


def _attest(options: argparse.Namespace) -> int:
    from repro_mlir.verification.exports.declared import declared_of
    from repro_mlir.verification.exports.facts import facts_of
    from repro_mlir.verification.receipts.receipt import Receipt
    from repro_mlir.verification.receipts.signing import read_public_key

    expect(options.receipt, RECEIPT)
    _check(options)
    declared = declared_of(options.declare)
    key = read_public_key(options.key) if options.key else None
    try:
        facts = facts_of(Receipt(options.receipt), key)
    except ReceiptWrong as wrong:
        return tell_wrong({"receipt": options.receipt}, wrong, options.json)
    data = _FORMATS[options.format].write(facts, options, declared)
    write_file(options.output, data)
    if options.json:
        report = {
            "receipt": options.receipt,
            "format": options.format,
            "output": options.output,
            "bytes": len(data),
            "receipt_signed_by": facts.signed_by,
            "changes": len(facts.changed),
        }
        tell(json.dumps(report))
        return 0
    tell(f"wrote    {options.output}, {len(data):,} bytes")
    tell(f"receipt  {'signed by ' + facts.signed_by if facts.signed_by else 'not signed'}")
    if facts.changed:
        tell(f"changes  {count_of(len(facts.changed), 'change')} of the state by the user")
    tell("         as the receipt states, not verified: run repro verify")
    return 0


def _check(options: argparse.Namespace) -> None:
    """Raises ReproError for options that the format does not take, and for an output that cannot be written."""
    name, chosen = options.format, _FORMATS[options.format]
    if chosen.is_signed and options.sign is None:
        raise ReproError(f"--format {name}: expected --sign KEY, the private key that signs")
    if not chosen.is_signed and options.sign is not None:
        signed = " or ".join(each for each, value in _FORMATS.items() if value.is_signed)
        raise ReproError(f"--sign: expected --format {signed}, as {name} contains no signature")
    if options.declare and not chosen.is_described:
        described = " or ".join(each for each, value in _FORMATS.items() if value.is_described)
        raise ReproError(f"--declare: expected --format {described}, got {name}")
    if options.machine is not None and name != "page":
        raise ReproError(f"--machine: expected --format page, got {name}")
    if options.machine is not None:
        require_compiler("--machine")
    if options.threads is not None and options.machine is None:
        raise ReproError("--threads: expected --machine, whose time and energy are predicted")
    check_can_write(options.output)


def _in_toto(facts: Facts, options: argparse.Namespace, declared: Declared) -> bytes:
    from repro_mlir.verification.exports.dsse import envelope
    from repro_mlir.verification.exports.statement import receipt_statement
    from repro_mlir.verification.receipts.signing import PrivateKey

    return envelope(receipt_statement(facts), PrivateKey(options.sign))


def _slsa(facts: Facts, options: argparse.Namespace, declared: Declared) -> bytes:
    from repro_mlir.verification.exports.dsse import envelope
    from repro_mlir.verification.exports.provenance import provenance
    from repro_mlir.verification.receipts.signing import PrivateKey

    key = PrivateKey(options.sign)
    return envelope(provenance(facts, key.public), key)


def _oms(facts: Facts, options: argparse.Namespace, declared: Declared) -> bytes:
    from repro_mlir.verification.exports.model_signature import EllipticKey, model_bundle

    return model_bundle(facts, EllipticKey(options.sign))


def _spdx(facts: Facts, options: argparse.Namespace, declared: Declared) -> bytes:
    from repro_mlir.verification.exports.spdx import spdx_document

    created = _created()
    if created is None:
        raise ReproError(
            f"SPDX requires the time of the document, which a receipt does not contain: set {_EPOCH} to seconds since "
            "1970, such as date +%s prints"
        )
    return spdx_document(facts, declared, created)


def _cyclonedx(facts: Facts, options: argparse.Namespace, declared: Declared) -> bytes:
    from repro_mlir.verification.exports.cyclonedx import cyclonedx_document

    return cyclonedx_document(facts, declared, _created())


def _page(facts: Facts, options: argparse.Namespace, declared: Declared) -> bytes:
    from repro_mlir.verification.exports.page import model_page

    prediction = None if options.machine is None else _predicted(facts, options.machine, options.threads or 1)
    return model_page(facts, declared, prediction, _created()).encode()


_FORMATS = {
    "in-toto": _Format(_in_toto, is_signed=True, is_described=False),
    "slsa": _Format(_slsa, is_signed=True, is_described=False),
    "oms": _Format(_oms, is_signed=True, is_described=False),
    "spdx": _Format(_spdx, is_signed=False, is_described=True),
    "cyclonedx": _Format(_cyclonedx, is_signed=False, is_described=True),
    "page": _Format(_page, is_signed=False, is_described=True),
}


def _created() -> str | None:
    """Returns the time of SOURCE_DATE_EPOCH in UTC; None if the variable is not set. Raises ReproError for a value that
    is not a time before the year 10000."""
    from repro_mlir.verification.exports.declared import TIME

    text = os.environ.get(_EPOCH)
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 12 or int(text) >= 253402300800:
        raise ReproError(f"{_EPOCH}: expected seconds since 1970 before the year 10000, got {text[:40]!r}")
    return time.strftime(TIME, time.gmtime(int(text)))


def _predicted(facts: Facts, name: str, threads: int) -> Prediction:
    """Returns the prediction of the time and the energy of all steps on a machine. Needs the compiler."""
    from repro_mlir.program import Program
    from repro_mlir.roofline import CpuMachine, read_machine
    from repro_mlir.roofline.prediction import predict, read_code, threads_of
    from repro_mlir.verification.exports.page import Prediction

    machine = read_machine(name)
    (count,) = threads_of([machine], threads)
    seconds = joules = 0.0
    for i, steps in enumerate(facts.steps_of):
        program = facts.receipt.program_at(i)
        if not isinstance(program, Program):
            raise ReproError("--machine: expected steps without microbatches, whose time can be predicted")
        step = predict(read_code(program, machine), machine, count)
        seconds += step.seconds * steps
        joules += (step.joules or 0.0) * steps
    shown = count if isinstance(machine, CpuMachine) else None
    return Prediction(machine.name, shown, seconds, joules if machine.watts else None)
