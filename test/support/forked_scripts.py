# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs scripts for the check in forks."""

import importlib.util
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from repro_mlir.base.errors import ReproError
from repro_mlir.resume_check import import_hook

from support.forked_python import run_python


def _start_recorder() -> None:
    # Threads of PyTorch would wait for each other if tests share the processors.
    sys.modules["torch"].set_num_threads(1)
    path = Path(import_hook.__file__).with_name("recorder.py")
    spec = importlib.util.spec_from_file_location(import_hook.RECORDER, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.start()


def run_in_fork(name: str, command: Sequence[str], environment: Mapping[str, str], timeout: float) -> tuple[int, str]:
    """Does what `runs._run` does, in a fork."""
    try:
        done = run_python(command[1:], environment=environment, before=_start_recorder, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise ReproError(f"{name} did not end within {timeout:g} s") from None
    return done.returncode, done.stdout + done.stderr
