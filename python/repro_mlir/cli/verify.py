# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro verify: checks a receipt by running its steps again, or by computing its answer again."""

from __future__ import annotations

import argparse
import json
import random
import re
import secrets
import time
from collections.abc import Sequence
from typing import Any

from repro_mlir.base.command_line import natural
from repro_mlir.base.compiler import require_compiler
from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.base.files import canonical_json
from repro_mlir.base.printing import count_of, foreign, tell
from repro_mlir.cli.file_kinds import ANSWER, RECEIPT, expect
from repro_mlir.cli.options import (
    Commands,
    add_command,
    add_numerics,
    add_public_key,
    needed_packages,
    needs_compiler,
    numerics_of,
)
from repro_mlir.cli.script_inputs import script_inputs
from repro_mlir.cli.target import add_target
from repro_mlir.cli.wrong_receipt import tell_wrong

_NOTES = """examples:
  repro verify digits.receipt
  repro verify digits.receipt --steps sample:5
  repro verify digits.receipt --steps sample:5 --seed 20911
  repro verify digits.receipt --script examples/digits_cnn.py
  repro verify answer.json --model model

The sample of sample:N is drawn from a seed, which the output states: --seed repeats the sample. Without --seed, the
seed is random. If the author of the receipt can foresee the seed, the author can foresee the sample, too.

exit status:
  0    right  the receipt is consistent, and the chosen steps, or the model, reproduce its values; what was not
              checked is listed
  1    wrong  something contradicts the receipt; the step and the tensor or file, or the token, is named
  2           no answer: not a receipt, one that has not ended (without --unfinished), without steps or of another
              version, one that cannot be run here, or this program failed
  130         interrupted
"""


_OPEN = "what the prompt's tokens say, and who asked and who answered"
"""Facts that no verification of an answer checks."""

_MOST_RANGES = 16
"""The maximum number of ranges of steps in a line of the output."""


def register(commands: Commands) -> None:
    """Adds the parser of `repro verify`."""
    command = add_command(commands, "verify", _verify, "check a receipt by running its steps again")
    command.epilog = _NOTES
    command.add_argument(
        "receipt",
        metavar="RECEIPT",
        help="a directory written by repro train --receipt, or a file with an answer of repro serve"
        + needs_compiler(of="answers"),
    )
    command.add_argument(
        "--model", metavar="DIR", help="for an answer: the directory of the model that gave it" + needs_compiler()
    )
    command.add_argument(
        "--programs",
        metavar="OUT",
        help="for an answer: write the model's programs and list of weights to a new folder" + needs_compiler(),
    )
    add_target(command)
    command.add_argument(
        "--steps",
        default="all",
        metavar="S",
        help="the steps to check, from 1: all, sample:N, A-B, A, or a list such as 3,5-7 (all)",
    )
    command.add_argument(
        "--microbatches",
        metavar="M",
        help="of each chosen step that commits to its microbatches, run only these, from 0: all, sample:N, A-B, A, or "
        "a list such as 3,5-7" + needs_compiler(),
    )
    command.add_argument(
        "--seed",
        type=natural,
        metavar="N",
        help="draw the sample from this seed, to repeat a verification (random)",
    )
    command.add_argument(
        "--script", metavar="FILE", help="also compare program, batches and rates with this script's" + needs_compiler()
    )
    add_numerics(command)
    add_public_key(command)
    command.add_argument("--chain", type=_link, metavar="HEX", help="require this link of the last step")
    command.add_argument("--no-changes", action="store_true", help="accept no change of the state by the user")
    command.add_argument("--unfinished", action="store_true", help="accept a receipt of a run that has not ended")


def _link(text: str) -> bytes:
    if not re.fullmatch("[0-9a-fA-F]{64}", text):
        raise argparse.ArgumentTypeError(f"expected 64 hexadecimal digits, got {text!r}")
    return bytes.fromhex(text)


def _verify(options: argparse.Namespace) -> int:
    from repro_mlir.verification.executors import check_runs
    from repro_mlir.verification.receipts.choice import ranges_of
    from repro_mlir.verification.receipts.receipt import Receipt
    from repro_mlir.verification.receipts.script_inputs import allow_numerics
    from repro_mlir.verification.receipts.signing import read_public_key
    from repro_mlir.verification.receipts.verification import verify

    if options.model is not None:
        require_compiler("--model")
        return _verify_answer(options)
    if options.programs is not None:
        raise ReproError("--programs: expected --model DIR and the receipt of an answer")
    allow_numerics(options.script, **numerics_of(options))
    if expect(options.receipt, RECEIPT, ANSWER) is ANSWER:
        raise ReproError(f"{options.receipt}: expected --model DIR with the receipt of an answer")
    is_sample = any(str(choice).startswith("sample:") for choice in (options.steps, options.microbatches))
    if options.seed is not None and not is_sample:
        raise ReproError("--seed: expected --steps sample:N or --microbatches sample:N, which draw from the seed")
    # A seed below 2^53 is exact in every reader of JSON.
    seed = secrets.randbits(53) if options.seed is None else options.seed
    check_runs(options.target)
    receipt = Receipt(options.receipt)
    key = read_public_key(options.key) if options.key else None
    start = time.perf_counter()
    programs = [each.identity for each in receipt.header.programs]
    report = {"receipt": options.receipt, "programs": programs, "target": options.target}
    if is_sample:
        report["seed"] = seed
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
            inputs=script_inputs(receipt, options),
            draw=random.Random(seed),
            microbatches=options.microbatches,
        )
    except ReceiptWrong as wrong:
        return tell_wrong(report, wrong, options.json)
    chosen, run = ranges_of(verified.chosen), ranges_of(verified.executed)
    report |= {
        "right": True,
        "steps": verified.steps,
        "changes": verified.changes,
        "chosen": chosen,
        "executed": run,
        "verified_steps": len(verified.chosen) - verified.in_part,
        "steps_verified_in_part": verified.in_part,
        "executed_steps": len(verified.executed),
        "executed_microbatches": verified.microbatches,
        "initial": receipt.header.initial,
        "chain": verified.chain,
        "state_hash": verified.state_hash,
        "state_claimed": verified.state_claimed,
        "signed_by": verified.signed_by,
        "sealed": verified.sealed,
        "not_checked": list(verified.not_checked),
        "seconds": round(time.perf_counter() - start, 3),
    }
    if options.json:
        tell(json.dumps(report))
        return 0
    told = f"{len(verified.chosen):,} of {count_of(verified.steps, 'step')}, {len(verified.executed):,} run"
    if options.microbatches is not None:
        told = f"{count_of(verified.microbatches, 'microbatch', 'microbatches')} of {told}"
    tell(f"right    {told} on {options.target}, {count_of(verified.changes, 'change')} of the state")
    if options.steps != "all" or options.microbatches is not None:
        drawn = _drawn(options.steps, len(verified.chosen))
        tell(f"chosen   {_shortened(chosen)}{drawn}", f"run      {_shortened(run)}")
    if is_sample:
        tell(f"seed     {seed}: --seed repeats the sample")
    for i, identity in enumerate(programs):
        tell(f"{'program' if i == 0 else '':8} {identity}")
    tell(f"initial  {receipt.header.initial}", f"chain    {verified.chain}")
    if verified.state_hash is not None:
        claimed = "" if verified.state_claimed is None else f" (claimed: {verified.state_claimed})"
        tell(f"state    {verified.state_hash}{claimed}")
    tell(f"signed   {'by ' + verified.signed_by if verified.signed_by else 'no'}")
    for i, line in enumerate(verified.not_checked):
        tell(f"{'open' if i == 0 else '':8} {line}")
    return 0


def _drawn(choice: str, count: int) -> str:
    """Returns a remark about a sample for which the receipt has not enough steps; an empty text for other choices."""
    _, is_sample, number = choice.partition("sample:")
    return " (all: there are no more)" if is_sample and int(number) > count else ""


def _shortened(ranges: Sequence[str]) -> str:
    more = f" and more ({count_of(len(ranges), 'range')}, which --json lists)" if len(ranges) > _MOST_RANGES else ""
    return f"{', '.join(ranges[:_MOST_RANGES]) or 'none'}{more}"


_OF_STEPS = {
    "steps": "all",
    "microbatches": None,
    "seed": None,
    "script": None,
    "exact_digits": None,
    "precision": None,
    "key": None,
    "chain": None,
    "no_changes": False,
    "unfinished": False,
}
"""Options that only apply to receipts of training runs, with their defaults."""


def _verify_answer(options: argparse.Namespace) -> int:
    from repro_mlir.base.files.json_text import parse
    from repro_mlir.base.files.regular import read_regular
    from repro_mlir.execute.executable import check_runs
    from repro_mlir.generation.generator import Generator
    from repro_mlir.generation.identity import programs_of
    from repro_mlir.serving.verification import check_itself, check_model, find_receipt, recompute

    wrong = [f"--{name.replace('_', '-')}" for name, value in _OF_STEPS.items() if getattr(options, name) != value]
    if wrong:
        raise ReproError(f"{', '.join(wrong)}: only for receipts of training runs, which are verified without --model")
    expect(options.receipt, ANSWER)
    check_runs(options.target)
    data = read_regular(options.receipt, canonical_json.LIMIT, follow=True)
    receipt, said = find_receipt(parse(data, options.receipt), options.receipt)
    start = time.perf_counter()
    report: dict[str, Any] = {"receipt": options.receipt, "target": options.target, "hash": receipt["hash"]}
    try:
        undecided = check_itself(receipt, said)
        with needed_packages():
            from repro_mlir.integrations.model_folder import ModelFolder, versions

        folder = ModelFolder(options.model)
        folder.check_capacity(receipt["capacity"])
        asked = receipt["capacity"], receipt.get("cache")
        programs = programs_of(folder.model, *asked)
        if options.programs is not None:
            programs.write(options.programs)
        check_model(receipt, programs.identity, versions())
        generator = Generator(folder.model, asked[0], cache=asked[1], target=options.target, threads=options.threads)
        transcript = recompute(receipt, generator, folder.tokenizer, options.receipt)
    except ReceiptWrong as error:
        return tell_wrong(report, error, options.json)
    left_open, own = [_OPEN, f"the fields {', '.join(undecided)}"], sorted(folder.tokenizer.stop_tokens)
    if receipt["stop_tokens"] != own:
        left_open.append(f"whether an answer ends after {receipt['stop_tokens']}, where the directory says {own}")
    report |= {
        "right": True,
        "weights": receipt["weights"],
        "program": receipt["program"],
        "prompt_tokens": len(receipt["prompt"]),
        "tokens": len(transcript.tokens),
        "text": transcript.text,
        "not_checked": left_open,
        "seconds": round(time.perf_counter() - start, 3),
    }
    if options.json:
        tell(json.dumps(report))
        return 0
    tokens = count_of(len(transcript.tokens), "token")
    told = f"{tokens} after a prompt of {len(receipt['prompt'])}, computed on {options.target}"
    tell(f"right    {told}", f"weights  {receipt['weights']}", f"program  {receipt['program']}")
    tell(f"hash     {receipt['hash']}", f"text     {foreign(transcript.text)}")
    for i, line in enumerate(left_open):
        tell(f"{'open' if i == 0 else '':8} {foreign(line)}")
    return 0
