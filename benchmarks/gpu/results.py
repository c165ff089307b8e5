# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Results of a run on a GPU, written as they come: whatever ends a run, what was measured is kept."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Results:
    """Rows by part, as JSON and as Markdown.

    Attributes:
      facts: about machine and run.
      parts: rows of each part.
      errors: what went wrong, by part.
    """

    def __init__(self, path: Path, facts: dict[str, Any]) -> None:
        """
        Args:
          path: the file without its suffix.
          facts: about machine and run.
        """
        self._path = path
        self.facts = facts
        self.parts: dict[str, list[dict[str, Any]]] = {}
        self.errors: dict[str, list[str]] = {}
        self.seconds: dict[str, float] = {}

    def add(self, part: str, **row: Any) -> None:
        """Adds a row, prints it and writes the files."""
        self.parts.setdefault(part, []).append(row)
        print(f"{part}: " + "  ".join(f"{key} {_shown(value)}" for key, value in row.items()), flush=True)
        self.write()

    def attempt(self, part: str, what: str, work: Callable[[], Any]) -> Any:
        """What `work` returns; None if it fails, which is noted."""
        try:
            return work()
        except Exception as error:
            lines = traceback.format_exception_only(error)
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.errors.setdefault(part, []).append(
                f"{what}: {''.join(lines).strip()} ({Path(place.filename).name}:{place.lineno})"
            )
            print(f"{part}: {self.errors[part][-1]}", flush=True)
            self.write()
            return None

    def run(self, part: str, work: Callable[[], None]) -> None:
        """Runs a part and notes how long it took."""
        start = time.perf_counter()
        self.attempt(part, "the whole part", work)
        self.seconds[part] = round(time.perf_counter() - start, 1)
        self.write()

    @property
    def failed(self) -> bool:
        """Whether anything differs from the CPU, or went wrong."""
        rows = [row for part in self.parts.values() for row in part]
        return bool(self.errors) or any("DIFFERENT" in str(row.get("bits", "")) for row in rows)

    def write(self) -> None:
        """Writes both files."""
        report = {"facts": self.facts, "seconds": self.seconds, "errors": self.errors, "parts": self.parts}
        self._path.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
        self._path.with_suffix(".md").write_text(self._markdown())

    def _markdown(self) -> str:
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
    return f"{value:.4g}" if isinstance(value, float) else str(value)
