# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""How a referee reaches a prover: in this process, over a socket, or through files in a folder."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from pathlib import Path
from typing import Any, Protocol

from ..errors import ReceiptWrong
from .prover import Prover, QuestionError

FRAME = struct.Struct("<I")
"""Before each message of a socket: its length in bytes."""

_POLL = 0.02


class Silence(Exception):
    """No answer: too late, too long, or the connection is gone. The text says which."""


class Channel(Protocol):
    """The way to one prover."""

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        """Sends a question, returns the answer. Silence if none of at most `limit` bytes comes within `timeout` s."""

    def close(self) -> None:
        """Ends the conversation."""


def encode(message: dict[str, Any]) -> bytes:
    """A message as it travels: JSON in ASCII."""
    return json.dumps(message, separators=(",", ":"), ensure_ascii=True).encode()


def respond(prover: Prover, question: bytes) -> bytes:
    """The bytes of a prover's answer; a question that has none, or a run that contradicts itself, gets
    {"error": ...}. ReproError where the run cannot be repeated here."""
    try:
        asked = json.loads(question)
        if not isinstance(asked, dict):
            raise QuestionError(f"expected an object, got {type(asked).__name__}")
        return encode(prover.answer(asked))
    except (ReceiptWrong, ValueError) as error:
        return encode({"error": str(error)})


class LocalChannel:
    """A prover in this process. It is not interrupted: it is our own."""

    def __init__(self, prover: Prover) -> None:
        self._prover = prover

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        answer = respond(self._prover, question)
        if len(answer) > limit:
            raise Silence(f"an answer of {len(answer)} bytes, expected at most {limit}")
        return answer

    def close(self) -> None:
        pass


class SocketChannel:
    """A prover behind a connected socket; each message is its length (u32, little-endian) and JSON."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        deadline = time.monotonic() + timeout
        try:
            self._connection.settimeout(timeout)
            self._connection.sendall(FRAME.pack(len(question)) + question)
            (size,) = FRAME.unpack(receive(self._connection, FRAME.size, deadline))
            if size > limit:
                raise Silence(f"an answer of {size} bytes, expected at most {limit}")
            return receive(self._connection, size, deadline)
        except TimeoutError:
            raise Silence(f"no answer within {timeout:g} s") from None
        except (OSError, EOFError) as error:
            raise Silence(f"the connection broke: {error}") from None

    def close(self) -> None:
        self._connection.close()


def receive(connection: socket.socket, size: int, deadline: float | None = None) -> bytes:
    """Exactly `size` bytes. TimeoutError after the deadline (by time.monotonic), EOFError if the other end closed."""
    parts = []
    while size:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            connection.settimeout(left)
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise EOFError("closed by the other end")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class FileChannel:
    """A prover that watches a folder: question-N.json is answered by answer-N.json, N from 1."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        deadline = time.monotonic() + timeout
        self._count += 1
        answer = self._folder / f"answer-{self._count}.json"
        try:
            write_at_once(self._folder / f"question-{self._count}.json", question)
            while not answer.exists():
                if time.monotonic() > deadline:
                    raise Silence(f"no answer within {timeout:g} s")
                time.sleep(_POLL)
            size = answer.stat().st_size
            if size > limit:
                raise Silence(f"an answer of {size} bytes, expected at most {limit}")
            return answer.read_bytes()
        except OSError as error:
            raise Silence(f"{error.filename or self._folder}: {error.strerror}") from None

    def close(self) -> None:
        pass


def write_at_once(path: Path, data: bytes) -> None:
    """Writes a file that appears with all its content."""
    partial = path.with_suffix(".partial")
    partial.write_bytes(data)
    os.replace(partial, path)
