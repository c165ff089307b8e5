# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Addresses of provers: tcp:HOST:PORT, unix:PATH and files:FOLDER."""

from __future__ import annotations

import socket
from pathlib import Path

from ..errors import ReproError
from .channels import Channel, FileChannel, SocketChannel

_KINDS = ("tcp", "unix", "files")
_FORMS = "tcp:HOST:PORT, unix:PATH or files:FOLDER"


def is_address(text: str) -> bool:
    """Whether the text begins like an address."""
    return text.partition(":")[0] in _KINDS and ":" in text


def connect(address: str, timeout: float) -> Channel:
    """The way to a prover. ReproError where there is none."""
    kind, place = parts(address)
    if kind == "files":
        if not Path(place).is_dir():
            raise ReproError(f"{address}: expected a folder")
        return FileChannel(Path(place))
    try:
        if kind == "unix":
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(timeout)
            connection.connect(place)
        else:
            connection = socket.create_connection(_host_and_port(address), timeout)
    except OSError as error:
        raise ReproError(f"{address}: {error.strerror or error}") from None
    return SocketChannel(connection)


def listen(address: str) -> socket.socket:
    """A socket that waits for a referee. ReproError where there can be none."""
    kind, place = parts(address)
    try:
        if kind == "unix":
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(place)
            listener.listen(1)
            return listener
        if kind == "tcp":
            return socket.create_server(_host_and_port(address), backlog=1)
    except OSError as error:
        raise ReproError(f"{address}: {error.strerror or error}") from None
    raise ReproError(f"expected an address {_FORMS}, got {address!r}")


def parts(address: str) -> tuple[str, str]:
    """Kind and place of an address. ReproError without a place."""
    kind, _, place = address.partition(":")
    # An empty place would be the folder that we are in, or a socket that nobody can find.
    if not place or "\0" in place:
        raise ReproError(f"expected an address {_FORMS}, got {address!r}")
    return kind, place


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix("tcp:").rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ReproError(f"expected tcp:HOST:PORT, got {address}")
    return host, int(port)
