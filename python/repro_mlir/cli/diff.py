# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro diff: shows where two runs, dumps of tensors or checkpoints first differ."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from repro_mlir.base.command_line import Status, positive
from repro_mlir.base.compiler import require_compiler
from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.storage import check_can_write, write_file
from repro_mlir.base.printing import count_of, tell
from repro_mlir.base.progress import Progress
from repro_mlir.cli.file_kinds import RECEIPT, SCRIPT, expect, file_kind_of
from repro_mlir.cli.options import (
    Commands,
    add_command,
    add_no_cache,
    add_numerics,
    add_threads,
    needs_compiler,
    numerics_of,
)
from repro_mlir.cli.parsers import set_names
from repro_mlir.cli.target import target_names

if TYPE_CHECKING:
    from repro_mlir.verification.difference.report import Difference

_NOTES = """examples:
  repro diff RECEIPT RECEIPT
  repro diff SCRIPT --targets cpu:x86-64-v3,reference --steps 100
  repro diff SCRIPT --targets eager,cpu --ulps 1000 --html difference.html
  repro diff --dumps CHECKPOINT CHECKPOINT
  repro diff --dumps FOLDER FOLDER --pattern 'step{step}/{name}.npy' --html difference.html

exit status:
  0  no difference
  1  a difference
  2  no answer: the runs cannot be compared, or cannot be run here, or this program failed

Receipts are compared without checking their files: see repro verify. Dumps are safetensors, .npy, .npz and files of
torch.save from any program; no pickle is executed.
"""


def register(commands: Commands) -> None:
    """Adds the parser of `repro diff`."""
    command = add_command(
        commands,
        "diff",
        _diff,
        "show where two runs first differ",
        "Shows where two runs first differ: step, operator, tensor and element.",
    )
    command.epilog = _NOTES
    command.add_argument(
        "runs", metavar="RUN", nargs="+", help="two receipts, one script, or two dumps" + needs_compiler(of="scripts")
    )
    targets = command.add_argument(
        "--targets",
        metavar="T,T",
        help="with a script: the two targets to compare; eager is PyTorch itself" + needs_compiler(of="scripts"),
    )
    set_names(targets, lambda: ["eager", *target_names()], in_help=False, listed_by="repro targets")
    command.add_argument(
        "--steps", type=positive, metavar="N", help="steps of a script, at most (1)" + needs_compiler()
    )
    command.add_argument(
        "--ulps", type=int, default=0, metavar="N", help="accept elements that differ by at most N ulps (0)"
    )
    add_threads(command)
    add_no_cache(command)
    add_numerics(command)
    command.add_argument("--html", "--page", metavar="FILE", help="also write a page with graph and histogram")
    dumps = command.add_argument_group("dumps of tensors")
    dumps.add_argument("--dumps", action="store_true", help="compare two files or folders of tensors, bit for bit")
    dumps.add_argument(
        "--pattern",
        action="append",
        metavar="P",
        help="the files of the folders, such as step{step}/{name}.npy; given twice, one for each folder",
    )
    dumps.add_argument(
        "--manifest", metavar="FILE", help="a file in each folder that lists its tensors, if not manifest.jsonl"
    )
    dumps.add_argument("--equal-nans", action="store_true", help="NaNs are equal, whatever their bits")


def _diff(options: argparse.Namespace) -> int:
    if options.dumps:
        return _diff_dumps(options)
    if options.pattern or options.manifest or options.equal_nans:
        raise ReproError("expected --dumps with --pattern, --manifest and --equal-nans")
    return _diff_runs(options)


def _diff_dumps(options: argparse.Namespace) -> int:
    from repro_mlir.tensor_dumps.comparison import compare_sides
    from repro_mlir.tensor_dumps.listing import list_side
    from repro_mlir.tensor_dumps.page import page
    from repro_mlir.tensor_dumps.report import as_json, text_lines

    if len(options.runs) != 2:
        raise ReproError(f"--dumps: expected two files or folders, got {count_of(len(options.runs), 'path')}")
    others = ("targets", "steps", "ulps", "threads", "exact_digits", "precision")
    given = [f"--{name.replace('_', '-')}" for name in others if getattr(options, name)]
    if given:
        raise ReproError(
            f"--dumps: expected no options for runs, got {', '.join(given)}: all bits of dumps are compared"
        )
    patterns = options.pattern or [None]
    if len(patterns) > 2:
        raise ReproError(f"--pattern: expected one pattern, or one for each folder, got {len(patterns)}")
    if options.pattern and options.manifest:
        raise ReproError("expected --pattern or --manifest, got both")
    if options.html:
        check_can_write(options.html, ".html")
    first, second = (
        list_side(run, pattern, options.manifest)
        for run, pattern in zip(options.runs, (patterns[0], patterns[-1]), strict=True)
    )
    with Progress(len(first.entries.keys() & second.entries.keys()), "comparing") as progress:
        found = compare_sides(first, second, options.equal_nans, progress.advance)
    if options.html:
        write_file(options.html, page(found).encode())
    tell(*([json.dumps(as_json(found))] if options.json else text_lines(found)))
    return Status.RIGHT if found.is_equal else Status.WRONG


def _find(options: argparse.Namespace, targets: list[str] | None) -> Difference | None:
    if len(options.runs) == 2:
        from repro_mlir.verification.difference.receipts import diff_receipts
        from repro_mlir.verification.receipts.script_inputs import allow_numerics

        # Receipts are compared without the frontends, which repro-mlir-verify does not contain.
        allow_numerics(None, **numerics_of(options))
        first, second = options.runs
        return diff_receipts(first, second, targets, options.threads)
    require_compiler("a comparison of the targets of a script")
    from repro_mlir.script_runs.difference import diff

    return diff(
        *options.runs,
        targets=targets,
        steps=options.steps or 1,
        ulps=options.ulps,
        threads=options.threads,
        **numerics_of(options),
    )


def _notes(runs: list[str]) -> list[str]:
    """Returns what the comparison of equal receipts leaves open; nothing for the targets of a script."""
    if len(runs) != 2:
        return []
    from repro_mlir.verification.difference.receipts import uncompared

    return [uncompared(*runs)]


def _diff_runs(options: argparse.Namespace) -> int:
    from repro_mlir.verification.difference.page import page

    if len(options.runs) > 2:
        raise ReproError(f"expected two receipts or one script, got {count_of(len(options.runs), 'path')}")
    if len(options.runs) == 1 and file_kind_of(options.runs[0]) is RECEIPT:
        raise ReproError(
            f"{options.runs[0]}: expected two receipts or one Python script, got one receipt: name another"
        )
    for run in options.runs:
        expect(run, RECEIPT if len(options.runs) == 2 else SCRIPT)
    if options.ulps < 0:
        raise ReproError(f"expected --ulps of at least 0, got {options.ulps}")
    targets = options.targets.split(",") if options.targets else None
    if options.html:
        check_can_write(options.html, ".html")
    found = _find(options, targets)
    if found is None:
        notes = _notes(options.runs)
        if options.json:
            tell(json.dumps({"equal": True} | ({"note": notes[0]} if notes else {})))
        else:
            tell("no difference", *(f"note     {note}" for note in notes))
        return 0
    if options.html:
        write_file(options.html, page(found).encode())
    tell(*([json.dumps(found.report())] if options.json else found.lines()))
    return Status.WRONG
