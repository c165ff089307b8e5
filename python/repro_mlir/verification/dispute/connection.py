# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""An authenticated socket between a prover and its referee, for whole messages (docs/verification/disputes.md).

Both ends have a token, which is empty if they did not agree on one. Each end proves that it knows the token by a keyed
hash over random bytes of both ends. Every message has a keyed hash that covers its number in this conversation.
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
"""The header of each message: its length in bytes and its keyed hash."""


class Stranger(Exception):
    """Raised if the other end does not share the token; the text states what the other end did."""


class MessageTooLong(ValueError):
    """Raised if a message exceeds the limit; the next message can still be received."""


class Connection:
    """A connection after the handshake."""

    def __init__(self, socket: socket.socket, key: bytes, sends: bytes, receives: bytes) -> None:
        self._socket = socket
        self._key = key
        self._sends, self._receives = sends, receives
        self._sent = self._received = 0
        # If a message was longer than the limit, the number of its bytes that have not been read from the socket.
        self._unread = 0

    def send(self, message: bytes, deadline: float) -> None:
        """Sends a message.

        Raises:
          TimeoutError: after the deadline (by time.monotonic).
          OSError: if the other end has closed the connection.
        """
        header = _FRAME.pack(len(message), self._hash(self._sends, self._sent, message))
        self._sent += 1
        _send(self._socket, header + message, deadline)

    def receive(self, limit: int, deadline: float) -> bytes:
        """Receives the next message.

        Raises:
          TimeoutError: if the message is incomplete at the deadline (by time.monotonic).
          EOFError, OSError: if the other end has closed the connection.
          MessageTooLong: if the message has more than `limit` bytes.
          ValueError: if the keyed hash does not match, because the message was changed on its way or was replayed.
        """
        while self._unread:
            self._unread -= len(_receive(self._socket, min(self._unread, 1 << 20), deadline))
        size, code = _FRAME.unpack(_receive(self._socket, _FRAME.size, deadline))
        if size > limit:
            self._unread = size
            self._received += 1
            raise MessageTooLong(f"a message of {size:,} bytes, expected at most {limit:,}")
        message = _receive(self._socket, size, deadline)
        if not hmac.compare_digest(code, self._hash(self._receives, self._received, message)):
            raise ValueError("a message was changed in transit")
        self._received += 1
        return message

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def _hash(self, direction: bytes, number: int, message: bytes) -> bytes:
        hasher = blake3.blake3(direction + struct.pack("<Q", number), key=self._key)
        return hasher.update(message).digest()


def accept(socket: socket.socket, token: bytes, deadline: float, admit: Callable[[], None]) -> Connection:
    """Performs the prover's side of the handshake, and returns the connection. The prover proves and computes nothing
    until the referee has proven that it knows the token.

    Args:
      admit: called after the referee's proof and before the reply to it; an exception from `admit` ends the handshake.
    Raises:
      Stranger: if the other end does not know the token.
      TimeoutError, EOFError, OSError: if the other end does not reply.
    """
    mine = secrets.token_bytes(_RANDOM)
    _send(socket, _HELLO + mine, deadline)
    answer = _receive(socket, _RANDOM + _HASH, deadline)
    key, both = _key(token), mine + answer[:_RANDOM]
    if not hmac.compare_digest(answer[_RANDOM:], _keyed(key, _REFEREE + both)):
        raise Stranger("the referee has another token")
    admit()
    _send(socket, _keyed(key, _PROVER + both), deadline)
    return Connection(socket, _keyed(key, _SESSION + both), _ANSWER, _QUESTION)


def connect(socket: socket.socket, token: bytes, deadline: float) -> Connection:
    """Performs the referee's side of the handshake, and returns the connection. Raises the same exceptions as
    `accept`."""
    hello = _receive(socket, len(_HELLO) + _RANDOM, deadline)
    if hello[: len(_HELLO)] != _HELLO:
        raise Stranger("expected a prover with this version of the protocol")
    mine = secrets.token_bytes(_RANDOM)
    key, both = _key(token), hello[len(_HELLO) :] + mine
    _send(socket, mine + _keyed(key, _REFEREE + both), deadline)
    try:
        answer = _receive(socket, _HASH, deadline)
    except EOFError:
        raise Stranger("the prover has another token") from None
    if not hmac.compare_digest(answer, _keyed(key, _PROVER + both)):
        raise Stranger("the prover has another token")
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
