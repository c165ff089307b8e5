# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests a sample of the changes of Python state between two steps (changes.py)."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")
import changes  # noqa: E402

CASES = changes.cases()
STRIDE = 29


@pytest.mark.parametrize("number", range(0, len(CASES), STRIDE))
@pytest.mark.diagonal(number=range(0, len(CASES), 6 * STRIDE))
def test_a_change_counts_or_is_refused(number: int) -> None:
    kind, place = CASES[number]
    found = changes.outcome(kind, place)
    assert not found.startswith("finding"), (kind.name, place, found)
    assert found.startswith("refused") or not kind.refused, (kind.name, place, found)


@pytest.mark.parametrize(
    "name",
    [
        *("Python module: attribute: set", "function: attribute: set", "thread-local: attribute: set"),
        *("list: if h: return 2.0: filled", "keywords of a partial", "code of a method"),
    ],
)
def test_changes_take_effect(name: str) -> None:
    kind = next(kind for kind, _ in CASES if kind.name == name)
    assert changes.outcome(kind, "forward") == "taken"
