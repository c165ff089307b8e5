# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Sends requests to child processes and converts their exit statuses to errors."""

from __future__ import annotations

import atexit
import functools
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from typing import Any

from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.base.limits import VARIABLE, Limits, limits
from repro_mlir.base.printing import foreign
from repro_mlir.base.registry import registered
from repro_mlir.sandbox.protocol import ENDING, HEADER, OUT_OF_MEMORY
from repro_mlir.sandbox.text import check_size, check_text

# The environment variables that a child process gets. Other variables are not passed, since they may contain secrets.
_KEPT = ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "TMPDIR", "LANG", "LC_ALL")
_GRACE_SECONDS = 10
"""Additional time to receive an answer after its header has arrived in time."""


class NoProgram(ReproError):
    """Raised when the data is not a canonical program. Unlike an exceeded time limit, this error does not depend on the
    machine that reads the data."""


def admit(data: bytes, seconds: float | None = None) -> bytes:
    """Reads and verifies an untrusted stored program in a child process.

    Args:
      data: the stored program.
      seconds: the time limit; None uses `Limits.read_seconds`.
    Returns:
      The same bytes, which this process can now read safely.
    Raises:
      NoProgram: the bytes are not a stored program.
      ReproError: the program exceeds the limits, crashes the child or takes too long.
    """
    bounds = limits()
    check_size(data, bounds)
    _SERVER.ask("read", data, bounds.read_seconds if seconds is None else seconds, "read", **_sizes(bounds))
    return data


def import_module(data: bytes, *, is_text: bool) -> bytes:
    """Imports an untrusted MLIR module in a child process; returns the stored canonical program (program/modules.py).

    Raises:
      ReproError: the import fails (the message is its first error); also for the same reasons as `admit`.
    """
    bounds = limits()
    check_size(data, bounds)
    if is_text:
        check_text(data, bounds)
    return _SERVER.ask("import_module", data, bounds.read_seconds, "imported", **_sizes(bounds))


def _sizes(bounds: Limits) -> dict[str, int]:
    return {"constant_bytes": bounds.constant_bytes, "tensor_bytes": bounds.tensor_bytes}


def compile_native(data: bytes, level: str) -> bytes:
    """Runs `compilation.cpu.compile` in a child process. Raises ReproError for any failure."""
    return _SERVER.ask("compile_native", data, limits().compile_seconds, f"compiled for {level}", level=level)


def analyze_native(data: bytes, level: str) -> bytes:
    """Runs `compilation.cpu.analyze` in a child process; returns the encoded `Analysis`. Raises ReproError for any
    failure."""
    return _SERVER.ask("analyze_native", data, limits().compile_seconds, f"analyzed for {level}", level=level)


def compile_cores(data: bytes, machine: str, text: str, level: str) -> bytes:
    """Runs `compilation.cores.compile` in a child process, for the machine with this name and text. Raises ReproError
    for any failure."""
    options = {"machine": machine, "text": text, "level": level}
    return _SERVER.ask("compile_cores", data, limits().compile_seconds, f"compiled for {machine}", **options)


def describe_cores(data: bytes, machine: str, text: str) -> bytes:
    """Runs `compilation.cores.describe` in a child process, for the machine with this name and text. Raises ReproError
    for any failure."""
    options = {"machine": machine, "text": text}
    return _SERVER.ask("describe_cores", data, limits().compile_seconds, f"mapped onto {machine}", **options)


def compile_step(data: bytes, name: str, initial: Sequence[bytes]) -> bytes:
    """Runs `compilation.microcontroller.make_object` in a child process; returns the encoded `StepObject`. Raises
    ReproError for any failure."""
    sizes = [len(each) for each in (data, *initial)]
    return _SERVER.ask(
        "compile_step",
        b"".join((data, *initial)),
        limits().compile_seconds,
        "compiled for a microcontroller",
        name=name,
        sizes=sizes,
    )


def compile_device(data: bytes, architecture: str, assembled: bool) -> bytes:
    """Runs `compilation.device_code.compile_data` in a child process. Raises ReproError for any failure."""
    return _SERVER.ask(
        "compile_device",
        data,
        limits().compile_seconds,
        f"compiled for {architecture}",
        architecture=architecture,
        assembled=assembled,
    )


def interpret(data: bytes, inputs: bytes) -> bytes:
    """Computes the outputs of a program without state. Runs the reference interpreter in a child process.

    Args:
      data: a program that `admit` has accepted.
      inputs: the concatenated bytes (H1) of the inputs.
    Returns:
      The concatenated bytes (H1) of the outputs.
    Raises:
      StepFailed: a check of the program fails (E1).
      ReproError: the program needs too much time or memory.
    """
    options = {"program_bytes": len(data)}
    answer = _SERVER.ask("interpret", data + inputs, limits().operator_seconds, "recomputed", **options)
    if answer[:1] == b"!":
        raise StepFailed(answer[1:].decode())
    return answer[1:]


@functools.cache
def can_confine() -> bool:
    """Returns whether this system can limit the resources of child processes as server.py does: Linux. Elsewhere this
    process does the work itself, with a warning. The work can then be limited only by sizes, not by time and memory."""
    try:
        import resource  # noqa: F401
    except ImportError:
        return False
    return sys.platform == "linux" and hasattr(os, "fork")


class _Late(Exception):
    """Raised when an answer does not arrive before the deadline."""


class _Server:
    """The server process, which forks a child for each request. It starts at the first request."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forgets the server process without ending it. Called after a fork, since the server belongs to the parent
        process."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._owner = 0

    def ask(self, work: str, data: bytes, seconds: float, done: str, **options: Any) -> bytes:
        """Sends a request and returns the answer of the child.

        Args:
          work: a key of `sandbox_worker.work.WORK`.
          seconds: the time limit.
          done: a participle that names the work in error messages, such as "compiled".
          options: the keyword arguments of the work function.
        """
        request = json.dumps({"work": work, "options": options}).encode() + b"\n" + data
        status, answer, last = self.exchange(request, seconds, done)
        if status == 0 and answer[:1] == b"+":
            return answer[1:]
        if status == 0:
            reason = foreign(answer[1:].decode(errors="replace"), 1000)
            if answer[:1] == b"-":
                raise NoProgram(f"the program cannot be {done}: {reason}")
            raise ReproError(f"the program could not be {done}: {reason}")
        raise ReproError(f"the program could not be {done}: {_ending(status, last, limits().memory_bytes)}")

    def exchange(self, request: bytes, seconds: float, done: str) -> tuple[int, bytes, bytes]:
        """Sends a request (sandbox_worker/work.py) to the server, which forks a child for it. Returns the child's exit
        status, its answer, and the last part of its error output. Without child processes, this process does the work
        and returns status 0."""
        if not can_confine():
            # Python shows a warning of one line of code once.
            warnings.warn(
                f"programs are read without limits on time and memory, which this package sets on Linux only "
                f"({sys.platform}): interrupt the process if it takes too long",
                RuntimeWarning,
                stacklevel=3,
            )
            worker = registered("sandbox worker")
            assert worker is not None
            return 0, worker.perform(request), b""
        bounds = limits()
        # The limit on processor time is multiplied by the number of processors, since the times of threads add up. The
        # deadline limits the wall-clock time.
        processor = math.ceil(seconds) * (os.cpu_count() or 1)
        header = HEADER.pack(len(request), processor, bounds.memory_bytes, bounds.result_bytes)
        with self._lock:
            try:
                channel = self._started()
                deadline = time.monotonic() + seconds
                _send(channel, header, deadline)
                _send(channel, request, deadline)
                status, size, told = ENDING.unpack(_receive(channel, ENDING.size, deadline))
                answer = _receive(channel, size, deadline + _GRACE_SECONDS)
                return status, answer, _receive(channel, told, deadline + _GRACE_SECONDS)
            except _Late:
                self.stop()
                raise ReproError(
                    f"the program could not be {done} within {seconds:.3g} s "
                    f"(see {VARIABLE} in docs/verification/security.md)"
                ) from None
            except OSError as error:
                self.stop()
                raise ReproError(
                    f"the program could not be {done}: the connection to the child process failed ({error})"
                ) from None
            except BaseException:
                # After an interrupt it is unknown which messages are still in the channel, so the server is ended.
                self.stop()
                raise

    def _started(self) -> socket.socket:
        if self._channel is not None and self._owner == os.getpid():
            return self._channel
        ours, theirs = socket.socketpair()
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environment |= {
            "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path if path),
            # Each thread reserves address space, and the address space of a child is limited.
            "OPENBLAS_NUM_THREADS": "1",
            "MALLOC_ARENA_MAX": "4",
        }
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "repro_mlir.sandbox_worker"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        self._channel, self._owner = ours, os.getpid()
        return ours

    def stop(self) -> None:
        """Ends the server and the child that it has forked, if they are running."""
        channel, process = self._channel, self._process
        self._channel = self._process = None
        if channel is not None:
            channel.close()
        if process is not None and self._owner == os.getpid():
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def _send(channel: socket.socket, data: bytes, deadline: float) -> None:
    rest = memoryview(data)
    while rest:
        try:
            channel.settimeout(max(deadline - time.monotonic(), 0.001))
            rest = rest[channel.send(rest[: 1 << 20]) :]
        except TimeoutError:
            raise _Late from None


def _receive(channel: socket.socket, size: int, deadline: float) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        try:
            channel.settimeout(max(deadline - time.monotonic(), 0.001))
            part = channel.recv(min(size - len(parts), 1 << 20))
        except TimeoutError:
            raise _Late from None
        if not part:
            raise ConnectionError("the child process closed it")
        parts += part
    return bytes(parts)


def _ending(status: int, told: bytes, memory: int) -> str:
    """Describes why a child ended, from its exit status and its last error output."""
    import resource

    text = told.decode(errors="replace")
    if status == OUT_OF_MEMORY or "out of memory" in text or "bad_alloc" in text:
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        if most != resource.RLIM_INFINITY and most < memory:
            return f"it needs more than {most / (1 << 30):.3g} GiB of memory, the limit of ulimit -v"
        gib = f"{memory / (1 << 30):g} GiB"
        return f"it needs more than {gib} of memory (see {VARIABLE} in docs/verification/security.md)"
    if status == -signal.SIGXCPU:
        return "it exceeds the limit of processor time"
    if status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        lines = [line for line in text.splitlines() if line.strip()]
        return f"the child process ended by {name}" + (f" ({foreign(lines[-1])})" if lines else "")
    return f"the child process ended with status {status}"


_SERVER = _Server()
if hasattr(os, "register_at_fork"):
    # A forked process must not use its parent's server. It also needs a new lock, since another thread of the parent
    # may hold the old one.
    os.register_at_fork(after_in_child=_SERVER.forget)
atexit.register(_SERVER.stop)
