# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A file of finished work items, so that a long run can be interrupted and resumed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from forked import Result


class Journal:
    """A file with one line [number, outcome] per finished item; if a number occurs twice, its last line counts.

    Attributes:
      outcomes: the outcome of each finished item, by number.
    """

    def __init__(self, path: Path) -> None:
        self.outcomes: dict[int, str] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                if line.endswith("]"):  # skips a line cut off by an interruption
                    number, outcome = json.loads(line)
                    self.outcomes[number] = outcome
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "a")

    def missing(self, numbers: Iterable[int]) -> Iterator[int]:
        """Yields the numbers without an outcome."""
        return (number for number in numbers if number not in self.outcomes)

    def add(self, result: Result) -> None:
        """Appends a result to the file."""
        self.outcomes[result.number] = result.outcome
        self._file.write(json.dumps([result.number, result.outcome]) + "\n")
        self._file.flush()

    def findings(self) -> list[Result]:
        """Returns the results that report an error (`Result.is_finding`), in the order of their numbers."""
        results = [Result(number, outcome) for number, outcome in sorted(self.outcomes.items())]
        return [result for result in results if result.is_finding]

    def summary(self) -> str:
        """Returns the number of occurrences of each outcome, where all findings count as the same outcome, such as
        "9987 ok, 13 failed step"."""
        words = ("finding" if o.startswith("finding") else o for o in self.outcomes.values())
        return ", ".join(f"{count} {word}" for word, count in Counter(words).most_common()) or "nothing"
