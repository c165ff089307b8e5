# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs scripts for the check in forks of one process that has imported PyTorch, which takes most of the time of a
short script."""

import atexit
import contextlib
import importlib.util
import multiprocessing
import os
import runpy
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from repro_mlir.base.errors import ReproError
from repro_mlir.resume_check import import_hook

_FORKS = multiprocessing.get_context("forkserver")
# The constructor of an optimizer imports Dynamo.
_FORKS.set_forkserver_preload(["torch", "torch._dynamo", "numpy", "pytest", "repro_mlir.resume_check.runs"])


def _start_recorder() -> None:
    path = Path(import_hook.__file__).with_name("recorder.py")
    spec = importlib.util.spec_from_file_location(import_hook.RECORDER, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.start()


def _run_here(command: Sequence[str], environment: Mapping[str, str], output: str) -> None:
    os.environ.update(environment)
    sys.argv = [*command[1:]]
    status = 0
    with open(output, "w") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        try:
            # Threads of PyTorch would wait for each other if tests share the processors.
            sys.modules["torch"].set_num_threads(1)
            _start_recorder()
            runpy.run_path(command[1], run_name="__main__")
        except SystemExit as error:
            status = status_of(error)
        except BaseException:
            traceback.print_exc()
            status = 1
        atexit._run_exitfuncs()
    os._exit(status)


def status_of(end: SystemExit) -> int:
    """Returns the exit status that Python gives for sys.exit; writes another object than a number to stderr."""
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    print(end.code, file=sys.stderr)
    return 1


def run_in_fork(name: str, command: Sequence[str], environment: Mapping[str, str], timeout: float) -> tuple[int, str]:
    """Does what `runs._run` does, in a fork."""
    output = Path(environment["PYTHONPATH"].split(os.pathsep)[0]) / "output"
    process = _FORKS.Process(target=_run_here, args=(command, dict(environment), str(output)))
    process.start()
    process.join(timeout)
    if process.is_alive():
        process.kill()
        process.join()
        raise ReproError(f"{name} did not end within {timeout:g} s")
    return process.exitcode, output.read_text()
