# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A folder through which a referee and a prover of the same user exchange messages.

answer-N.json answers question-N.json, with N from 1; each file appears atomically. The file `ended` appears after the
last message. Only the folder's owner may write to it, so that no other user can add a file, and a file is read only if
it is regular and no larger than the limit.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.regular import read_regular
from repro_mlir.base.output_paths import refuse_inside_receipt

_POLL = 0.02
_ENDED = "ended"


class ConversationEnded(Exception):
    """Raised if the other side has ended the conversation."""


class Folder:
    """The message files of one dispute."""

    def __init__(self, path: Path) -> None:
        """Raises ReproError if the folder is within a receipt, which messages would make wrong."""
        refuse_inside_receipt(path)
        self._path = path

    def check(self, *empty_of: str) -> None:
        """Raises ReproError if other users can write to the folder, or if messages with a name in `empty_of`, such as
        "question", or the end of a conversation are already there: these belong to another dispute."""
        try:
            status = os.stat(self._path)
            is_folder = stat.S_ISDIR(status.st_mode)
        except (OSError, ValueError):
            is_folder = False
        if not is_folder:
            raise ReproError(f"{self._path}: expected a folder, found none: create it, or name another")
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise ReproError(f"{self._path}: expected a folder that you own and only you can write to (chmod go-w)")
        for name in empty_of:
            if os.path.lexists(self._file(name, 1)) or os.path.lexists(self._path / _ENDED):
                raise ReproError(f"{self._path}: expected a folder without messages of another dispute")

    def end(self) -> None:
        """Ends the conversation. Raises ReproError if the file cannot be written."""
        self._write(self._path / _ENDED, b"")

    def write(self, name: str, number: int, data: bytes) -> None:
        """Writes a message atomically. Raises ReproError if the message cannot be written."""
        self._write(self._file(name, number), data)

    def _write(self, path: Path, data: bytes) -> None:
        partial = path.with_suffix(".partial")
        try:
            partial.unlink(missing_ok=True)
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.replace(partial, path)
        except OSError as error:
            raise ReproError(f"cannot write {path}: {error.strerror}") from None

    def read(self, name: str, number: int, limit: int, deadline: float) -> bytes:
        """Waits for a message and returns its bytes.

        Raises:
          TimeoutError: if there is no message at the deadline (by time.monotonic).
          ConversationEnded: if there is no message, and the other side has ended the conversation.
          ReproError: if the message is not a regular file, or has more than `limit` bytes.
        """
        path = self._file(name, number)
        while not os.path.lexists(path):
            # A message that was written before the end is found first.
            if os.path.lexists(self._path / _ENDED) and not os.path.lexists(path):
                raise ConversationEnded
            if time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(_POLL)
        return read_regular(path, limit)

    def _file(self, name: str, number: int) -> Path:
        return self._path / f"{name}-{number}.json"
