# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Collects the results of a run on a GPU. Writes each result as soon as it arrives, so that an interruption loses none
of them."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from repro_mlir.runner.driver import OUT_OF_MEMORY, DriverError


class ContextLost(Exception):
    """Raised when the driver rejects all further work of this process, for example after an invalid memory access."""


class Results:
    """The results of a run of run.py, in a JSON file and a Markdown file: rows for each part of the run. A later
    process reads the files and adds rows.

    Attributes:
      facts: facts about the machine and the run.
      parts: rows by part.
      begun: for each part, the names under which `attempt` has begun work.
      errors: error messages by part.
      seconds: durations by part.
    """

    def __init__(self, path: Path) -> None:
        """Continues with the contents of existing files.

        Args:
          path: the path of the files, without the suffix.
        """
        self._json = path.parent / f"{path.name}.json"
        self._markdown = path.parent / f"{path.name}.md"
        report = json.loads(self._json.read_text()) if self._json.exists() else {}
        self.facts: dict[str, Any] = report.get("facts", {})
        self.parts: dict[str, list[dict[str, Any]]] = report.get("parts", {})
        self.begun: dict[str, list[str]] = report.get("begun", {})
        self.errors: dict[str, list[str]] = report.get("errors", {})
        self.seconds: dict[str, float] = report.get("seconds", {})

    def add(self, part: str, **row: Any) -> None:
        """Adds a row, prints it and writes the files."""
        self.parts.setdefault(part, []).append(row)
        print(f"{part}: " + "  ".join(f"{key} {_shown(value)}" for key, value in row.items()), flush=True)
        self.write()

    def note(self, part: str, error: str) -> None:
        """Adds an error, prints it and writes the files."""
        self.errors.setdefault(part, []).append(error)
        print(f"{part}: {error}", flush=True)
        self.write()

    def attempt(self, part: str, what: str, work: Callable[[], None]) -> None:
        """Calls `work`, unless an earlier process has begun the work named `what`. Records an exception of `work` as an
        error.

        Raises:
          ContextLost: this process can no longer use the GPU.
        """
        if what in self.begun.setdefault(part, []):
            return
        self.begun[part].append(what)
        self.write()
        try:
            work()
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = "".join(traceback.format_exception_only(error)).strip()
            self.note(part, f"{what}: {text} ({Path(place.filename).name}:{place.lineno})")
            if isinstance(error, DriverError) and error.code != OUT_OF_MEMORY:
                raise ContextLost from None

    def run(self, part: str, work: Callable[[], None]) -> None:
        """Calls `work` for a part, and adds the duration of the call to the part's seconds. Records an exception of
        `work` as an error, except ContextLost, which is raised again."""
        start = time.perf_counter()
        try:
            work()
        except ContextLost:
            raise
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.note(part, f"{error!r} ({Path(place.filename).name}:{place.lineno})")
        finally:
            self.seconds[part] = round(self.seconds.get(part, 0) + time.perf_counter() - start, 1)
            self.write()

    @property
    def failed(self) -> bool:
        """Returns whether a result differs from the expected result, or work failed."""
        rows = [row for part in self.parts.values() for row in part]
        return bool(self.errors) or any("DIFFERENT" in str(row.get("bits", "")) for row in rows)

    def write(self) -> None:
        """Writes both files."""
        report = {
            "facts": self.facts,
            "seconds": self.seconds,
            "errors": self.errors,
            "begun": self.begun,
            "parts": self.parts,
        }
        self._json.write_text(json.dumps(report, indent=1) + "\n")
        self._markdown.write_text(self._text())

    def _text(self) -> str:
        lines = ["# Results on a GPU", ""]
        lines += [f"- {key}: {_shown(value)}" for key, value in self.facts.items()]
        lines += [f"- seconds of {part}: {seconds}" for part, seconds in self.seconds.items()]
        for part, errors in self.errors.items():
            lines += ["", f"## Errors in {part}", "", *(f"- {error}" for error in errors)]
        for part, rows in self.parts.items():
            columns = list(dict.fromkeys(key for row in rows for key in row))
            lines += ["", f"## {part}", "", f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
            lines += [f"| {' | '.join(_shown(row.get(key, '')) for key in columns)} |" for row in rows]
        return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} in the JSON file"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
