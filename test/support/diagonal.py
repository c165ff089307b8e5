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
    """Returns the numbers of cases which, together, have every value of every parameter.

    Chooses cases greedily: the next case is the one with the most new values; if several have equally many, the one
    whose values have been chosen least often.

    Args:
      rows: groups of parameters that one `parametrize` sets together; a combination counts as one value.
      named: parameters whose values are not covered as a whole: instead, every word of their names must be covered.
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
    # The number of new values of a case never grows. So if a case is still at the top of the heap after its key has
    # been updated, no other case is better.
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
    """Returns the name of a parameter's value by which tests refer to it: its attribute `name`, its `__name__`, or its
    text."""
    if isinstance(value, tuple):
        return "+".join(map(name_of, value))
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) else str(value)


def _words(parameter: str, value: object) -> set[object]:
    """Returns the words of a value's name, without numbers and sizes, as tuples (parameter, group, word). The group is
    the part of the name before a slash."""
    group, _, rest = name_of(value).rpartition("/")
    return {(parameter, group, word) for word in re.split("[-,]", rest) if not word[:1].isdigit()}


def with_parts(ids: Sequence[str], parts: Sequence[str]) -> set[int]:
    """Returns the numbers of the ids that contain one of the parts, delimited by hyphens or by the ends of the id.

    Raises:
      ValueError: no id contains one of the parts.
    """
    found = {part: {number for number, each in enumerate(ids) if f"-{part}-" in f"-{each}-"} for part in parts}
    if missing := [part for part, numbers in found.items() if not numbers]:
        raise ValueError(f"no case has {missing[0]!r} in its id")
    return set().union(*found.values())
