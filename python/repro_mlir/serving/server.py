# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs the server: its socket, uvicorn, signals and shutdown."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import signal
import socket
from collections.abc import Iterator, Mapping
from types import FrameType

import uvicorn

from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import foreign
from repro_mlir.generation.generator import Generator
from repro_mlir.generation.identity import ModelIdentity
from repro_mlir.serving.api import Api
from repro_mlir.serving.connections import OwnHosts, protocol_of
from repro_mlir.serving.engine import Engine
from repro_mlir.serving.options import ServerOptions
from repro_mlir.serving.tokenizer import Tokenizer

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def bind(host: str, port: int) -> socket.socket:
    """Returns a socket that is bound to an address but does not listen yet. Raises ReproError if it cannot be bound."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except BaseException:
            bound.close()
            raise
    except (OSError, UnicodeError, OverflowError) as error:
        raise _no_address(f"{host}:{port}", error) from None
    return bound


def serve(
    bound: socket.socket,
    generator: Generator,
    tokenizer: Tokenizer,
    identity: ModelIdentity,
    name: str,
    environment: Mapping[str, str],
    slots: int,
    options: ServerOptions,
) -> bool:
    """Answers requests until a signal or an engine failure ends the server.

    Args:
      bound: the result of `bind`; this function makes it listen.
      generator: a generator with `slots` slots.
      identity: the identity of the generator's model.
      name: the name of the model, for clients.
      environment: facts about the machine and software that compute answers, for the receipts.
    Returns:
      Whether the threads of the engine and of the tokenizer have ended too. If not, one of them is still in a step or a
        call whose result is no longer needed.
    Raises:
      ReproError: the socket cannot listen, or the engine has failed.
    """
    host = bound.getsockname()[0]
    engine = Engine(generator, slots + options.waiting, lambda: setattr(server, "should_exit", True))
    api = Api(engine, tokenizer, identity, name, options, environment)
    application = api.application
    is_local = ipaddress.ip_address(host).is_loopback
    hosts = {"localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host}
    # uvicorn would log errors that clients cause. Internal errors are reported elsewhere.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    server = _Server(
        uvicorn.Config(
            OwnHosts(application, hosts) if is_local else application,
            http=protocol_of(options),
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=options.connections,
            timeout_keep_alive=max(1, int(options.idle_seconds)),
            timeout_graceful_shutdown=max(1, int(options.grace_seconds)),
        )
    )
    engine.start()
    try:
        server.run([bound])
    finally:
        has_ended = all([engine.close(options.step_seconds), api.close(options.step_seconds)])
    if engine.failure is not None:
        failure = f"{type(engine.failure).__name__}: {foreign(str(engine.failure))}"
        raise ReproError(f"the engine failed: {failure}: start the server again")
    return has_ended


def listen(bound: socket.socket) -> str:
    """Makes a bound socket listen and returns its URL. Raises ReproError if another socket listens there."""
    host, port = bound.getsockname()[:2]
    try:
        bound.listen(1024)
    except OSError as error:
        raise _no_address(f"{host}:{port}", error) from None
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _no_address(address: str, error: Exception) -> ReproError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ReproError(f"cannot listen on {address}: {reason}")


class _Server(uvicorn.Server):
    """A uvicorn server that waits for running answers after the first signal, and ends immediately at the second
    one."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        former = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        self.should_exit = True
