# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Fixtures of the verification tests: receipts that the tests compare and dispute."""

import pathlib

import pytest


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Returns a folder with script.py and its receipts, written by support/small_receipts.py."""
    from support.small_receipts import write_receipts

    folder = tmp_path_factory.mktemp("receipts")
    with pytest.MonkeyPatch.context() as monkeypatch:
        write_receipts(folder, monkeypatch)
    return folder
