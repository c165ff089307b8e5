# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Samples products of test parameters unless REPRO_TESTS=all requests all of them (`make exhaustive-test`)."""

import os
import zlib
from collections import defaultdict

import pytest


def pytest_configure(config: pytest.Config) -> None:
    line = "sampled(n): of the cases of a test, one in n runs, chosen by a hash of its name; all with REPRO_TESTS=all"
    config.addinivalue_line("markers", f"{line}; with each=f of those of each value of f(**parameters)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("REPRO_TESTS") == "all" or any("::" in argument for argument in config.args):
        return
    groups: defaultdict[tuple[str, object, int], list[pytest.Function]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is not None and isinstance(item, pytest.Function):
            each = mark.kwargs.get("each")
            value = each(**item.callspec.params) if each else None
            groups[item.nodeid.partition("[")[0], value, mark.args[0]].append(item)
    dropped = set()
    for (_, _, share), group in groups.items():
        hashed = sorted(group, key=lambda item: zlib.crc32(item.nodeid.encode()))
        dropped.update(hashed[-(-len(group) // share) :])
    if dropped:
        items[:] = [item for item in items if item not in dropped]
        config.hook.pytest_deselected(items=list(dropped))
