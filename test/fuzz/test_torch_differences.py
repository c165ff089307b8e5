# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests that the table of differences from eager PyTorch is the one in the documentation, and that the function
`instead` of each row computes what this package computes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch_mlir")

import torch_modules
from torch_differences import DIFFERENCES
from torch_nearness import verdict
from torch_programs import Input, Program

_PAGE = Path(__file__).parents[2] / "docs" / "contributors" / "debugging.md"


def test_the_page_has_the_table() -> None:
    section = _PAGE.read_text().split("\n## Differences from eager PyTorch\n")[1].split("\n## ")[0]
    _, _, *rows = re.findall(r"^\|.*\|$", section, re.MULTILINE)
    assert rows == [difference.row() for difference in DIFFERENCES]


@pytest.mark.exhaustive
def test_each_row_is_needed() -> None:
    names = [difference.name for difference in DIFFERENCES]
    files = [torch_modules.CORPUS / "differences" / f"{name.replace(' ', '-')}.py" for name in names]
    found = torch_modules.outcomes([torch_modules.torch_programs.read(file) for file in files], 8, "torch.compile")
    assert found == [f"differs: {name}" for name in names]


def test_a_changed_value_is_found() -> None:
    inputs = Input("float32", (1, 2, 3, 4), "normal", 0), Input("float32", (2, 2, 2, 2), "normal", 1)
    program = Program(inputs, ("F.conv2d(x0, x1)", "torch.cumsum(v0, 3)"), ("v1",))
    case, want = torch_modules.case_of(program, "torch.compile")
    for place in range(3):
        _, got = torch_modules.case_of(program, "torch.compile")
        assert verdict(case, want, got) == "ok"
        changed = [*got.values, *got.gradients][place]
        assert changed is not None
        changed[-1, -1, -1, -1] *= 1.001
        assert "expected" in verdict(case, want, got)
