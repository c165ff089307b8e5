# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A prover that waits for a referee."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from ..errors import ReproError
from .channels import FRAME, encode, receive, respond, write_at_once
from .prover import Prover

_LONGEST_QUESTION = 1 << 16
_POLL = 0.02


def serve_socket(prover: Prover, listener: socket.socket) -> int:
    """Answers the questions of one referee, who connects to `listener` and closes the connection at the end.

    Returns:
      how many questions were answered.
    """
    connection, _ = listener.accept()
    answered = 0
    with connection:
        while True:
            try:
                (size,) = FRAME.unpack(receive(connection, FRAME.size))
                if size > _LONGEST_QUESTION:
                    return answered
                question = receive(connection, size)
                answer = _answer(prover, question)
                connection.sendall(FRAME.pack(len(answer)) + answer)
            except (OSError, EOFError):
                return answered
            answered += 1


def serve_files(prover: Prover, folder: Path, idle: float) -> int:
    """Answers question-N.json in `folder` with answer-N.json, N from 1, until none has come for `idle` seconds.

    Returns:
      how many questions were answered.
    """
    answered = 0
    since = time.monotonic()
    while time.monotonic() - since < idle:
        question = folder / f"question-{answered + 1}.json"
        if not question.exists():
            time.sleep(_POLL)
            continue
        write_at_once(folder / f"answer-{answered + 1}.json", _answer(prover, question.read_bytes()))
        answered += 1
        since = time.monotonic()
    return answered


def _answer(prover: Prover, question: bytes) -> bytes:
    try:
        return respond(prover, question)
    except ReproError as error:
        return encode({"error": str(error)})
