# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Selects the cases of a parametrized test that `make test` runs, for the marker `diagonal` (test/conftest.py)."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

Case = Mapping[str, object]
"""The parameters of a case: value by name."""


def diagonal(
    cases: Sequence[Case], rows: Sequence[Sequence[str]], named: Collection[str] = (), **kept: Iterable[object]
) -> list[int]:
    """Returns the numbers of cases that together cover every value of every parameter.

    Greedy: chooses the case that adds the most values; if several do, the one whose values were chosen least.

    Args:
      rows: groups of parameters whose values vary together and count as one.
      named: parameters whose values count as covered if every word of their names is.
      kept: the names of the values that count, by parameter; a case with another value is not chosen.

    Raises:
      ValueError: a name in `kept` belongs to no value.
    """
    contents: dict[int, set[object]] = {}
    for number, case in enumerate(cases):
        contents[number] = set()
        for row in rows:
            words = [_words(name, case[name]) for name in row if name in named]
            contents[number].update(*words or [[(*row, *(id(case[name]) for name in row))]])
    for parameter, names in kept.items():
        found = {number: name_of(cases[number][parameter]) for number in contents}
        wanted = set(map(name_of, names))
        if missing := wanted.difference(found.values()):
            raise ValueError(f"no {parameter} is {', '.join(sorted(missing))}")
        contents = {number: content for number, content in contents.items() if found[number] in wanted}
    chosen: list[int] = []
    uses: Counter[object] = Counter()
    left = set().union(*contents.values())
    # A case never gains more later. So a case that is still at the top of the heap after a recount is the best one.
    heap = [(-len(content), 0, number) for number, content in contents.items()]
    heapq.heapify(heap)
    while left:
        number = heap[0][2]
        content = contents[number]
        counted = (-len(content & left), sum(uses[each] for each in content), number)
        if counted == heap[0]:
            chosen.append(number)
            left -= content
            uses.update(content)
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, counted)
    return chosen


def name_of(value: object) -> str:
    """Returns the name of a parameter's value; the name of a number or text is itself."""
    if isinstance(value, tuple):
        return "+".join(map(name_of, value))
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) else str(value)


def _words(parameter: str, value: object) -> set[object]:
    """Returns the words of a value's name, except numbers and sizes, each with the group: the part of the name before a
    slash."""
    group, _, rest = name_of(value).rpartition("/")
    return {(parameter, group, word) for word in re.split("[-,]", rest) if not word[:1].isdigit()}
