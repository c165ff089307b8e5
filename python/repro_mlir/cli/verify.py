# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro verify: checks somebody's receipt by running its steps again."""

from __future__ import annotations

import argparse
import json
import random
import re
import time

from ..errors import ReceiptWrong
from ..frontends.torch.script import allow_exact_digits
from ..printing import tell
from .file_kinds import RECEIPT, expect
from .options import Commands, add_command, add_exact_digits, add_public_key
from .target import add_target

_STATUS = """exit status:
  0    right  the receipt agrees with itself, and the chosen steps give what it says; what was not checked is listed
  1    wrong  something contradicts it; the step and the tensor or file are named
  2           no answer: not a receipt, one that has not ended (without --unfinished), without steps or of another
              version, one that cannot be run here, or any failure of this program
  130         interrupted
"""


def register(commands: Commands) -> None:
    """Adds the parser of `repro verify`."""
    command = add_command(commands, "verify", _verify, "check a receipt by running its steps again")
    command.epilog = _STATUS
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.add_argument("receipt", metavar="RECEIPT", help="a directory written by repro train --receipt")
    add_target(command)
    command.add_argument("--steps", default="all", metavar="S", help="all, sample:N, A-B or A (all)")
    command.add_argument("--seed", type=int, metavar="N", help="draw the sample from this seed")
    command.add_argument("--script", metavar="FILE", help="also compare program, batches and rates with this script's")
    add_exact_digits(command)
    add_public_key(command)
    command.add_argument("--chain", type=_link, metavar="HEX", help="require this link of the last step")
    command.add_argument("--no-changes", action="store_true", help="accept no change of the state by the user")
    command.add_argument("--unfinished", action="store_true", help="accept a receipt of a run that has not ended")


def _link(text: str) -> bytes:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise argparse.ArgumentTypeError(f"expected 64 hexadecimal digits, got {text!r}")
    return bytes.fromhex(text)


def _verify(options: argparse.Namespace) -> int:
    from ..audit.receipts.receipt import Receipt
    from ..audit.receipts.script_inputs import ScriptBatches, ScriptInputs
    from ..audit.receipts.signing import read_public_key
    from ..audit.receipts.verification import verify

    allow_exact_digits(options.exact_digits, options.script)
    expect(options.receipt, RECEIPT)
    receipt = Receipt(options.receipt)
    key = read_public_key(options.key) if options.key else None
    start = time.perf_counter()
    programs = [each.identity for each in receipt.header.programs]
    report = {"receipt": options.receipt, "programs": programs, "target": options.target}
    try:
        verified = verify(
            receipt,
            options.steps,
            options.target,
            options.threads,
            unfinished=options.unfinished,
            changes=not options.no_changes,
            key=key,
            chain=options.chain,
            inputs=ScriptInputs(receipt, ScriptBatches(options.script, options.exact_digits))
            if options.script
            else None,
            draw=None if options.seed is None else random.Random(options.seed),
        )
    except ReceiptWrong as wrong:
        report |= {
            "right": False,
            "step": wrong.step,
            "place": wrong.place,
            "message": str(wrong),
            "expected": wrong.expected,
            "actual": wrong.actual,
        }
        if options.json:
            tell(json.dumps(report))
        else:
            tell(f"WRONG    {wrong}")
            if wrong.expected is not None:
                tell(f"receipt  {wrong.expected}")
                tell(f"found    {wrong.actual}")
        return 1
    report |= {
        "right": True,
        "steps": verified.steps,
        "changes": verified.changes,
        "verified_steps": len(verified.chosen),
        "executed_steps": len(verified.executed),
        "chain": verified.chain,
        "state_hash": verified.state_hash,
        "signed_by": verified.signed_by,
        "sealed": verified.sealed,
        "not_checked": list(verified.not_checked),
        "seconds": round(time.perf_counter() - start, 3),
    }
    if options.json:
        tell(json.dumps(report))
        return 0
    told = f"{len(verified.chosen)} of {verified.steps} steps, {len(verified.executed)} run on {options.target}"
    tell(f"right    {told}, {verified.changes} changes of the state")
    for i, identity in enumerate(programs):
        tell(f"{'program' if i == 0 else '':8} {identity}")
    tell(f"chain    {verified.chain}")
    if verified.state_hash is not None:
        tell(f"state    {verified.state_hash}")
    tell(f"signed   {'by ' + verified.signed_by if verified.signed_by else 'no'}")
    for i, line in enumerate(verified.not_checked):
        tell(f"{'open' if i == 0 else '':8} {line}")
    return 0
