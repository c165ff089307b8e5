# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""How a referee reaches a prover: in this process, over a socket, or through files in a folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

from repro_mlir.audit.dispute import connection
from repro_mlir.audit.dispute.folder import Folder
from repro_mlir.audit.dispute.prover import Prover
from repro_mlir.base.errors import SHORTAGES, ReproError
from repro_mlir.base.files.regular import TooLarge


class Silence(Exception):
    """No answer: too late, too long, or the connection is gone. The text says which."""


class TooLong(Silence):
    """An answer of more bytes than may be read; the next question can be asked."""


class Channel(Protocol):
    """The way to one prover."""

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        """Sends a question, returns the answer. Silence if none comes within `timeout` s, TooLong if it has more than
        `limit` bytes."""

    def close(self) -> None:
        """Ends the conversation."""


class LocalChannel:
    """A prover in this process. It is not interrupted: it is our own.

    ReproError where its run cannot be repeated here.
    """

    def __init__(self, prover: Prover) -> None:
        self._prover = prover

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        answer = self._prover.answer(question)
        if len(answer) > limit:
            raise TooLong(f"an answer of {len(answer)} bytes, expected at most {limit}")
        return answer

    def close(self) -> None:
        pass


class SocketChannel:
    """A prover at the other end of a connection."""

    def __init__(self, link: connection.Connection) -> None:
        self._connection = link

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        deadline = time.monotonic() + timeout
        try:
            self._connection.send(question, deadline)
            return self._connection.receive(limit, deadline)
        except TimeoutError:
            raise Silence(f"no answer within {timeout:g} s") from None
        except (OSError, EOFError) as error:
            if isinstance(error, OSError) and error.errno in SHORTAGES:
                # Our own: the other side is not to blame.
                raise
            raise Silence(f"the connection broke: {error}") from None
        except connection.TooLong as error:
            raise TooLong(str(error)) from None
        except ValueError as error:
            raise Silence(str(error)) from None

    def close(self) -> None:
        self._connection.close()


class FileChannel:
    """A prover that watches a folder."""

    def __init__(self, folder: Path) -> None:
        """ReproError for a folder that others can write to, or that was used before."""
        self._folder = Folder(folder)
        self._folder.check("question", "answer")
        self._count = 0

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        deadline = time.monotonic() + timeout
        self._count += 1
        # Where we cannot ask, nobody can answer.
        self._folder.write("question", self._count, question)
        try:
            return self._folder.read("answer", self._count, limit, deadline)
        except TimeoutError:
            raise Silence(f"no answer within {timeout:g} s") from None
        except TooLarge as error:
            raise TooLong(str(error)) from None
        except ReproError as error:
            raise Silence(str(error)) from None

    def close(self) -> None:
        pass
