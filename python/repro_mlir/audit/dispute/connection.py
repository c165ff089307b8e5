# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A socket between a prover and its referee: who the other end is, and whole messages of its own (docs/disputes.md).

Both ends hold a token, which is empty where none was agreed on. Each shows that it knows it by a keyed hash over random
bytes of both, and every message has a keyed hash over its number in this conversation.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
import time
from collections.abc import Callable

import blake3

_HELLO = b"repro-dispute-v3"
_CONTEXT = "repro-mlir dispute v3 token"
_REFEREE, _PROVER, _SESSION = b"repro-referee-v3", b"repro-prover-v3\0", b"repro-session-v3"
_QUESTION, _ANSWER = b"repro-question\0\0", b"repro-answer\0\0\0\0"
_RANDOM = _HASH = 32

_FRAME = struct.Struct("<I32s")
"""Before each message: its length in bytes and its keyed hash."""


class Stranger(Exception):
    """The other end is not the one that shares our token; the text says what it did."""


class TooLong(ValueError):
    """A message of more bytes than may be read; the next one can be."""


class Connection:
    """A conversation after the handshake."""

    def __init__(self, socket: socket.socket, key: bytes, sends: bytes, receives: bytes) -> None:
        self._socket = socket
        self._key = key
        self._sends, self._receives = sends, receives
        self._sent = self._received = 0
        # Bytes of a message that was too long.
        self._unread = 0

    def send(self, message: bytes, deadline: float) -> None:
        """Sends a message. TimeoutError after the deadline (by time.monotonic), OSError if the other end closed."""
        header = _FRAME.pack(len(message), self._hash(self._sends, self._sent, message))
        self._sent += 1
        _send(self._socket, header + message, deadline)

    def receive(self, limit: int, deadline: float) -> bytes:
        """The next message.

        Raises:
          TimeoutError: not whole at the deadline (by time.monotonic).
          EOFError, OSError: the other end closed.
          TooLong: more than `limit` bytes.
          ValueError: a message that the other end did not send at this place.
        """
        while self._unread:
            self._unread -= len(_receive(self._socket, min(self._unread, 1 << 20), deadline))
        size, code = _FRAME.unpack(_receive(self._socket, _FRAME.size, deadline))
        if size > limit:
            self._unread = size
            self._received += 1
            raise TooLong(f"a message of {size} bytes, expected at most {limit}")
        message = _receive(self._socket, size, deadline)
        if not hmac.compare_digest(code, self._hash(self._receives, self._received, message)):
            raise ValueError("a message that was changed on its way")
        self._received += 1
        return message

    def close(self) -> None:
        """Ends the conversation."""
        self._socket.close()

    def _hash(self, direction: bytes, number: int, message: bytes) -> bytes:
        hasher = blake3.blake3(direction + struct.pack("<Q", number), key=self._key)
        return hasher.update(message).digest()


def accept(socket: socket.socket, token: bytes, deadline: float, admit: Callable[[], None]) -> Connection:
    """The prover's side of the handshake: it shows nothing and computes nothing before the referee has shown itself.

    Args:
      admit: called when the referee has shown itself, before it is told that it was accepted; what it raises ends the
        handshake.
    Raises:
      Stranger: the other end does not know the token.
      TimeoutError, EOFError, OSError: it says nothing.
    """
    mine = secrets.token_bytes(_RANDOM)
    _send(socket, _HELLO + mine, deadline)
    answer = _receive(socket, _RANDOM + _HASH, deadline)
    key, both = _key(token), mine + answer[:_RANDOM]
    if not hmac.compare_digest(answer[_RANDOM:], _keyed(key, _REFEREE + both)):
        raise Stranger("it does not share our token")
    admit()
    _send(socket, _keyed(key, _PROVER + both), deadline)
    return Connection(socket, _keyed(key, _SESSION + both), _ANSWER, _QUESTION)


def connect(socket: socket.socket, token: bytes, deadline: float) -> Connection:
    """The referee's side of the handshake. Raises as `accept`."""
    hello = _receive(socket, len(_HELLO) + _RANDOM, deadline)
    if hello[: len(_HELLO)] != _HELLO:
        raise Stranger("no prover of this version of the protocol is there")
    mine = secrets.token_bytes(_RANDOM)
    key, both = _key(token), hello[len(_HELLO) :] + mine
    _send(socket, mine + _keyed(key, _REFEREE + both), deadline)
    try:
        answer = _receive(socket, _HASH, deadline)
    except EOFError:
        raise Stranger("the prover does not share our token") from None
    if not hmac.compare_digest(answer, _keyed(key, _PROVER + both)):
        raise Stranger("the prover does not share our token")
    return Connection(socket, _keyed(key, _SESSION + both), _QUESTION, _ANSWER)


def _key(token: bytes) -> bytes:
    return blake3.blake3(token, derive_key_context=_CONTEXT).digest()


def _keyed(key: bytes, message: bytes) -> bytes:
    return blake3.blake3(message, key=key).digest()


def _send(socket: socket.socket, data: bytes, deadline: float) -> None:
    socket.settimeout(_left(deadline))
    socket.sendall(data)


def _receive(socket: socket.socket, size: int, deadline: float) -> bytes:
    parts = []
    while size:
        socket.settimeout(_left(deadline))
        part = socket.recv(min(size, 1 << 20))
        if not part:
            raise EOFError("closed by the other end")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
