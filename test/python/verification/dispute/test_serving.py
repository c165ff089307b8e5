# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A client without the token can neither make a prover compute nor keep the prover's referee out."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from adversary import cheats, honest
from repro_mlir.base.errors import ReproError
from repro_mlir.verification.dispute import Channel, LocalChannel, Prover, quotas, serve_socket, settle
from repro_mlir.verification.dispute.addresses import connect, listen
from repro_mlir.verification.dispute.tokens import NO_TOKEN

TOKEN = b"a token of the prover and its referee"
HELLO = 16 + 32


class Serving:
    """A prover that listens in a thread, and connections to it, which `stack` closes."""

    def __init__(self, stack: contextlib.ExitStack, token: bytes) -> None:
        self._stack = stack
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.answered: int | None = None
        self.thread = threading.Thread(target=self._serve, args=(token,), daemon=True)
        self.thread.start()

    def _serve(self, token: bytes) -> None:
        self.answered = serve_socket(cheats()[0], self._listener, token, 30)

    @property
    def address(self) -> str:
        return f"tcp:127.0.0.1:{self._listener.getsockname()[1]}"

    def stranger(self, data: bytes = b"") -> socket.socket:
        """Returns a connection to the prover by a client that sends `data` instead of a handshake."""
        connected = self._stack.enter_context(socket.create_connection(self._listener.getsockname()))
        connected.settimeout(10)
        with contextlib.suppress(OSError):
            connected.sendall(data)
        return connected

    def referee(self, token: bytes = TOKEN) -> Channel:
        return connect(self.address, 10, token)

    def dispute(self, token: bytes = TOKEN) -> None:
        """Settles a dispute between an honest party and this prover, whose run is wrong; checks that the prover then
        ends."""
        verdict = settle(LocalChannel(Prover(honest())), self.referee(token), timeout=20)
        assert (verdict.outcome, verdict.wrong) == ("operator", ("B",))
        self.thread.join(10)
        assert not self.thread.is_alive() and self.answered == verdict.traffic["B"].questions


@pytest.fixture(params=[TOKEN, NO_TOKEN], ids=["token", "no-token"])
def token(request: pytest.FixtureRequest) -> bytes:
    return bytes(request.param)


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch, token: bytes) -> Iterator[Serving]:
    monkeypatch.setattr(quotas, "CONNECTIONS", 4)
    with contextlib.ExitStack() as stack:
        yield Serving(stack, token)


STRANGERS = {
    "silent": b"",
    "one byte": b"a",
    "half an answer": bytes(40),
    "zeros": bytes(64),
    "brackets": b"[" * 60_000,
    "a browser": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + bytes(64),
    "a great length": b"\xff" * 4096,
    "the first version of the protocol": struct.pack("<I", 17) + b'{"ask":"opening"}',
}


def test_strangers_first(serving: Serving, token: bytes) -> None:
    for data in STRANGERS.values():
        serving.stranger(data)
        serving.stranger(data).close()
    serving.dispute(token)


def test_strangers_meanwhile(serving: Serving, token: bytes) -> None:
    """During a dispute, more clients without the token connect than the prover accepts at a time."""
    busy = threading.Event()

    def crowd() -> None:
        while not busy.is_set():
            with contextlib.suppress(OSError), socket.create_connection(serving._listener.getsockname()) as stranger:
                stranger.sendall(bytes(40))
                time.sleep(0.01)

    threads = [threading.Thread(target=crowd, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    try:
        # The other connections may displace the referee's before its handshake is complete; then the referee connects
        # again.
        for _ in range(50):
            with contextlib.suppress(ReproError):
                channel = serving.referee(token)
                break
        verdict = settle(LocalChannel(Prover(honest())), channel, timeout=20)
        assert verdict.wrong == ("B",) and verdict.outcome == "operator", verdict
    finally:
        busy.set()
    for thread in threads:
        thread.join(10)


def test_a_referee_that_has_not_asked_yet_stays(serving: Serving, token: bytes) -> None:
    """New clients without the token displace older ones, but not a referee that has completed the handshake, even
    before its first question."""
    channel = serving.referee(token)
    strangers = [serving.stranger(bytes(40)) for _ in range(12)]
    for stranger in strangers[:-3]:
        with contextlib.suppress(ConnectionError):
            while stranger.recv(1 << 16):
                pass
    verdict = settle(LocalChannel(Prover(honest())), channel, timeout=20)
    assert (verdict.outcome, verdict.wrong) == ("operator", ("B",))


@pytest.mark.parametrize("token", [NO_TOKEN], ids=["no-token"])
def test_silent_peers_do_not_keep_a_referee_away(serving: Serving, token: bytes) -> None:
    """Without a token, every peer that follows the protocol is admitted; the prover disconnects those that ask
    nothing."""
    silent = [serving.referee(token) for _ in range(9)]
    serving.dispute(token)
    for channel in silent:
        channel.close()


class NoWork:
    """A run that fails the test if a step of it is used."""

    def __init__(self, run: Any) -> None:
        self.graphs = run.graphs

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a stranger had {name} looked up")


def test_a_stranger_gets_no_work_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client without the token receives only the prover's first message."""
    monkeypatch.setattr(quotas, "HANDSHAKE_SECONDS", 0.5)
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve_socket, args=(NoWork(honest()), listener, TOKEN, 30), daemon=True).start()
    for data in STRANGERS.values():
        with socket.create_connection(listener.getsockname()) as stranger:
            stranger.settimeout(10)
            with contextlib.suppress(OSError):
                stranger.sendall(data)
            heard = b""
            begin = time.monotonic()
            with contextlib.suppress(ConnectionError):
                while part := stranger.recv(1 << 16):
                    heard += part
            assert len(heard) <= HELLO and time.monotonic() - begin < 5
    with pytest.raises(ReproError, match="the prover has another token"):
        connect(f"tcp:127.0.0.1:{listener.getsockname()[1]}", 10, b"some other token, long enough")


def test_slow_bytes_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "HANDSHAKE_SECONDS", 0.4)
    with contextlib.ExitStack() as stack:
        serving = Serving(stack, TOKEN)
        stranger = serving.stranger()
        begin = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - begin < 10:
                stranger.sendall(b"a")
                time.sleep(0.05)
        assert time.monotonic() - begin < 5
        serving.dispute()


def test_the_prover_shows_itself_too() -> None:
    """A process without the token that listens at the prover's address is not accepted as a party; there is no
    verdict."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answers = (b"", b"a", bytes(HELLO), b"repro-dispute-v3" + bytes(32) + bytes(32), b"[" * 60_000)
        for data in answers:

            def impostor(data: bytes = data) -> None:
                connected, _ = listener.accept()
                with connected, contextlib.suppress(OSError):
                    connected.sendall(data)
                    connected.recv(1 << 16)

            thread = threading.Thread(target=impostor, daemon=True)
            thread.start()
            with pytest.raises(ReproError, match=r"token|version|closed|reset|no prover answered"):
                connect(f"tcp:127.0.0.1:{listener.getsockname()[1]}", 1, TOKEN)
            thread.join(10)


def test_a_relayed_message_of_a_referee_is_rejected() -> None:
    """An attacker who relays the messages of a handshake can forge none of the later messages."""
    with contextlib.ExitStack() as stack:
        serving = Serving(stack, TOKEN)
        between = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def relay() -> None:
            ours, _ = between.accept()
            theirs = serving.stranger()
            with ours:
                ours.sendall(theirs.recv(HELLO, socket.MSG_WAITALL))
                theirs.sendall(ours.recv(64, socket.MSG_WAITALL))
                ours.sendall(theirs.recv(32, socket.MSG_WAITALL))
                question = ours.recv(1 << 16)
                # Changes the question but keeps the authentication code of the original one, and passes on the prover's
                # reply.
                theirs.sendall(question.replace(b"opening", b"program"))
                with contextlib.suppress(OSError):
                    ours.sendall(theirs.recv(1 << 16) or b"\x02\0\0\0" + bytes(32) + b"{}")

        threading.Thread(target=relay, daemon=True).start()
        channel = connect(f"tcp:127.0.0.1:{between.getsockname()[1]}", 10, TOKEN)
        with pytest.raises(Exception, match=r"changed in transit|connection broke"):
            channel.exchange(b'{"ask":"opening"}', 1 << 20, 5)
        serving.dispute()


def test_where_no_token_is_needed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ReproError, match="expected a token"):
        listen(f"tcp:0.0.0.0:{port}")
    listen(f"tcp:0.0.0.0:{port}", TOKEN).close()
    listen(f"tcp:localhost:{port}").close()
    with listen(f"unix:{tmp_path / 'prover'}"):
        # The mode of the socket lets no other user connect.
        assert stat.S_IMODE(os.stat(tmp_path / "prover").st_mode) & 0o077 == 0
