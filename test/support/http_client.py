# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""An HTTP/1.1 client that can also be slow or violate the protocol."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reply:
    """A server's reply.

    Attributes:
      status: the HTTP status.
      headers: by name in lower case.
      body: the complete body without chunk markers.
    """

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Returns the body as JSON."""
        return json.loads(self.body)

    def events(self) -> list[Any]:
        """Returns the body as server-sent events, without the final [DONE]."""
        blocks = self.body.decode().split("\n\n")
        assert blocks.pop() == "" and all(block.startswith("data: ") for block in blocks)
        assert blocks and blocks.pop() == "data: [DONE]"
        return [json.loads(block.removeprefix("data: ")) for block in blocks]


def head(path: str, length: int, *, method: str = "POST", **headers: str) -> bytes:
    """Returns the head of a request with a JSON body."""
    given = {"host": "127.0.0.1", "content-type": "application/json", "content-length": str(length)}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def post(path: str, value: Any, **headers: str) -> bytes:
    """Returns a complete request; the value is bytes or is encoded as JSON."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return head(path, len(body), **headers) + body


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    """Reads the next reply; raises IncompleteReadError if the connection ends early."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(lines[0].split()[1])
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Reply(status, headers, body)


async def call(port: int, data: bytes) -> Reply:
    """Sends bytes over a new connection; returns the reply."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        await writer.drain()
        return await read_reply(reader)
    finally:
        writer.close()


def ask(port: int, path: str, value: Any, **headers: str) -> Reply:
    """Returns the reply to one request, for tests without an event loop."""
    return asyncio.run(call(port, post(path, value, **headers)))


def get(port: int, path: str) -> Reply:
    """Returns the reply to a GET request."""
    return asyncio.run(call(port, head(path, 0, method="GET")))
