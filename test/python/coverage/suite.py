# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Records how far each entry of another project's test suite gets. Defines the expected outcomes, the page in
docs/coverage and the command line of the scripts."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
# Makes the package `support` importable if a script runs by itself.
sys.path.insert(0, str(_ROOT / "test"))


@dataclass
class Outcome:
    """The stage that one entry reached.

    Attributes:
      name: name of the entry, with its variant.
      stage: one of the suite's stages.
      reason: the error that stopped it, empty for `ok`.
      backward: whether the program contains gradients.
    """

    name: str
    stage: str
    reason: str = ""
    backward: bool = False


def first_line(error: BaseException) -> str:
    """Returns the first nonempty line of an error's message, without the path of this checkout, the source location and
    the files to reproduce the error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    lines[:1] = [
        re.sub(r'"?\S+\.py"?:\d+(:\d+)?: |; (to repeat it|the program is in).*', "", line) for line in lines[:1]
    ]
    text = (lines[0] if lines else type(error).__name__).replace(f"{_ROOT}{os.sep}", "")
    return text[:300]


def all_lines(error: BaseException) -> str:
    """Returns the first 300 characters of a message, with its lines joined by semicolons."""
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip())[:300]


def _wrapped(lines: Iterable[str]) -> str:
    """Joins lines into paragraphs, which an empty line separates, and wraps them at 120 columns."""
    paragraphs = "\n".join(lines).split("\n\n")
    return "\n\n".join(textwrap.fill(each, 120, break_on_hyphens=False) for each in paragraphs)


@dataclass(frozen=True)
class Suite:
    """Describes a suite and its documents.

    Attributes:
      script: the script next to this file that runs the suite.
      name: selects the files expected_<name>.json and docs/coverage/<name>.md; if it is "", expected.json and
        float32.md.
      title: title of the document.
      stages: the stages at which an entry can end, `ok` last.
      about: returns the paragraphs above the table, as lines of any width; an empty line ends a paragraph.
      what: the name of the entries in the table.
      columns: additional columns of the table: title, and which entries are counted.
      notes: the paragraphs above the causes, as lines of any width.
      shown: converts an outcome for the table of causes.
    """

    script: str
    name: str
    title: str
    stages: Sequence[str]
    about: Callable[[], list[str]]
    what: str = "entries"
    columns: Mapping[str, Callable[[Outcome], bool]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    shown: Callable[[Outcome], Outcome] = lambda outcome: outcome

    @property
    def _expected(self) -> Path:
        return Path(__file__).with_name("_".join(["expected", *filter(None, [self.name.replace("-", "_")])]) + ".json")

    @property
    def _document(self) -> Path:
        return _ROOT / "docs" / "coverage" / f"{self.name or 'float32'}.md"

    def read_expected(self) -> dict[str, tuple[str, str]]:
        """Reads the stage and the reason of each entry whose expected stage is not `ok`."""
        return {name: (stage, reason) for name, (stage, reason) in json.loads(self._expected.read_text()).items()}

    def counts(self, outcomes: Sequence[Outcome]) -> list[str]:
        """Returns the lines of a Markdown table with the number of entries that ended at each stage."""
        lines = [
            f"| stage | {' | '.join([self.what, *self.columns])} |",
            f"| --- |{' ---: |' * (1 + len(self.columns))}",
        ]
        for stage in (*self.stages, "all"):
            ended = [each for each in outcomes if stage in (each.stage, "all")]
            if ended:
                counted = [sum(map(is_counted, ended)) for is_counted in self.columns.values()]
                lines.append(f"| {stage} | {' | '.join(map(str, [len(ended), *counted]))} |")
        return lines

    def accept(self, outcomes: Sequence[Outcome]) -> None:
        """Writes `outcomes`, which must be those of all entries, to the file of expected outcomes and to the suite's
        page."""
        failed = sorted((o for o in outcomes if o.stage != "ok"), key=lambda o: (self.stages.index(o.stage), o.name))
        self._expected.write_text(json.dumps({o.name: [o.stage, o.reason] for o in failed}, indent=1) + "\n")
        lines = [
            f"# {self.title}",
            "",
            f"<!-- Generated by test/python/coverage/{self.script} --accept; do not edit. -->",
            "",
            "This page is for people who ask whether a model can be captured, and for contributors who look for work. "
            "It counts the",
            "entries of a test suite by the stage at which they end, and lists the causes.",
            "",
            _wrapped(self.about()),
            "",
            *self.counts(outcomes),
            "",
            "## What is not ok, by cause",
            "",
            *([_wrapped(self.notes), ""] if self.notes else []),
            *self._causes([self.shown(each) for each in failed]),
        ]
        self._document.write_text("\n".join(lines) + "\n")

    def _causes(self, failed: Sequence[Outcome]) -> list[str]:
        """Returns the lines of a Markdown table that groups the failed entries by stage and cause."""
        causes: dict[tuple[str, str], list[str]] = {}
        for outcome in failed:
            # The source location of the error is not part of the cause.
            cause = re.sub(r"^\w+: (\S*\.py:\d+: )?", "", outcome.reason).replace("|", "\\|")
            causes.setdefault((outcome.stage, cause), []).append(outcome.name)
        order = sorted(causes.items(), key=lambda c: (self.stages.index(c[0][0]), -len(c[1]), c[0][1]))
        lines = ["| stage | cause | entries |", "| --- | --- | --- |"]
        return lines + [f"| {stage} | {cause} | {len(names)}: {', '.join(names)} |" for (stage, cause), names in order]


def parser(description: str) -> argparse.ArgumentParser:
    """Returns the command line parser that all scripts share."""
    made = argparse.ArgumentParser(description=description.splitlines()[0])
    made.add_argument("--jobs", type=int, default=2)
    made.add_argument("--out", type=Path, help="file for one JSON line per entry")
    made.add_argument("--accept", action="store_true", help="expect these outcomes from now on")
    made.add_argument("--expect", action="store_true", help="others than the expected outcomes are an error")
    made.add_argument("names", nargs="*", help="of entries, by default all")
    return made


def run_script(
    description: str | None,
    suite: Suite,
    entries: Callable[[], Iterable[str]],
    run_all: Callable[[Sequence[str], int], Iterable[Outcome]],
) -> None:
    """Runs all entries, or those named on the command line, and prints their outcomes and their table."""
    options = parser(description or "").parse_args()
    report(suite, run_all(options.names or [*entries()], options.jobs), options)


def report(suite: Suite, outcomes: Iterable[Outcome], options: argparse.Namespace) -> None:
    """Prints each outcome when it arrives, then the table of counts. With --accept, writes the outcomes as the expected
    ones."""
    if options.accept and options.names:
        raise SystemExit("--accept needs the outcomes of all entries")
    found = []
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(options.out.open("w")) if options.out else None
        for outcome in outcomes:
            found.append(outcome)
            line = json.dumps(asdict(outcome))
            print(line, flush=True)
            if out:
                print(line, file=out, flush=True)
    print("\n".join(suite.counts(found)))
    if options.accept:
        suite.accept(found)
    if options.expect:
        _require_expected(suite, found)


def _require_expected(suite: Suite, outcomes: Iterable[Outcome]) -> None:
    """Ends the process with an error if outcomes differ from the expected ones."""
    expected, faults = suite.read_expected(), []
    for each in outcomes:
        if (found := (each.stage, each.reason)) != (wanted := expected.get(each.name, ("ok", ""))):
            faults.append(f"{each.name}: {found}, expected {wanted}")
    if faults:
        raise SystemExit("\n".join(faults))
