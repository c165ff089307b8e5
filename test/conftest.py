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
from support.diagonal import diagonal

MARKERS = (
    "exhaustive: runs in `make test-all` alone (REPRO_TESTS=all), or when named with ::",
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
        if isinstance(item, pytest.Function) and item.get_closest_marker("diagonal") is not None:
            functions[item.nodeid.partition("[")[0]].append(item)
    for cases in functions.values():
        chosen = set(_chosen(cases))
        for number, case in enumerate(cases):
            if number not in chosen:
                case.add_marker("exhaustive")
    if os.environ.get("REPRO_TESTS") == "all" or any("::" in argument for argument in config.args):
        return
    # If an option `-m` mentions `exhaustive`, it selects the tests. If not, exhaustive tests are deselected.
    if "exhaustive" not in config.option.markexpr:
        dropped = [item for item in items if item.get_closest_marker("exhaustive") is not None]
        items[:] = [item for item in items if item.get_closest_marker("exhaustive") is None]
        config.hook.pytest_deselected(items=dropped)


def _chosen(cases: list[pytest.Function]) -> list[int]:
    """Returns the indices of the cases that run, for a test with the marker `diagonal` (support/diagonal.py)."""
    mark = cases[0].get_closest_marker("diagonal")
    assert mark is not None
    names = [each.args[0] for each in cases[0].iter_markers("parametrize")]
    rows = [re.findall(r"\w+", each) if isinstance(each, str) else list(each) for each in names]
    rows += [[name] for name in cases[0].callspec.params if not any(name in row for row in rows)]
    try:
        return diagonal([case.callspec.params for case in cases], rows, mark.args, **mark.kwargs)
    except ValueError as error:
        raise pytest.UsageError(f"{cases[0].nodeid}: {error}") from None
