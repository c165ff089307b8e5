# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The check: runs a script as a whole, in two parts and, if these runs differ, a second time as a whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import foreign
from repro_mlir.base.progress import Progress
from repro_mlir.resume_check.comparison import Comparison, compare
from repro_mlir.resume_check.findings import (
    Finding,
    causes,
    causes_of_repetition,
    causes_of_resume,
    gradient_names,
    listed,
    unread_names,
    without_effect,
)  # fmt: skip
from repro_mlir.resume_check.records import Key, Record
from repro_mlir.resume_check.runs import Template, run_script

EXACT, INEXACT = "exact", "not exact"
UNREPEATABLE, UNEQUAL_BEGIN, UNREAD = "not reproducible", "not comparable", "not readable"

_WHOLE, _FIRST, _RESUMED, _REPEATED = "the whole run", "the first run", "the resumed run", "the repeated run"


@dataclass(frozen=True)
class ResumeReport:
    """The result of a check. Steps are calls of `Optimizer.step`, counted from 1 in the whole run.

    Attributes:
      verdict: "exact"; "not exact"; "not reproducible" if two whole runs differ before the resumed run does; "not
        comparable" if the first run differs from the whole run before the checkpoint; "not readable" if nothing
        differs, but state that determines the steps was not compared.
      steps: the number of steps of the whole run.
      saved: the number of steps of the first run, after which it saved the checkpoint.
      step: the first step that differs; None if the runs are equal.
      findings: the causes, the most probable one first.
      gradients: the names of the parameters whose gradients differ at this step.
      unused: state that was not restored, without an effect on these steps.
      unread: the names of state that was not compared, because PyTorch cannot read its values.
    """

    verdict: str
    steps: int
    saved: int
    step: int | None
    findings: tuple[Finding, ...]
    gradients: tuple[str, ...]
    unused: tuple[Finding, ...]
    unread: tuple[str, ...]

    def report(self) -> dict[str, object]:
        """Returns the result for JSON."""
        return {
            "verdict": self.verdict,
            "steps": self.steps,
            "saved_after": self.saved,
            "step": self.step,
            "findings": [each.report() for each in self.findings],
            "gradients": [*self.gradients],
            "without_effect": [each.report() for each in self.unused],
            "not_compared": [*self.unread],
        }

    def lines(self) -> list[str]:
        """Returns the result as text, one line per element."""
        lines = [self._headline()]
        for each in self.findings:
            lines += [f"  {each.title}: {each.text}", *([f"    {each.hint}"] if each.hint else [])]
        if self.gradients:
            lines.append(f"  effect: other gradients at step {self.step}: {listed(self.gradients)}")
        for each in self.unused:
            lines += [f"  without effect on these steps: {each.title}: {each.text}", f"    {each.hint}"]
        if self.unread:
            lines.append(f"  not compared, because PyTorch cannot read the values: {listed(self.unread)}")
        return lines

    def _headline(self) -> str:
        after = f"{self.steps - self.saved} after the resume"
        if self.verdict == EXACT:
            return f"exact: the resumed run equals the whole run in {self.steps} steps, {after}"
        if self.verdict == INEXACT:
            return f"not exact: the resumed run differs from the whole run at step {self.step} of {self.steps}, {after}"
        if self.verdict == UNREAD:
            return f"not readable: nothing differs in {self.steps} steps, {after}, but not all state was compared"
        if self.verdict == UNREPEATABLE:
            return f"not reproducible: two whole runs differ at step {self.step}, so a resume cannot be checked"
        return (
            f"not comparable: the first run differs from the whole run at step {self.step}, before the checkpoint; the "
            "script may compute with its number of steps: see --interrupt"
        )


def check_resume(
    run: Template, resume: Template, steps: int, *, timeout: float, interrupt: Template | None
) -> ResumeReport:
    """Checks whether a run that is resumed after `steps` steps equals a run of twice as many steps.

    Args:
      run: the command that begins a run; contains {save}, and {steps} or {total}.
      resume: the command that continues a run; contains {resume}.
      steps: the number of steps, or of whatever unit {steps} has in the command, of the first run.
      timeout: the limit on the time of each run, in seconds.
      interrupt: a path with placeholders; the first run is ended before the step that follows its creation.
    Raises:
      ReproError: a run fails, takes too long, writes no checkpoint or makes another number of steps than expected; or
        the path of `interrupt` is empty or exists before the first run.
    """
    run.require("save")
    run.require("steps", "total", "more")
    resume.require("resume")
    with tempfile.TemporaryDirectory(prefix="repro-check-resume-") as name, Progress(3, "runs of the script") as shown:
        folder = Path(name)
        checkpoint = folder / "first" / "checkpoint.pt"
        first_values = {"steps": steps, "more": steps, "total": 2 * steps, "save": checkpoint}
        whole_values = {"steps": 2 * steps, "more": 2 * steps, "total": 2 * steps}
        resumed_values = {**whole_values, "more": steps, "resume": checkpoint}
        for part in ("first", "whole", "resumed", "repeated"):
            (folder / part).mkdir()

        def execute(run_name: str, template: Template, values: Mapping[str, object], part: str) -> Record:
            values = {"save": folder / part / "checkpoint.pt", "resume": "", **values}
            filled = template.filled({key: str(value) for key, value in values.items()})
            # The fourth run is needed only if the others differ.
            shown.total += part == "repeated"
            until = None
            if interrupt is not None and part == "first":
                (until,) = interrupt.filled({key: str(value) for key, value in values.items()})
                if not until or os.path.exists(until):
                    found = f"{foreign(until)}, which exists before the run" if until else "an empty path"
                    raise ReproError(f"--interrupt: expected a file that the first run creates, got {found}")
            record = run_script(run_name, filled, folder, timeout, until)
            shown.advance(run_name)
            return record

        first = execute(_FIRST, run, first_values, "first")
        _check_saved(checkpoint)
        whole = execute(_WHOLE, run, whole_values, "whole")
        if whole.count <= first.count:
            raise ReproError(
                f"expected the whole run to make more steps than the first run, got {whole.count} and {first.count}: "
                "the script must run the number of steps that the command gives"
            )
        begin = compare(whole, first)
        if begin.difference is not None:
            repeated = execute(_REPEATED, run, whole_values, "repeated")
            return _judged(UNEQUAL_BEGIN, begin, whole, first, repeated, frozenset())
        resumed = execute(_RESUMED, resume, resumed_values, "resumed")
        found = compare(whole, resumed, first.count)
        noise = frozenset(begin.unused)
        if found.difference is not None:
            repeated = execute(_REPEATED, run, whole_values, "repeated")
            return _judged(INEXACT, found, whole, first, repeated, noise)
        if resumed.count != whole.count - first.count:
            raise ReproError(
                f"expected the resumed run to make {whole.count - first.count} steps, from {first.count} to "
                f"{whole.count}, got {resumed.count}: the script must restore its number of steps; in --resume, "
                "{steps} counts from the start of the first run, {more} from the resume"
            )
        unused = tuple(without_effect(found.unused, whole, noise))
        is_read = not found.unread_gradients and not any(key.is_effective for key in found.unread)
        verdict, unread = EXACT if is_read else UNREAD, tuple(unread_names(found, whole))
        return ResumeReport(verdict, whole.count, first.count, None, (), (), unused, unread)


def _judged(
    verdict: str, found: Comparison, whole: Record, first: Record, repeated: Record, noise: frozenset[Key]
) -> ResumeReport:
    """Returns the report of a difference, or of an earlier difference of two whole runs."""
    again, difference = compare(whole, repeated), found.difference
    assert difference is not None
    if again.difference is not None and again.difference.step <= difference.step:
        verdict, difference, found = UNREPEATABLE, again.difference, again
        findings = causes_of_repetition(difference, whole)
    elif verdict == INEXACT:
        findings = causes_of_resume(difference, whole, noise)
    else:
        findings = causes(difference, whole, noise)
    gradients, unread = gradient_names(difference.gradients, whole), unread_names(found, whole)
    return ResumeReport(
        verdict, whole.count, first.count, difference.step, tuple(findings), tuple(gradients), (), tuple(unread)
    )


def _check_saved(checkpoint: Path) -> None:
    """Raises ReproError if the first run has not written its checkpoint."""
    if checkpoint.exists():
        return
    found = sorted(each.name for each in checkpoint.parent.iterdir())
    other = f", found {listed(found)} in its folder" if found else ""
    raise ReproError(
        f"the first run ended without a checkpoint: expected the script to write the file or folder {{save}}{other}"
    )
