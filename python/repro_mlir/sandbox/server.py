# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The main loop of the server process, which forks a child for each request.

requests.py runs it as `python -m repro_mlir.sandbox_worker`, with a socket as descriptor 0. The server itself never
parses a program. A header with limits precedes each request; the exit status of the child precedes each answer.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
from collections.abc import Callable
from typing import NoReturn

from repro_mlir.base.child_processes import end_with_parent
from repro_mlir.sandbox.protocol import ENDING, HEADER, OUT_OF_MEMORY

_STACK_BYTES = 4 << 20
"""The stack size of a child: smaller than any stack of the caller, so that a program that passes here does not overflow
the caller's stack."""

_FILES = 64
_TOLD_BYTES = 2000


def receive(channel: socket.socket, size: int) -> bytes | None:
    """Receives exactly `size` bytes; returns None if the peer has closed the connection."""
    parts = bytearray()
    while len(parts) < size:
        part = channel.recv(min(size - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def serve(perform: Callable[[bytes], bytes]) -> None:
    """Serves requests until the peer closes the connection. Each request is answered by a forked child, which calls
    `perform`."""
    channel = socket.socket(fileno=0)
    while (header := receive(channel, HEADER.size)) is not None:
        size, seconds, memory, result_bytes = HEADER.unpack(header)
        request = receive(channel, size)
        if request is None:
            return
        told = os.memfd_create("errors", os.MFD_CLOEXEC)
        source, sink = os.pipe()
        server, child = os.getpid(), os.fork()
        if child == 0:
            end_with_parent(server)
            os.close(source)
            _confine(told, seconds, memory, result_bytes)
            _perform(perform, request, sink)
        os.close(sink)
        answer = _read_all(source, result_bytes, channel)
        if answer is None:
            os.kill(child, signal.SIGKILL)
            return
        _, ended = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(ended)
        last = os.pread(told, _TOLD_BYTES, max(0, os.fstat(told).st_size - _TOLD_BYTES))
        os.close(told)
        channel.sendall(ENDING.pack(code, len(answer), len(last)) + answer + last)


def _read_all(source: int, most: int, channel: socket.socket) -> bytes | None:
    """Reads the output of a child up to its end, at most `most` bytes, and closes `source`. Returns None if the peer
    has closed the connection."""
    parts = bytearray()
    while len(parts) < most:
        ready, _, _ = select.select([source, channel.fileno()], [], [])
        # The peer sends no new request before it has the answer. So if the channel is readable but has no data, the
        # peer has closed it.
        if channel.fileno() in ready and not channel.recv(1, socket.MSG_PEEK):
            return None
        part = os.read(source, min(most - len(parts), 1 << 20)) if source in ready else None
        if part == b"":
            break
        parts += part or b""
    os.close(source)
    return bytes(parts)


def _confine(told: int, seconds: int, memory: int, result_bytes: int) -> None:
    """Sets the resource limits of the child process and redirects its standard descriptors. This also closes the
    channel, which is descriptor 0."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.dup2(told, 2)
    for kind, limit in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, result_bytes),
        (resource.RLIMIT_NOFILE, _FILES),
        (resource.RLIMIT_STACK, _STACK_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, most = resource.getrlimit(kind)
        allowed = limit if most == resource.RLIM_INFINITY else min(limit, most)
        resource.setrlimit(kind, (allowed, allowed))
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def _perform(perform: Callable[[bytes], bytes], request: bytes, sink: int) -> NoReturn:
    status = 1
    try:
        answer = memoryview(perform(request))
        while answer:
            answer = answer[os.write(sink, answer[: 1 << 20]) :]
        status = 0
    except MemoryError:
        status = OUT_OF_MEMORY
    finally:
        os._exit(status)
