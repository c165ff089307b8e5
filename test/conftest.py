# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Creates the compile cache of a test session, and deselects tests marked `exhaustive`, which `make test-all` runs.

docs/contributors/testing.md describes the markers.
"""

import os
import re
import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from support.diagonal import diagonal, with_parts

MARKERS = (
    "exhaustive(*parts): runs in `make test-all` alone (REPRO_TESTS=all), or when named with ::. With arguments, only "
    "cases whose id has one of these parts are exhaustive.",
    "diagonal(*named, **kept): a part of the cases, with each value of each parameter; the others are exhaustive. "
    "Of a parameter in `named`, each word of the values' names is enough; `kept` lists the names that count.",
)


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    # Workers of pytest-xdist and child processes inherit the folder of the session that started them.
    if "REPRO_TEST_SESSION" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="repro-tests-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        os.environ["REPRO_TEST_SESSION"] = folder.name
        if os.environ.get("REPRO_MLIR_CACHE") != "off":
            os.environ["REPRO_MLIR_CACHE"] = str(Path(folder.name) / "cache")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    functions: defaultdict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function):
            functions[item.nodeid.partition("[")[0]].append(item)
    for name, cases in functions.items():
        try:
            _mark_cases(cases)
        except ValueError as error:
            raise pytest.UsageError(f"{name}: {error}") from None
    if os.environ.get("REPRO_TESTS") == "all" or any("::" in argument for argument in config.args):
        return
    # An option `-m` that mentions `exhaustive` selects the tests. Without such an option, exhaustive tests are
    # deselected.
    if "exhaustive" not in config.option.markexpr:
        dropped = [item for item in items if item.get_closest_marker("exhaustive") is not None]
        items[:] = [item for item in items if item.get_closest_marker("exhaustive") is None]
        config.hook.pytest_deselected(items=dropped)


def _mark_cases(cases: list[pytest.Function]) -> None:
    """Leaves the mark `exhaustive` only on those cases of a test that `make test` does not run.

    Raises:
      ValueError: a mark names something that no case has, which is not raised if the command line selects single
        cases; or the test has no parameters, or a module or class has a mark that names cases.
    """
    for mark in (each for case in cases for each in case.iter_markers("exhaustive") if each.args):
        # Such a mark could not be removed from the cases that it does not name, so that `make test` ran none of them.
        if not any(mark is own for own in cases[0].own_markers):
            shown = ", ".join(map(repr, mark.args))
            raise ValueError(f"expected exhaustive({shown}) at each test, got it at a module, a class or one case")
    has_parts = any(each.name == "exhaustive" and each.args for each in cases[0].own_markers)
    if not hasattr(cases[0], "callspec") and (has_parts or cases[0].get_closest_marker("diagonal") is not None):
        raise ValueError("expected parameters for the marker, got a test without: use exhaustive without arguments")
    if cases[0].get_closest_marker("diagonal") is not None:
        chosen = set(_chosen(cases))
        for number, case in enumerate(cases):
            if number not in chosen:
                case.add_marker("exhaustive")
    for mark in [each for each in cases[0].own_markers if each.name == "exhaustive" and each.args]:
        if any("::" in argument for argument in cases[0].config.args):
            return
        named = with_parts([case.callspec.id for case in cases], mark.args)
        for number, case in enumerate(cases):
            if number not in named:
                case.own_markers.remove(mark)


def _chosen(cases: list[pytest.Function]) -> list[int]:
    """Returns the indices of the cases that run, for a test with the marker `diagonal` (support/diagonal.py)."""
    mark = cases[0].get_closest_marker("diagonal")
    assert mark is not None
    names = [each.args[0] for each in cases[0].iter_markers("parametrize")]
    rows = [re.findall(r"\w+", each) if isinstance(each, str) else list(each) for each in names]
    rows += [[name] for name in cases[0].callspec.params if not any(name in row for row in rows)]
    return diagonal([case.callspec.params for case in cases], rows, mark.args, **mark.kwargs)
