# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The page of repro diff --dumps: its structure, and what its script draws in a browser."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from repro_mlir.tensor_dumps.comparison import compare_sides
from repro_mlir.tensor_dumps.listing import list_side
from repro_mlir.tensor_dumps.page import page
from support.browser import OVERLAPS, check_structure, different_rows, needs_browser, used

USE = """
const text = id => document.getElementById(id).textContent, rows = id => $(id).querySelectorAll("tbody tr");
say("title", text("title"));
say("dots", $("chart").querySelectorAll("circle").length);
say("rows", [...rows("tensors")].map(row => row.children[2].textContent).join(" "));
say("bars", [...$("histogram").querySelectorAll("text")].map(each => each.textContent).join(" | "));
rows("tensors")[2].querySelector("button").click();
say("chosen", text("tensor-title") + ": " + text("tensor-summary"));
say("hidden", $("histogram").hidden);
say("alone", [...rows("alone")].map(row => row.textContent).join(" "));
"""


@pytest.fixture
def shown(tmp_path: Path) -> Path:
    """Writes the page of two dumps: a tensor with two distances, one with infinities, one of another shape, and a
    tensor that only the first side has."""
    weights = np.linspace(-1, 1, 3000, dtype=np.float32).reshape(30, 100)
    moved = weights.copy()
    moved[3, 5] = np.nextafter(moved[3, 5], np.float32(9))
    moved[9] *= np.float32(1.001)
    ends = np.array([1, np.inf, -0.0, np.nan], np.float32)
    sides = {
        "a": {"fc": weights, "norm": ends, "out": weights, "spare": weights},
        "b": {"fc": moved, "norm": np.array([1, -np.inf, 0, 2], np.float32), "out": weights.T},
    }
    for side, arrays in sides.items():
        (tmp_path / side / "step4").mkdir(parents=True)
        for name, array in arrays.items():
            np.save(tmp_path / side / "step4" / f"{name}.npy", array)
    pattern = "step{step}/{name}.npy"
    found = compare_sides(*(list_side(str(tmp_path / side), pattern) for side in "ab"))
    (tmp_path / "page.html").write_text(page(found))
    return tmp_path / "page.html"


def test_structure_of_the_page(shown: Path) -> None:
    check_structure(shown.read_text())


@needs_browser
@pytest.mark.parametrize("width", [400, 1280])
def test_what_the_page_draws(shown: Path, width: int) -> None:
    data = json.loads(re.findall(r'id="data">(.*?)</script>', shown.read_text())[0])
    bars = [text for label, count in data["differences"][0]["histogram"] for text in (label, f"{count:,}")]
    assert used(shown, USE + OVERLAPS, width) == [
        "title: First difference: step 4, fc",
        "dots: 3",
        "rows: fc norm out",
        f"bars: {' | '.join([*bars, 'number of elements, logarithmic'])}",
        "chosen: step 4, out: another shape: f32 [30, 100] and f32 [100, 30].",
        "hidden: true",
        f"alone: {shown.parent / 'a'}4spare",
        "overlaps: 0",
    ]
    assert different_rows(shown, width, 900) > 100
