# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Addresses of provers: tcp:HOST:PORT, unix:PATH and files:FOLDER."""

from __future__ import annotations

import ipaddress
import os
import socket
import time
from pathlib import Path

from repro_mlir.base.errors import ReproError
from repro_mlir.base.output_paths import refuse_inside_receipt
from repro_mlir.verification.dispute import connection, quotas
from repro_mlir.verification.dispute.channels import Channel, FileChannel, SocketChannel
from repro_mlir.verification.dispute.connection import Stranger
from repro_mlir.verification.dispute.tokens import NO_TOKEN

_KINDS = ("tcp", "unix", "files")
_FORMS = "tcp:HOST:PORT, unix:PATH or files:FOLDER"


def is_address(text: str) -> bool:
    """Returns whether the text starts with a type of address and a colon."""
    return text.partition(":")[0] in _KINDS and ":" in text


def connect(address: str, timeout: float, token: bytes = NO_TOKEN) -> Channel:
    """Returns a channel to a prover that shares the token.

    Raises:
      ReproError: if no prover answers, or the other end does not share the token.
    """
    kind, place = parts(address)
    if kind == "files":
        return FileChannel(Path(place))
    deadline = time.monotonic() + timeout
    try:
        if kind == "unix":
            connected = socket.socket(socket.AF_UNIX)
            connected.settimeout(timeout)
            connected.connect(place)
        else:
            connected = socket.create_connection(_host_and_port(address), timeout)
        try:
            return SocketChannel(connection.connect(connected, token, deadline))
        except BaseException:
            connected.close()
            raise
    except TimeoutError:
        raise ReproError(f"{address}: no prover answered within {timeout:g} s") from None
    except EOFError:
        raise ReproError(f"{address}: closed by the other end") from None
    except Stranger as error:
        raise ReproError(f"{address}: {error}") from None
    except OSError as error:
        raise ReproError(f"{address}: {error.strerror or error}") from None


def listen(address: str, token: bytes = NO_TOKEN) -> socket.socket:
    """Returns a socket that waits for a referee who shares the token.

    Without a token, any process that can connect acts as the referee. The address must then be local: a path to which
    only this user can connect, or a loopback address.

    Raises:
      ReproError: if this process cannot listen on the address, or other machines can reach it and there is no token.
    """
    kind, place = parts(address)
    try:
        if kind == "unix":
            refuse_inside_receipt(place)
            listener = socket.socket(socket.AF_UNIX)
            mask = os.umask(0o177)
            try:
                listener.bind(place)
            finally:
                os.umask(mask)
            listener.listen(quotas.CONNECTIONS)
            return listener
        if kind == "tcp":
            listener = socket.create_server(_host_and_port(address), backlog=quotas.CONNECTIONS)
            if token == NO_TOKEN and not ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
                listener.close()
                raise ReproError(f"{address}: expected a token (--token), as other machines may connect to it")
            return listener
    except OSError as error:
        raise ReproError(f"{address}: {error.strerror or error}") from None
    raise ReproError(f"expected an address {_FORMS}, got {address!r}")


def parts(address: str) -> tuple[str, str]:
    """Splits an address into its type and its location; raises ReproError if the location is empty or contains NUL,
    or if this system does not have the type."""
    kind, _, place = address.partition(":")
    # An empty location would mean the current folder, or a socket that no peer can find.
    if not place or "\0" in place:
        raise ReproError(f"expected an address {_FORMS}, got {address!r}")
    if kind == "unix" and not hasattr(socket, "AF_UNIX"):
        raise ReproError(f"{address}: expected tcp:HOST:PORT or files:FOLDER, as this system has no such sockets")
    return kind, place


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix("tcp:").rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise ReproError(f"expected tcp:HOST:PORT, got {address}")
    return host, int(port)
