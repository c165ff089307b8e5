# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the generated pages of the documentation, or checks whether they are up to date."""

import argparse
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(description: str | None, pages: Mapping[Path, str]) -> int:
    """Writes the pages that differ from the given texts; with the option --check, only names them.

    Returns:
      1 if --check found an outdated page, else 0.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a page is not up to date")
    check = parser.parse_args().check
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(pages[path])
        print(f"{path.relative_to(ROOT)}: {'not up to date, run `make docs`' if check else 'written'}")
    return int(check and bool(stale))
