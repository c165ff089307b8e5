# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Serves a prover to a referee, while processes without the token may connect too."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

from repro_mlir.verification.dispute import bounds, connection, quotas
from repro_mlir.verification.dispute.connection import Stranger
from repro_mlir.verification.dispute.folder import ConversationEnded, Folder
from repro_mlir.verification.dispute.messages import refusal
from repro_mlir.verification.dispute.prover import Prover
from repro_mlir.verification.dispute.runs import Run
from repro_mlir.verification.dispute.tokens import NO_TOKEN

_POLL = 0.05


def serve_socket(
    run: Run, listener: socket.socket, token: bytes = NO_TOKEN, total: float = quotas.TOTAL_SECONDS
) -> int:
    """Answers one referee, which connects to `listener`, proves that it knows the token, asks its questions, and closes
    the connection.

    Other processes may connect meanwhile; each is disconnected after a few seconds and causes no computation.

    Args:
      total: the seconds that a party has for all its answers; see `quotas.patience`.
    Returns:
      the number of questions answered.
    """
    return _Server(run, token, total).serve(listener)


def serve_files(run: Run, folder: Path, total: float = quotas.TOTAL_SECONDS) -> int:
    """Answers question-N.json in `folder` with answer-N.json, N from 1, until the referee ends the conversation or the
    wait for a question times out.

    Args:
      total: as for `serve_socket`.
    Returns:
      the number of questions answered.
    Raises:
      ReproError: if other users can write to the folder, the folder was used before, or a question is not a regular
        file.
    """
    files = Folder(folder)
    files.check("answer")
    prover = Prover(run)
    answered = 0
    with suppress(TimeoutError, ConversationEnded):
        while True:
            limit = bounds.question_bytes(run.graphs)
            question = files.read("question", answered + 1, limit, time.monotonic() + quotas.patience(total))
            files.write("answer", answered + 1, _answer(prover, question))
            answered += 1
    return answered


def _answer(prover: Prover, question: bytes) -> bytes:
    """Returns the prover's answer; a refusal if the run cannot be repeated on this machine."""
    try:
        return prover.answer(question)
    except Exception as error:
        return refusal(f"the run cannot be repeated: {error}")


class _Peer:
    """The other end of a connection.

    Attributes:
      admitted: whether the peer has proven that it knows the token.
      answered: the number of the peer's questions that were answered.
      asks: whether a question of the peer is being answered.
    """

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.admitted = False
        self.answered = 0
        self.asks = False

    def hang_up(self) -> None:
        """Shuts the connection down, which wakes the thread that waits for the peer."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class _Server:
    """Runs one thread per peer. At the maximum number of peers, a new peer displaces one that has not shown that it is
    the referee."""

    def __init__(self, run: Run, token: bytes, total: float) -> None:
        self._run = run
        self._token = token
        self._patience = quotas.patience(total)
        self._question_limit = bounds.question_bytes(run.graphs)
        self._peers: dict[_Peer, threading.Thread] = {}
        # `_lock` guards `_peers` and `_referee`; `_work` lets one question at a time use the run.
        self._lock, self._work = threading.Lock(), threading.Lock()
        self._referee: _Peer | None = None
        self._ended = threading.Event()

    def serve(self, listener: socket.socket) -> int:
        """Accepts peers until one of them has asked questions and disconnected; returns the number of its questions."""
        listener.settimeout(_POLL)
        while not self._ended.is_set():
            try:
                connected, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                # The peer has already closed the connection, or this process has no file descriptors left.
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
        """Returns the oldest peer that may be disconnected; None if there is none."""
        silent = [peer for peer in self._peers if not peer.admitted]
        if not silent and self._token == NO_TOKEN:
            # Without a token every peer is admitted, so only a question shows that a peer is the referee.
            silent = [peer for peer in self._peers if not (peer.answered or peer.asks)]
        return next(iter(silent), None)

    def _admit(self, peer: _Peer) -> None:
        with self._lock:
            if peer not in self._peers:
                raise Stranger("another connection took its place")
            peer.admitted = True

    def _converse(self, peer: _Peer) -> None:
        # A peer that disconnects, is too slow or sends malformed messages ends only its own thread.
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
