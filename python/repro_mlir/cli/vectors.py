# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro vectors: writes conformance vectors, and compares a library with them."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING

from repro_mlir.base.command_line import Status
from repro_mlir.base.printing import tell
from repro_mlir.cli.options import Commands, add_command
from repro_mlir.cli.parsers import Help

if TYPE_CHECKING:
    from repro_mlir.conformance.score import GroupScore

_NOTES = """examples:
  repro vectors write -o vectors
  repro vectors check vectors --library ml_dtypes
  repro vectors check vectors --library my_library.py:compute --groups quantize/mxfp4
"""

_STATUS = """exit status:
  0  every case of every operation of the library is right
  1  a case is wrong, or the library failed
  2  no answer
"""


def register(commands: Commands) -> None:
    """Adds the parser of `repro vectors`."""
    summary = "write conformance vectors, and compare a library with them"
    group = commands.add_parser("vectors", help=summary, description=summary, epilog=_NOTES, formatter_class=Help)
    parts = group.add_subparsers(title="commands", required=True, metavar="COMMAND")
    command = add_command(parts, "write", _write, "write the vectors of this version to a folder")
    command.add_argument("-o", "--output", required=True, metavar="FOLDER", help="a new or empty folder")
    command = add_command(parts, "check", _check, "compare a library with the vectors in a folder")
    command.epilog = _STATUS
    command.add_argument("folder", metavar="FOLDER", help="a folder that `repro vectors write` wrote")
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--results",
        metavar="RESULTS",
        help="a folder with the library's outputs as raw little-endian elements, GROUP.OUTPUT.bin, such as "
        "quantize.mxfp4.floor.codes.bin",
    )
    source.add_argument(
        "--library",
        metavar="LIBRARY",
        help="ml_dtypes, gfloat, torchao, numpy, reference (the reference interpreter), MODULE:FUNCTION or "
        "FILE.py:FUNCTION, where FUNCTION(operation, inputs, parameters) returns the outputs, or None",
    )
    command.add_argument("--groups", default="", metavar="PREFIX", help="only groups whose names begin with PREFIX")


def _write(options: argparse.Namespace) -> int:
    from repro_mlir.conformance.catalogue import catalogue
    from repro_mlir.conformance.folder import LICENSE, VERSION, write_vectors

    totals = write_vectors(options.output, catalogue())
    if options.json:
        tell(json.dumps({"folder": options.output, "version": VERSION, "license": LICENSE} | totals))
        return 0
    tell(f"vectors  version {VERSION}, {totals['cases']:,} cases in {totals['groups']:,} groups")
    tell(f"folder   {options.output}: {totals['files']:,} files, {totals['bytes']:,} bytes")
    tell(f"next     repro vectors check {options.output} --library LIBRARY")
    return 0


def _check(options: argparse.Namespace) -> int:
    from repro_mlir.base.errors import ReproError
    from repro_mlir.conformance.folder import read_vectors
    from repro_mlir.conformance.libraries import load_library, results_in
    from repro_mlir.conformance.score import score

    groups = [group for group in read_vectors(options.folder) if group.name.startswith(options.groups)]
    if not groups:
        raise ReproError(f"{options.folder}: expected groups whose names begin with {options.groups!r}, found none")
    if options.results is not None:
        label = options.results
        found = [score(group, results_in(options.results, group)) for group in groups]
    else:
        library, label = load_library(options.library)
        found = [score(group, library) for group in groups]
    scores = [each for each in found if each is not None]
    if not scores:
        raise ReproError(f"library {label}: expected an operation of the vectors, found none")
    cases, right = sum(each.cases for each in scores), sum(each.right for each in scores)
    status = Status.RIGHT if right == cases else Status.WRONG
    if options.json:
        report = {"library": label, "groups": [dataclasses.asdict(each) for each in scores]}
        tell(json.dumps(report | {"cases": cases, "right": right, "missing_groups": len(groups) - len(scores)}))
        return status
    width = max(len(each.name) for each in scores)
    for each in scores:
        tell(*_lines(each, width))
    open_cases, open_right = sum(each.open_cases for each in scores), sum(each.open_right for each in scores)
    tell(f"library  {label}: {len(scores)} of {len(groups)} groups")
    tell(f"score    {right:,} of {cases:,} cases right")
    if open_cases:
        tell(f"open     {open_right:,} of {open_cases:,} cases that no standard defines have our results")
    return status


def _lines(each: GroupScore, width: int) -> list[str]:
    word = "right" if each.right == each.cases else "WRONG"
    line = f"{word}    {each.name:{width}}  {each.right:,} of {each.cases:,}"
    kinds = [f"{kind} {wrong} of {total}" for kind, (wrong, total) in each.wrong_kinds.items()]
    line += f"; wrong: {', '.join(kinds)}" if kinds else ""
    lines = [line + (f"; only signs of zeros: {each.only_zero_signs:,}" if each.only_zero_signs else "")]
    if each.error:
        lines.append(f"         the library failed: {each.error}")
    elif each.first_wrong:
        lines.append(f"         first: {each.first_wrong}")
    return lines
