# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A prover that waits for a referee, among strangers."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

from repro_mlir.audit.dispute import bounds, connection, quotas
from repro_mlir.audit.dispute.connection import Stranger
from repro_mlir.audit.dispute.folder import Folder
from repro_mlir.audit.dispute.messages import refusal
from repro_mlir.audit.dispute.prover import Prover
from repro_mlir.audit.dispute.runs import Run
from repro_mlir.audit.dispute.tokens import NO_TOKEN

_POLL = 0.05


def serve_socket(
    run: Run, listener: socket.socket, token: bytes = NO_TOKEN, total: float = quotas.TOTAL_SECONDS
) -> int:
    """Answers a referee who connects to `listener`, shows that it knows the token, asks, and closes the connection.

    Others may connect meanwhile: they are given a few seconds and no work.

    Args:
      total: seconds that a party has for all its answers; see `quotas.patience`.
    Returns:
      how many questions were answered.
    """
    return _Server(run, token, total).serve(listener)


def serve_files(run: Run, folder: Path, total: float = quotas.TOTAL_SECONDS) -> int:
    """Answers question-N.json in `folder` with answer-N.json, N from 1, until none comes any more.

    Args:
      total: as for `serve_socket`.
    Returns:
      how many questions were answered.
    Raises:
      ReproError: a folder that others can write to or that was used before, or a question that is no file.
    """
    files = Folder(folder)
    files.check("answer")
    prover = Prover(run)
    answered = 0
    with suppress(TimeoutError):
        while True:
            limit = bounds.question_bytes(run.graphs)
            question = files.read("question", answered + 1, limit, time.monotonic() + quotas.patience(total))
            files.write("answer", answered + 1, _answer(prover, question))
            answered += 1
    return answered


def _answer(prover: Prover, question: bytes) -> bytes:
    """The prover's answer; where the run cannot be repeated here, that there is none."""
    try:
        return prover.answer(question)
    except Exception as error:
        return refusal(f"the run cannot be repeated: {error}")


class _Peer:
    """Whoever has connected.

    Attributes:
      admitted: whether it has shown that it knows the token.
      answered: the questions that were answered.
      asks: whether one is being answered.
    """

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.admitted = False
        self.answered = 0
        self.asks = False

    def hang_up(self) -> None:
        """Wakes the thread that waits for the other end."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class _Server:
    """A thread for each of a bounded number of peers; where one more connects, a stranger is disconnected."""

    def __init__(self, run: Run, token: bytes, total: float) -> None:
        self._run = run
        self._token = token
        self._patience = quotas.patience(total)
        self._question_limit = bounds.question_bytes(run.graphs)
        self._peers: dict[_Peer, threading.Thread] = {}
        # Of the dictionary; and of the run, of which one question is answered at a time.
        self._lock, self._work = threading.Lock(), threading.Lock()
        self._referee: _Peer | None = None
        self._ended = threading.Event()

    def serve(self, listener: socket.socket) -> int:
        listener.settimeout(_POLL)
        while not self._ended.is_set():
            try:
                connected, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                # A peer that has gone already, or more of them than this process may have files.
                time.sleep(_POLL)
                continue
            self._begin(_Peer(connected))
        with self._lock:
            left = list(self._peers.items())
        for peer, thread in left:
            peer.hang_up()
            thread.join()
        assert self._referee is not None
        return self._referee.answered

    def _begin(self, peer: _Peer) -> None:
        thread = threading.Thread(target=self._converse, args=(peer,), daemon=True)
        with self._lock:
            if len(self._peers) >= quotas.CONNECTIONS:
                stranger = self._stranger()
                if stranger is None:
                    peer.socket.close()
                    return
                del self._peers[stranger]
                stranger.hang_up()
            self._peers[peer] = thread
        thread.start()

    def _stranger(self) -> _Peer | None:
        """The peer that has been silent for longest, of those that may be disconnected."""
        silent = [peer for peer in self._peers if not peer.admitted]
        if not silent and self._token == NO_TOKEN:
            # Anybody can be admitted, so that only a question tells a referee from a stranger.
            silent = [peer for peer in self._peers if not (peer.answered or peer.asks)]
        return next(iter(silent), None)

    def _admit(self, peer: _Peer) -> None:
        with self._lock:
            if peer not in self._peers:
                raise Stranger("it was disconnected for another")
            peer.admitted = True

    def _converse(self, peer: _Peer) -> None:
        # A peer that hangs up, is too slow or talks nonsense ends its own thread and nothing else.
        with peer.socket, suppress(OSError, EOFError, ValueError, Stranger):
            deadline = time.monotonic() + quotas.HANDSHAKE_SECONDS
            link = connection.accept(peer.socket, self._token, deadline, lambda: self._admit(peer))
            prover = Prover(self._run)
            while True:
                question = link.receive(self._question_limit, time.monotonic() + self._patience)
                peer.asks = True
                with self._work:
                    answer = _answer(prover, question)
                link.send(answer, time.monotonic() + self._patience)
                peer.answered += 1
                peer.asks = False
        with self._lock:
            self._peers.pop(peer, None)
            if peer.answered and self._referee is None:
                self._referee = peer
                self._ended.set()
