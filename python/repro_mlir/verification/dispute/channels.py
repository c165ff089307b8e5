# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Channels from a referee to a prover: in this process, over a socket, or through files in a folder."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from repro_mlir.base.errors import SHORTAGES, ReproError
from repro_mlir.base.files.regular import TooLarge
from repro_mlir.base.progress import working
from repro_mlir.verification.dispute import connection
from repro_mlir.verification.dispute.folder import ConversationEnded, Folder
from repro_mlir.verification.dispute.prover import Prover

_WAITING = "waiting for a prover's answer"


class Silence(Exception):
    """Raised if the answer is late or too long, or if the connection is closed. The text states which of these is the
    case."""


class AnswerTooLong(Silence):
    """Raised if an answer exceeds the limit; the channel stays usable for the next question."""


class Channel(Protocol):
    """A connection to one prover."""

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        """Sends a question and returns the answer.

        Raises:
          Silence: if no answer arrives within `timeout` seconds.
          AnswerTooLong: if the answer has more than `limit` bytes.
        """

    def close(self) -> None:
        """Closes the channel."""


class LocalChannel:
    """A channel to a prover in this process. The prover is trusted, so there is no timeout.

    `exchange` raises ReproError if the prover's run cannot be repeated on this machine.
    """

    def __init__(self, prover: Prover) -> None:
        self._prover = prover

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        answer = self._prover.answer(question)
        if len(answer) > limit:
            raise AnswerTooLong(f"an answer of {len(answer):,} bytes, expected at most {limit:,}")
        return answer

    def close(self) -> None:
        pass


class SocketChannel:
    """A channel to a prover at the other end of a connection."""

    def __init__(self, link: connection.Connection) -> None:
        self._connection = link

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        deadline = time.monotonic() + timeout
        try:
            with working(_WAITING):
                self._connection.send(question, deadline)
                return self._connection.receive(limit, deadline)
        except TimeoutError:
            raise Silence(f"no answer within {timeout:g} s") from None
        except (OSError, EOFError) as error:
            if isinstance(error, OSError) and error.errno in SHORTAGES:
                # This process has run out of a resource; the other side is not to blame.
                raise
            raise Silence(f"the connection broke: {error}") from None
        except connection.MessageTooLong as error:
            raise AnswerTooLong(str(error)) from None
        except ValueError as error:
            raise Silence(str(error)) from None

    def close(self) -> None:
        self._connection.close()


class FileChannel:
    """A channel to a prover that watches a folder."""

    def __init__(self, folder: Path) -> None:
        """Raises ReproError if other users can write to the folder, or it contains messages of another dispute."""
        self._folder = Folder(folder)
        self._folder.check("question", "answer")
        self._count = 0

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        deadline = time.monotonic() + timeout
        self._count += 1
        # A failure to write the question is an error of the referee, not the prover's silence, so it is outside `try`.
        self._folder.write("question", self._count, question)
        try:
            with working(_WAITING):
                return self._folder.read("answer", self._count, limit, deadline)
        except TimeoutError:
            raise Silence(f"no answer within {timeout:g} s") from None
        except TooLarge as error:
            raise AnswerTooLong(str(error)) from None
        except ConversationEnded:
            raise Silence("the conversation has ended") from None
        except ReproError as error:
            raise Silence(str(error)) from None

    def close(self) -> None:
        # If the file cannot be written, the prover waits until its time is over; the verdict does not depend on it.
        with suppress(ReproError):
            self._folder.end()
