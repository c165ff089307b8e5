# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A fixture that runs the scripts of the check in forks of one process."""

import pytest
from repro_mlir.resume_check import runs
from support.forked_scripts import run_in_fork


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the check run its scripts in forks."""
    monkeypatch.setattr(runs, "_run", run_in_fork)
