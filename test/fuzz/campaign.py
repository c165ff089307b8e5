# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The options and the loop of a fuzzer that runs numbered cases, and that can be interrupted and resumed."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from forked import Result
from journal import Journal


def parser(description: str, count: int = 100) -> argparse.ArgumentParser:
    """Returns a parser with the options `first`, `count`, `minutes`, `journal` and `show`."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--first", type=int, default=0)
    made.add_argument("--count", type=int, default=count)
    made.add_argument("--minutes", type=float, default=float("inf"))
    made.add_argument("--journal", type=Path, default=Path(os.devnull))
    made.add_argument("--show", type=int, metavar="NUMBER")
    return made


def collect(options: argparse.Namespace, run: Callable[[Iterable[int]], Iterator[Result]]) -> Journal:
    """Runs the chosen cases that the journal does not contain, and prints the findings. Returns the journal.

    Args:
      options: the parsed options.
      run: yields the results of the cases with the given numbers.
    """
    journal = Journal(options.journal)
    end = time.monotonic() + 60 * options.minutes
    for result in run(journal.missing(range(options.first, options.first + options.count))):
        journal.add(result)
        if result.is_finding:
            print(f"{result.number}: {result.outcome[-600:]}", flush=True)
        if time.monotonic() > end:
            break
    return journal
