# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What the documents name is there: files, folders, links and tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TESTS = [file for file in sorted((ROOT / "test").rglob("*")) if file.suffix in (".py", ".mlir", ".json")]
PATH = r"(?<![\w/.-])((?:python|lib|include|test|tools|examples|benchmarks)/[\w/.-]*\w)"
FUNCTIONS = {name for file in TESTS if file.suffix == ".py" for name in re.findall(r"def (test_\w+)", file.read_text())}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        assert "://" in link or (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths(page: Path) -> None:
    for path in re.findall(PATH, page.read_text()):
        file = ROOT / path.removesuffix("/READER")
        # `Name` may stand for Name.h and Name.cpp.
        assert file.exists() or list(file.parent.glob(f"{file.name}.*")), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_of_tests(page: Path) -> None:
    files = {file.name for file in TESTS}
    for name in re.findall(r"\b(?:test_\w+|verify-[\w-]+)(?:\.py|\.mlir)?", page.read_text()):
        known = name in files if name.endswith((".py", ".mlir")) else name in FUNCTIONS or not name.startswith("test_")
        assert known, name
