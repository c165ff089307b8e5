# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""An HTTP/1.1 client for tests. It sends given bytes, so that requests can be slow or invalid."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reply:
    """A server's reply.

    Attributes:
      status: the HTTP status.
      headers: values by name; names are in lower case.
      body: the complete body; chunks are joined.
    """

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Returns the body as JSON."""
        return json.loads(self.body)

    def events(self) -> list[Any]:
        """Returns the values of the body's server-sent events, without the final [DONE]."""
        blocks = self.body.decode().split("\n\n")
        assert blocks.pop() == "" and all(block.startswith("data: ") for block in blocks)
        assert blocks and blocks.pop() == "data: [DONE]"
        return [json.loads(block.removeprefix("data: ")) for block in blocks]


def head(path: str, length: int, *, method: str = "POST", **headers: str) -> bytes:
    """Returns the request line and the headers of a request whose JSON body has `length` bytes."""
    given = {"host": "127.0.0.1", "content-type": "application/json", "content-length": str(length)}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def post(path: str, value: Any, **headers: str) -> bytes:
    """Returns the bytes of a POST request; a value other than bytes is sent as JSON."""
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
    """Sends the bytes of a request over a new connection and returns the reply."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        await writer.drain()
        return await read_reply(reader)
    finally:
        writer.close()


def ask(port: int, path: str, value: Any, **headers: str) -> Reply:
    """Sends a POST request and returns the reply, for tests without an event loop."""
    return asyncio.run(call(port, post(path, value, **headers)))


def get(port: int, path: str) -> Reply:
    """Sends a GET request and returns the reply, for tests without an event loop."""
    return asyncio.run(call(port, head(path, 0, method="GET")))
