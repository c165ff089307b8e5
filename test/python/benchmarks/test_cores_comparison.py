# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the predictions for machines of many cores and their comparison with published figures."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "benchmarks" / "results"


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])


def test_the_page_has_the_table_of_the_stored_results() -> None:
    from cores_comparison import compare

    files = (RESULTS / f"2026-11-30-cores-{name}.json" for name in ("predictions", "published"))
    table = compare(*(json.loads(file.read_text()) for file in files))
    page = (ROOT / "docs" / "performance" / "cores-predictions.md").read_text()
    assert page.split("<!-- table -->\n")[1].split("<!-- end -->")[0] == table


def test_rank_correlation() -> None:
    from cores_comparison import error, rank_correlation

    assert rank_correlation([1, 2, 3], [10, 40, 50]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [9, 5, 1]) == pytest.approx(-1)
    # Ranks 0, 1.5, 1.5 and 3 against 0, 1, 2 and 3.
    assert rank_correlation([1, 2, 2, 4], [1, 2, 3, 4]) == pytest.approx(0.9486833)
    assert error([1, 3], [4]) == -0.5


def test_a_product_takes_the_larger_of_two_times() -> None:
    from cores_predictions import Machine

    machine = Machine("tiny-2x2")
    # 2 x 1 blocks on each of the cores, of 10 steps, 6 cycles of filling and 4 of draining; cycles of 10 ns.
    assert machine.product_seconds(16, 8, 10, (2, 2)) == pytest.approx(2 * 20 * 1e-8)
    assert machine.product_seconds(16, 8, 10) == machine.product_seconds(16, 8, 10, (2, 2))
    assert machine.dram_seconds(16, 8, 10, 1, 4) == pytest.approx((160 + 80 + 4 * 128) / 400e6)
    assert machine.used_share(16, 8, 10) == pytest.approx(16 * 8 * 10 / (2 * 20 * 4 * 16))
