# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs Python commands in forks of one process, the fork server, which has imported PyTorch and this package. The
imports take most of the time of a short command.

A fork has its own arguments, folder, environment, standard streams and search path of modules. A test starts a process
of its own with `subprocess` if it examines the start or the end of Python, imports, or limits of the system, and if it
sets variables that libraries read when they are loaded, such as OMP_NUM_THREADS.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_FORKS = multiprocessing.get_context("forkserver")
# Imports start no threads of PyTorch, which a fork would lack. The constructor of an optimizer imports Dynamo.
_FORKS.set_forkserver_preload(
    [
        *("numpy", "torch", "torch._dynamo", "torch_mlir", "pytest"),
        *("repro_mlir.cli.main", "repro_mlir.frontends.torch.capture.programs", "repro_mlir.train.trainer"),
        "repro_mlir.resume_check.runs",
    ]
)

_STREAMS = ("input", "output", "errors")


class ForkedPython:
    """A running command in a fork."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        data: str = "",
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        before: Callable[[], object] | None = None,
    ) -> None:
        """Starts `python ARGUMENTS`.

        Args:
          arguments: a script, `-c` and code, or `-m` and a module; then the arguments of the program.
          data: the standard input.
          cwd: the folder in which the command runs; by default that of this process.
          environment: all variables; by default those of this process.
          before: a function of a module, which the fork calls first.
        """
        self.arguments = arguments
        self._folder = tempfile.TemporaryDirectory(prefix="repro-fork-")
        streams = [str(Path(self._folder.name) / each) for each in _STREAMS]
        Path(streams[0]).write_text(data)
        variables = dict(os.environ if environment is None else environment)
        folder = str(cwd or Path.cwd())
        self._process = _FORKS.Process(
            target=_run_here, args=([*map(str, arguments)], streams, folder, variables, _standard_path(), before)
        )
        self._process.start()

    def wait(self, timeout: float | None = 300) -> subprocess.CompletedProcess[str]:
        """Waits for the end of the command and returns what `subprocess.run` returns.

        Raises:
          subprocess.TimeoutExpired: the command has not ended after `timeout` seconds, and has been killed.
        """
        try:
            self._process.join(timeout)
        finally:
            is_late = self._process.is_alive()
            if is_late:
                self._process.kill()
                self._process.join()
        output, errors = ((Path(self._folder.name) / each).read_text() for each in _STREAMS[1:])
        self._folder.cleanup()
        if is_late:
            assert timeout is not None
            raise subprocess.TimeoutExpired([*self.arguments], timeout, output, errors)
        status = self._process.exitcode
        assert status is not None
        return subprocess.CompletedProcess([*self.arguments], status, output, errors)


def run_python(
    arguments: Sequence[str],
    *,
    data: str = "",
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    before: Callable[[], object] | None = None,
    timeout: float | None = 300,
) -> subprocess.CompletedProcess[str]:
    """Runs a command in a fork to its end; see `ForkedPython`."""
    return ForkedPython(arguments, data=data, cwd=cwd, environment=environment, before=before).wait(timeout)


@functools.cache
def _standard_path() -> list[str]:
    """Returns the search path of modules of a new process without PYTHONPATH. This process, which the fork server
    imitates, has a longer one."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", "import sys; print(*sys.path[1:], sep='\\n')"]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout.splitlines()


def _run_here(
    arguments: list[str],
    streams: list[str],
    cwd: str,
    environment: dict[str, str],
    standard_path: list[str],
    before: Callable[[], object] | None,
) -> None:
    """Runs the command in this process, the fork. `multiprocessing` ends the fork, with the status of SystemExit."""
    for number, path in enumerate(streams):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    # The start method of the fork server is not that of a new process.
    multiprocessing.set_start_method(None, force=True)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    first, *rest = arguments
    name = rest.pop(0) if first in ("-c", "-m") else first
    sys.argv = ["-c" if first == "-c" else name, *rest]
    folder = {"-c": "", "-m": cwd}.get(first, os.path.dirname(os.path.abspath(name)))
    sys.path[:] = [folder, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)), *standard_path]
    importlib.invalidate_caches()
    # New processes draw different random numbers.
    sys.modules["torch"].seed()
    sys.modules["numpy"].random.seed()
    try:
        if before is not None:
            before()
        if first == "-c":
            main = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(name, "<string>", "exec"), main.__dict__)
        elif first == "-m":
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(name, run_name="__main__")
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
    finally:
        # The fork server ends forks without the functions of `atexit`.
        atexit._run_exitfuncs()
