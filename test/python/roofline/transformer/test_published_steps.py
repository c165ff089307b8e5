# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks that docs/performance/roofline-published.md is what the code generates, and that errors stay within limits."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
_SPEC = importlib.util.spec_from_file_location("published_steps", ROOT / "benchmarks" / "published_steps.py")
assert _SPEC is not None and _SPEC.loader is not None
published = importlib.util.module_from_spec(_SPEC)
sys.modules["published_steps"] = published
_SPEC.loader.exec_module(published)


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "performance" / "roofline-published.md").read_text() == published.page(published.results())


def test_errors_of_covered_steps() -> None:
    """For dense training steps whose configuration is known, the mean error is below 15 %, and so is the mean error of
    the held-out steps."""
    seen = published.seen(published.results())
    held_out = published.held_out(seen)
    assert len(seen) >= 35 and len(held_out) >= 9
    assert published.mean_error(seen) < 0.15 and published.mean_error(held_out) < 0.15
    assert max(abs(each.error) for each in seen) < 0.3


def test_the_documentation_has_the_mean_errors() -> None:
    found = published.results()
    seen, steps = published.seen(found), [each for each in found if each.row["kind"] == "training"]
    held_out = published.held_out(seen)
    text = " ".join((ROOT / "docs" / "guides" / "roofline.md").read_text().split())
    assert f"with {len(found)} published figures" in text
    assert f"For the {len(seen)} dense training steps" in text and f"For all {len(steps)} training steps" in text
    assert f"for the {len(held_out)} of these {len(seen)} steps" in text
    for rows in (seen, held_out, steps):
        assert f"{published.mean_error(rows) * 100:.1f} %" in text


def test_the_page_has_errors_by_the_files_own_settings() -> None:
    """If results of a group have settings of their own, the page also has the errors with these settings, for the group
    and for all rows."""
    found = published.results()
    changed = {each.row["group"] for each in found if each.by_file != each.predicted}
    assert len(changed) == 2
    lines = published.page(found).splitlines()
    for name, rows in (
        *((group, [each for each in found if each.row["group"] == group]) for group in changed),
        ("**all rows**", found),
    ):
        own = sum(abs(each.by_file / each.row["published"] - 1) for each in rows) / len(rows)
        (line,) = (line for line in lines if line.startswith(f"| {name} |"))
        assert f" {own * 100:.1f} % " in line and own > published.mean_error(rows)


def test_every_row_has_a_source() -> None:
    for each in published.results():
        assert each.row["source"] and each.row["published"] > 0 and each.predicted > 0
