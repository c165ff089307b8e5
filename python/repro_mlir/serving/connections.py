# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Connections with timeouts: a client cannot occupy a connection indefinitely."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import h11
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from repro_mlir.serving.options import ServerOptions
from repro_mlir.serving.strict_http import HEAD_LIMIT, StrictConnection

_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?")
"""A host name or an address, with an optional port."""


def protocol_of(options: ServerOptions) -> type[asyncio.Protocol]:
    """Returns a uvicorn protocol whose connections have the timeouts of the options."""

    class Protocol(_BoundedProtocol):
        limits = options

    return Protocol


class _BoundedProtocol(H11Protocol):
    """A uvicorn protocol with timeouts that uvicorn lacks: for the head of a request, and for a client that does not
    read."""

    limits: ServerOptions
    conn: StrictConnection

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = StrictConnection(h11.SERVER, HEAD_LIMIT)
        self._idle: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        # The last completed request that `_look` has found, and the number of later calls that found the same request.
        self._seen: Any = None
        self._looks = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > 2 * self.limits.connections:
            transport.abort()
        else:
            self._idle = self.loop.call_later(self.limits.idle_seconds, self._look)

    def send_400_response(self, msg: str) -> None:
        refusal = self.conn.refusal
        if refusal is None:
            super().send_400_response(msg)
            return
        headers = [("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
        response = h11.Response(status_code=refusal.status, headers=headers, reason=refusal.status.phrase.encode())
        for event in (response, h11.Data(data=refusal.message.encode()), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._idle, self._stalled):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(self.limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
        super().resume_writing()

    def _look(self) -> None:
        """Closes the connection if it has waited too long for the head of a request. Called every `idle_seconds`.

        Uvicorn itself closes a connection that stays silent after an answer. If the next head has begun, it must be
        complete by the third call after that answer.
        """
        if self.cycle is None:
            self.transport.abort()
            return
        if self.cycle.response_complete:
            self._looks = self._looks + 1 if self._seen is self.cycle else 0
            self._seen = self.cycle
            if self._looks == 2:
                self.transport.abort()
                return
        self._idle = self.loop.call_later(self.limits.idle_seconds, self._look)


class OwnHosts:
    """ASGI middleware that answers only requests whose field `host` names one of `hosts`. Otherwise a web page could
    resolve its own name to this machine (DNS rebinding) and read the answers of a server on a local address."""

    def __init__(self, application: ASGIApp, hosts: set[str]) -> None:
        self._application = application
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request to the application. Answers 421 if the field `host` of the request names another host."""
        given = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1")
        host = _HOST.fullmatch(given)
        if host is not None and host[1].lower() in self._hosts and int(host[2] or 0) < 1 << 16:
            await self._application(scope, receive, send)
        else:
            closing = {"connection": "close"}
            await PlainTextResponse("This server has another name.", 421, closing)(scope, receive, send)
