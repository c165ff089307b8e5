# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Receipts that a dispute is about."""

import pathlib

import pytest


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """script.py and its receipts, see small_receipts.py."""
    from support.small_receipts import write_receipts

    folder = tmp_path_factory.mktemp("receipts")
    with pytest.MonkeyPatch.context() as monkeypatch:
        write_receipts(folder, monkeypatch)
    return folder
