# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs come from the tests of operators, their writer from the differential tests."""

import pathlib
import sys

import pytest

for folder in ("differential", "operators", "untrusted"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / folder))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """script.py and its receipts, see small_receipts.py."""
    from small_receipts import write_receipts

    folder = tmp_path_factory.mktemp("receipts")
    with pytest.MonkeyPatch.context() as monkeypatch:
        write_receipts(folder, monkeypatch)
    return folder
