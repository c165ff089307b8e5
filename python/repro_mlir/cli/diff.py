# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro diff: shows where two runs first differ."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from repro_mlir.base.command_line import Status, positive
from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.storage import write_file
from repro_mlir.base.printing import tell
from repro_mlir.cli.file_kinds import RECEIPT, SCRIPT, expect
from repro_mlir.cli.options import Commands, add_command, add_no_cache, add_numerics, add_threads, numerics_of

if TYPE_CHECKING:
    from repro_mlir.verification.difference.report import Difference

_NOTES = """examples:
  repro diff RECEIPT RECEIPT
  repro diff SCRIPT --targets cpu:x86-64-v3,reference --steps 100
  repro diff SCRIPT --targets eager,cpu --ulps 1000 --html difference.html

exit status:
  0  no difference
  1  a difference
  2  no answer: the runs cannot be compared, or cannot be run here, or this program failed

Receipts are compared without checking them: see repro verify.
"""


def register(commands: Commands) -> None:
    """Adds the parser of `repro diff`."""
    command = add_command(
        commands, "diff", _diff, "show where two runs first differ: step, operator, tensor and element"
    )
    command.epilog = _NOTES
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.add_argument("runs", metavar="RUN", nargs="+", help="two receipts, or one script")
    command.add_argument(
        "--targets", metavar="T,T", help="with a script: the two targets to compare; eager is PyTorch itself"
    )
    command.add_argument("--steps", type=positive, default=1, metavar="N", help="steps of a script, at most (1)")
    command.add_argument(
        "--ulps", type=int, default=0, metavar="N", help="accept elements that differ by at most N ulps (0)"
    )
    add_threads(command)
    add_no_cache(command)
    add_numerics(command)
    command.add_argument("--html", metavar="FILE", help="also write a page with graph and histogram")


def _find(options: argparse.Namespace, targets: list[str] | None) -> Difference | None:
    if len(options.runs) == 2:
        from repro_mlir.verification.difference.receipts import diff_receipts
        from repro_mlir.verification.receipts.script_inputs import allow_numerics

        # Receipts are compared without the frontends, which repro-mlir-verify does not contain.
        allow_numerics(None, **numerics_of(options))
        first, second = options.runs
        return diff_receipts(first, second, targets, options.threads)
    from repro_mlir.script_runs.difference import diff

    return diff(
        *options.runs,
        targets=targets,
        steps=options.steps,
        ulps=options.ulps,
        threads=options.threads,
        **numerics_of(options),
    )


def _diff(options: argparse.Namespace) -> int:
    from repro_mlir.verification.difference.page import page

    if len(options.runs) > 2:
        raise ReproError(f"expected two receipts or one script, got {len(options.runs)} names")
    for run in options.runs:
        expect(run, RECEIPT if len(options.runs) == 2 else SCRIPT)
    if options.ulps < 0:
        raise ReproError(f"expected --ulps of at least 0, got {options.ulps}")
    targets = options.targets.split(",") if options.targets else None
    found = _find(options, targets)
    if found is None:
        tell(json.dumps({"equal": True}) if options.json else "no difference")
        return 0
    if options.html:
        write_file(options.html, page(found).encode())
    tell(*([json.dumps(found.report())] if options.json else found.lines()))
    return Status.WRONG
