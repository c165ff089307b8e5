# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro check-resume: checks whether a PyTorch script of the user resumes exactly."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from repro_mlir.base.command_line import Status, positive
from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import tell
from repro_mlir.cli.options import Commands, add_command

_NOTES = """examples:
  repro check-resume train.py
  repro check-resume train.py --steps 20 --arguments='--batch-size 8'
  repro check-resume --run 'python train.py --epochs {steps} --out {save}' \\
      --resume 'python train.py --epochs {steps} --out {save} --from {resume}' --steps 2
  repro check-resume --interrupt --run 'python train.py --steps {total} --save-every {steps} --save {save}' \\
      --resume 'python train.py --steps {total} --save-every {steps} --save {save} --resume {resume}'

placeholders, for N = --steps:
  {steps}   the step at which a run ends: N in the first run, 2N in the whole and the resumed run
  {total}   2N in each run
  {more}    the number of steps that a run makes: N in the first and the resumed run, 2N in the whole run
  {save}    the file or folder that a run writes
  {resume}  the checkpoint that the first run has written

exit status:
  0  the resumed run equals the whole run
  1  it does not
  2  no answer: the script is not reproducible, cannot be compared or read, or fails, or this program failed
"""


def register(commands: Commands) -> None:
    """Adds the parser of `repro check-resume`."""
    command = add_command(commands, "check-resume", _check_resume, "check whether a PyTorch script resumes exactly")
    command.epilog = _NOTES
    command.add_argument(
        "script", metavar="SCRIPT", nargs="?", help="a script with the options --steps N --save FILE [--resume FILE]"
    )
    command.add_argument("--arguments", metavar="TEXT", default="", help="further arguments of SCRIPT, in one text")
    command.add_argument("--run", metavar="COMMAND", help="instead of SCRIPT: the command that begins a run")
    command.add_argument(
        "--resume",
        metavar="COMMAND",
        help="the command that resumes a run (the command of --run and --resume {resume})",
    )
    command.add_argument("--steps", type=positive, default=10, metavar="N", help="steps before the checkpoint (10)")
    command.add_argument("--timeout", type=positive, default=600, metavar="SECONDS", help="limit of each run (600)")
    command.add_argument(
        "--interrupt",
        metavar="FILE",
        nargs="?",
        const="{save}",
        help="end the first run before the step that follows the creation of FILE ({save}), as a crash would",
    )


def _check_resume(options: argparse.Namespace) -> int:
    from repro_mlir.resume_check.check import EXACT, INEXACT, check_resume
    from repro_mlir.resume_check.runs import Template, default_templates, template, words

    if (options.script is None) == (options.run is None):
        raise ReproError("expected SCRIPT, which comes before --interrupt, or --run, and not both")
    if options.arguments and options.script is None:
        raise ReproError("--arguments belongs to SCRIPT: expected these arguments within the command of --run")
    if options.script is not None:
        if not Path(options.script).is_file():
            raise ReproError(f"{options.script}: expected a script, but there is no such file: check the path")
        run, resume = default_templates(options.script, words("--arguments", options.arguments))
    else:
        run = template("--run", options.run)
        resume = Template("--resume", (*run.parts, "--resume", "{resume}"))
    if options.resume is not None:
        resume = template("--resume", options.resume)
    interrupt = None if options.interrupt is None else Template("--interrupt", (options.interrupt,))
    report = check_resume(run, resume, options.steps, timeout=options.timeout, interrupt=interrupt)
    tell(*([json.dumps(report.report())] if options.json else report.lines()))
    if report.verdict == EXACT:
        return 0
    return Status.WRONG if report.verdict == INEXACT else Status.NO_ANSWER
