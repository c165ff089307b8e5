# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""docs/reference/api.md lists the public names of the package, as they are now."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(ROOT / "tools" / "docs")
    tool = runpy.run_path(str(ROOT / "tools" / "docs" / "api.py"))
    assert tool["PAGE"].read_text() == tool["render"](), "run `make docs`"
