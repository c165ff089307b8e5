# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Fixtures: a finished receipt, and a function that copies it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from repro_mlir import ReceiptOptions
from repro_mlir.base.files import storage


@pytest.fixture(autouse=True)
def quick_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disables fsync, which is slow and needed only if the machine fails."""
    monkeypatch.setattr(storage.os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the receipt of a finished run. Tests share this receipt and must not change it."""
    path = tmp_path_factory.mktemp("finished") / "run.receipt"
    from receipt_runs import EVERY, train

    train(ReceiptOptions(path, checkpoint_every=EVERY))
    return path


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Callable[[], Path]:
    """Returns a function that returns a new copy of the finished receipt, for tests that change it."""
    count = 0

    def make() -> Path:
        nonlocal count
        count += 1
        return Path(shutil.copytree(finished, tmp_path / str(count)))

    return make
