# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Creates the compile cache of a test session, and leaves exhaustive cases to `make test-all` (docs/contributors/testing.md)."""

import os
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

MARKERS = (
    "exhaustive: runs in `make test-all` alone (REPRO_TESTS=all), or when named with ::",
    "diagonal(*named, **kept): a part of the cases, with each value of each parameter; the others are exhaustive. "
    "Of a parameter in `named`, each word of the values' names is enough; `kept` lists the names that count.",
)


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    # Workers of pytest-xdist and commands inherit the folder of their session.
    if "REPRO_TEST_SESSION" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="repro-tests-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        os.environ["REPRO_TEST_SESSION"] = folder.name
        if os.environ.get("REPRO_MLIR_CACHE") != "off":
            os.environ["REPRO_MLIR_CACHE"] = str(Path(folder.name) / "cache")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    functions: defaultdict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("diagonal") is not None:
            functions[item.nodeid.partition("[")[0]].append(item)
    for cases in functions.values():
        chosen = _diagonal(cases)
        for case in cases:
            if case not in chosen:
                case.add_marker("exhaustive")
    if os.environ.get("REPRO_TESTS") == "all" or any("::" in argument for argument in config.args):
        return
    # `-m exhaustive` selects by itself.
    if "exhaustive" not in config.option.markexpr:
        dropped = [item for item in items if item.get_closest_marker("exhaustive") is not None]
        items[:] = [item for item in items if item.get_closest_marker("exhaustive") is None]
        config.hook.pytest_deselected(items=dropped)


def _diagonal(cases: list[pytest.Function]) -> list[pytest.Function]:
    """Returns cases that together have every value of every parameter, and every word of named values.

    Each choice adds the most values and words; of several such cases, it is the one whose values were chosen least.
    """
    mark = cases[0].get_closest_marker("diagonal")
    assert mark is not None
    cases = _kept(cases, mark.kwargs)
    # The names of one `parametrize` have their values together.
    rows = [_names(each.args[0]) for each in cases[0].iter_markers("parametrize")]
    rows += [[name] for name in cases[0].callspec.params if not any(name in row for row in rows)]
    contents: dict[pytest.Function, set[object]] = {case: set() for case in cases}
    for case, content in contents.items():
        for row in rows:
            named = [name for name in row if name in mark.args]
            content.update(*(_words(name, case.callspec.params[name]) for name in named))
            if not named:
                content.add((row[0], *(id(case.callspec.params[name]) for name in row)))
    chosen: list[pytest.Function] = []
    uses: Counter[object] = Counter()
    missing = set().union(*contents.values())
    while missing:
        value = {
            case: (len(content & missing), -sum(uses[each] for each in content)) for case, content in contents.items()
        }
        chosen.append(max(cases, key=value.__getitem__))
        missing -= contents[chosen[-1]]
        uses.update(contents[chosen[-1]])
    return chosen


def _words(parameter: str, value: object) -> set[tuple[str, str, str]]:
    """Returns the words of a value's name, apart from numbers and sizes, with the group that precedes a slash."""
    group, _, rest = _name(value).rpartition("/")
    return {(parameter, group, word) for word in re.split("[-,]", rest) if not word[:1].isdigit()}


def _kept(cases: list[pytest.Function], kept: dict[str, Iterable[object]]) -> list[pytest.Function]:
    """Returns the cases whose parameters have the kept names.

    Raises:
      pytest.UsageError: no case has one of the names.
    """
    for parameter, names in kept.items():
        found = {case: _name(case.callspec.params[parameter]) for case in cases}
        wanted = set(map(_name, names))
        if missing := wanted.difference(found.values()):
            raise pytest.UsageError(f"{cases[0].nodeid}: diagonal: no {parameter} is {', '.join(sorted(missing))}")
        cases = [case for case in cases if found[case] in wanted]
    return cases


def _name(value: object) -> str:
    """Returns the name of a parameter's value; the name of a number or text is itself."""
    if isinstance(value, tuple):
        return "+".join(map(_name, value))
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) else str(value)


def _names(argument: str | Iterable[str]) -> list[str]:
    """Returns the names in the first argument of `pytest.mark.parametrize`."""
    return [name.strip() for name in argument.split(",")] if isinstance(argument, str) else list(argument)
