# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro precision: trains under several precision recipes and compares the runs."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro_mlir.base.command_line import positive
from repro_mlir.base.files.storage import make_folder
from repro_mlir.base.printing import tell
from repro_mlir.cli.file_kinds import SCRIPT, expect
from repro_mlir.cli.options import Commands, add_command, add_script, recipe_names
from repro_mlir.cli.parsers import set_names
from repro_mlir.cli.target import add_target

if TYPE_CHECKING:
    from repro_mlir.precision_report import Report

_NOTES = """examples:
  repro precision examples/names_gpt.py --recipes mxfp8,mxfp4,nvfp4 --steps 300
  repro precision SCRIPT --recipes bf16,mine.json --steps 50 --samples 5 --output comparison

Every recipe is compared with f32. docs/guides/precision.md describes the measurements.
"""


def register(commands: Commands) -> None:
    """Adds the parser of `repro precision`."""
    command = add_command(commands, "precision", _precision, "train under several precision recipes and compare them")
    command.epilog = _NOTES
    add_target(command)
    add_script(command)
    recipes = command.add_argument(
        "--recipes",
        required=True,
        metavar="R,R",
        help=".json files with precision recipes, or names of recipes (docs/guides/precision.md)",
    )
    set_names(recipes, recipe_names, listed_by="repro precision --list", or_path=True)
    command.add_argument("--list", action=_ListRecipes, help="print the names of the recipes, and exit")
    command.add_argument("--steps", type=positive, required=True, metavar="N", help="training steps under each recipe")
    command.add_argument(
        "--samples", type=int, default=3, metavar="N", help="steps in which contractions are measured, 0 for none (3)"
    )
    command.add_argument(
        "--output", metavar="FOLDER", help="the folder for the page and the data (SCRIPT's name with .precision)"
    )


class _ListRecipes(argparse.Action):
    """The action of --list: replaces the command by one that prints the names of the recipes and needs no script."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, options: argparse.Namespace, *_: Any) -> None:
        for each in parser._actions:
            each.required = False
        options.command = _list


def _list(options: argparse.Namespace) -> int:
    names = [*recipe_names()]
    tell(*([json.dumps({"recipes": names})] if options.json else names))
    return 0


def _precision(options: argparse.Namespace) -> int:
    from repro_mlir.execute.executable import check_runs
    from repro_mlir.precision_report import compare_recipes

    expect(options.script, SCRIPT)
    check_runs(options.target)
    folder = options.output or f"{Path(options.script).stem}.precision"
    with _folder(folder):
        report = compare_recipes(
            options.script,
            [each.strip() for each in options.recipes.split(",") if each.strip()],
            options.steps,
            target=options.target,
            threads=options.threads,
            samples=options.samples,
        )
    page, data = report.write(folder)
    if options.json:
        runs = [
            {"recipe": run.recipe, "loss": run.loss, "state_hash": run.state, "program": run.program}
            for run in report.runs
        ]
        found = {"page": str(page), "data": str(data), "steps": report.steps, "target": report.target, "runs": runs}
        tell(json.dumps(found))
    else:
        tell(*_lines(report), f"page   {page}", f"data   {data}")
    return 0


@contextlib.contextmanager
def _folder(name: str) -> Iterator[None]:
    """A context manager that creates the folder before the block, so that an error is found before minutes of training.
    If the block fails, removes the folder again, unless the folder existed before."""
    is_new = not Path(name).exists()
    make_folder(name)
    try:
        yield
    except BaseException:
        if is_new:
            with contextlib.suppress(OSError):
                Path(name).rmdir()
        raise


def _lines(report: Report) -> list[str]:
    width = max(len("recipe"), *(len(run.recipe) for run in report.runs))
    lines = [f"{'recipe':{width}}  loss        state"]
    for run in report.runs:
        loss = "not finite" if run.loss is None else f"{run.loss:.6f}"
        lines.append(f"{run.recipe:{width}}  {loss:10}  {run.state}")
    return [*lines, *([report.note] if report.note else [])]
