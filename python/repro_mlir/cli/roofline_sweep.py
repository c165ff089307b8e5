# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro roofline sweep: predicts one step for all combinations of machine parameters and precision recipes that the
options list."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from repro_mlir.base.command_line import positive
from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import shown
from repro_mlir.base.printing import tell
from repro_mlir.cli.file_kinds import SCRIPT, expect
from repro_mlir.cli.options import Commands, add_command
from repro_mlir.cli.roofline_options import KINDS, add_step, read_machines, read_step


def register(parts: Commands) -> None:
    """Adds the parser of `repro roofline sweep`."""
    command = add_command(parts, "sweep", _sweep, "predict a step for all combinations of machine parameters")
    add_step(command, "V,V")
    command.add_argument(
        "--steps", type=positive, metavar="N", help="train a script for N steps under f32 and each recipe of "
        "--precision R,R, and show losses against predicted time",
    )  # fmt: skip


def _sweep(options: argparse.Namespace) -> int:
    from repro_mlir.base.files.storage import check_can_write, write_file
    from repro_mlir.roofline.report import sweep_as_json, sweep_lines, sweep_page
    from repro_mlir.roofline.sweep_points import count_points, sweep

    machines = [
        (machine, {name: [each.strip() for each in text.split(",") if each.strip()] for name, text in changes.items()})
        for machine, changes in read_machines(options)
    ]
    kind = expect(options.program, *KINDS)
    recipes = [*dict.fromkeys(each.strip() for each in (options.precision or "").split(",") if each.strip())]
    if options.precision is not None and not recipes:
        raise ReproError(f"--precision: expected names of recipes, got {shown(options.precision)}")
    if options.steps and (kind is not SCRIPT or not recipes or options.exact_digits is not None):
        raise ReproError(f"{options.program}: expected a script and --precision, without --exact-digits, with --steps")
    if kind is not SCRIPT and options.precision is not None:
        raise ReproError(f"{options.program}: expected a script with --precision")
    if options.steps:
        recipes = ["f32", *(each for each in recipes if each != "f32")]
    count_points(machines, max(1, len(recipes)))
    for machine, values in machines:
        for name, texts in values.items():
            for text in texts:
                machine.with_changes({name: text})
    if options.html is not None:
        check_can_write(options.html, ".html")
    programs = {each: read_step(options, each)[0] for each in recipes} or {"": read_step(options, None)[0]}
    points = sweep(programs, machines, options.threads)
    losses = {}
    if options.steps:
        from repro_mlir.precision_report import compare_recipes

        report = compare_recipes(options.program, recipes, options.steps, samples=0)
        losses = {name: run.losses for name, run in zip(recipes, report.runs, strict=True)}
    if options.html is not None:
        write_file(options.html, sweep_page(Path(options.program).name, points, losses).encode())
    if options.json:
        tell(json.dumps(sweep_as_json(points, losses)))
    else:
        tell(*sweep_lines(points, losses), *([f"page  {options.html}"] if options.html is not None else []))
    return 0
