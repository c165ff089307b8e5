# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Serves a small model with a tokenizer in a separate process: python small_server.py '{"slots": 3, ...}'.

The process prints its URL, and "ended" when it ends without an error.
"""

import argparse
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CAPACITY, SLOTS, CHUNK = 48, 3, 8

PIECES = [
    b"", b"\xc3", b"\xa9", b"\xe2", b"\x82", b"\xac", b"\xf0\x9f", b"\x99\x82", b"st", b"op", b" ", b"the ",
    *(bytes([letter]) for letter in b"abcdefghijklmnopqrstuvwxyz.?"),
]  # fmt: skip
"""The bytes of each token: a part of a character, a letter or several letters. The first token ends an answer."""


class Pieces:
    """A tokenizer with the tokens `PIECES`."""

    stop_tokens = (0,)
    has_chat = True

    def encode(self, text: str) -> list[int]:
        """Returns the tokens of a text: at each position, the longest token that matches. Raises ReproError for a
        character that no token covers."""
        from repro_mlir import ReproError

        data, found = text.encode(), []
        while data:
            token = max((i for i, piece in enumerate(PIECES) if piece and data.startswith(piece)),
                        key=lambda i: len(PIECES[i]), default=None)  # fmt: skip
            if token is None:
                raise ReproError(f"no token for {data[:1]!r}")
            found.append(token)
            data = data[len(PIECES[token]) :]
        return found

    def encode_chat(self, messages: Sequence[dict[str, Any]]) -> list[int]:
        """Returns the tokens of all messages' contents, each followed by a period."""
        return [token for each in messages for token in self.encode(f"{each['content']}.")]

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of tokens; bytes that are not valid UTF-8 become U+FFFD."""
        return b"".join(PIECES[token] for token in tokens).decode(errors="replace")


def small_model(seed: int = 5) -> Any:
    """Returns the model that the server serves, with parameters drawn by `seed`."""
    import torch

    from support.small_decoder import Model

    torch.manual_seed(seed)
    made = Model(CAPACITY, len(PIECES)).eval()
    with torch.no_grad():
        made.head.weight *= 4
    return made


@functools.cache
def known_generator(slots: int, chunk: int, target: str = "cpu", seed: int = 5, cache: str | None = None) -> Any:
    """Returns a generator of the served model. The generator runs in this process and computes expected answers."""
    from repro_mlir import Generator

    return Generator(small_model(seed), CAPACITY, slots=slots, chunk=chunk, cache=cache, target=target, threads=1)


@functools.cache
def known_identity(seed: int = 5, cache: str | None = None) -> Any:
    """Returns the identity of the served model."""
    from repro_mlir.generation.identity import identity_of

    return identity_of(small_model(seed), CAPACITY, cache)


class QuickGenerator:
    """Replaces a generator in tests of the server: starts at once, without a model, and returns the tokens 1, 2, 1,
    ..."""

    def __init__(self) -> None:
        self._requests: list[Any] = []

    def submit(self, prompt: Any, most: int, sampling: Any, stop: Any, *, logits: bool) -> Any:
        """See `Generator.submit`."""
        from repro_mlir.generation.generator import Request

        self._requests.append(Request(prompt, _most=most))
        return self._requests[-1]

    def cancel(self, request: Any) -> None:
        """See `Generator.cancel`."""
        request.finished = True
        self._requests = [each for each in self._requests if each is not request]

    def step(self) -> list[Any]:
        """See `Generator.step`."""
        import numpy as np

        given = list(self._requests)
        for request in given:
            request.tokens.append(1 + len(request.tokens) % 2)
            request.logits.append(np.zeros(len(PIECES), np.float32))
            if len(request.tokens) == request._most:
                self.cancel(request)
        return given


class SmallServer:
    """A server in a separate process.

    Attributes:
      process: the started process.
    """

    def __init__(self, **settings: Any) -> None:
        """Starts the process without waiting for it; `settings` are those of `main`."""
        command = [sys.executable, "-m", "support.small_server", json.dumps(settings)]
        paths = [str(Path(__file__).resolve().parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )

    @functools.cached_property
    def port(self) -> int:
        """Waits until the server listens and returns its port on 127.0.0.1. Raises AssertionError if the server has
        ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("http://127.0.0.1:"):
            raise AssertionError(f"no server: {line!r} {self.process.communicate()[1]}")
        return int(line.rsplit(":", 1)[1])

    def rss(self) -> int:
        """Returns the resident memory in bytes."""
        fields = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def files(self) -> int:
        """Returns the number of open files, sockets included."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def end(self, *signals: signal.Signals, timeout: float = 60) -> tuple[int, str, str]:
        """Sends signals, by default SIGTERM, half a second apart, and waits. Returns the exit status, output and error
        output."""
        for i, each in enumerate(signals or (signal.SIGTERM,)):
            time.sleep(0.5 * bool(i))
            self.process.send_signal(each)
        output, errors = self.process.communicate(timeout=timeout)
        return self.process.returncode, output, errors

    def __enter__(self) -> "SmallServer":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def main(settings: dict[str, Any]) -> int:
    """Serves until a signal arrives.

    Settings:
      port: 0 for any free port.
      buffer: the size in bytes of the system's send buffer per client.
      slots, chunk: options of the generator.
      quick: whether to use a `QuickGenerator`.
      encodes, decodes: whether the tokenizer works; otherwise encoding never ends.
      delay: the minimum duration of a step in seconds.
      fails_after: the number of steps after which the engine fails.
      options: of `ServerOptions`.
    """
    from repro_mlir.base.command_line import run_command
    from repro_mlir.generation.identity import ModelIdentity
    from repro_mlir.serving.options import ServerOptions
    from repro_mlir.serving.server import bind, listen, serve

    def run(_: Any) -> int:
        with bind("127.0.0.1", settings.get("port", 0)) as bound:
            if "buffer" in settings:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings["buffer"])
            slots = settings.get("slots", SLOTS)
            generator: Any
            if settings.get("quick"):
                generator = QuickGenerator()
                identity = ModelIdentity("0" * 64, "1" * 64, "2" * 64, CAPACITY, len(PIECES))
            else:
                generator = known_generator(slots, settings.get("chunk", CHUNK))
                identity = known_identity()
            _slow_down(generator, settings.get("delay", 0.0), settings.get("fails_after"))
            options = ServerOptions(**settings.get("options", {}))
            print(listen(bound), flush=True)
            tokenizer = Pieces()
            if not settings.get("encodes", True):
                tokenizer.encode = _endless  # type: ignore[method-assign]
            if not settings.get("decodes", True):
                tokenizer.decode = _broken  # type: ignore[method-assign]
            if not serve(bound, generator, tokenizer, identity, "small", {"target": "cpu"}, slots, options):
                print("in a step", flush=True)
                os._exit(0)
        print("ended", flush=True)
        return 0

    return run_command("serve", argparse.Namespace, run)


def _broken(tokens: Sequence[int]) -> str:
    raise ValueError("a fault of the test")


def _endless(text: str) -> list[int]:
    time.sleep(1000)
    raise AssertionError


def _slow_down(generator: Any, delay: float, fails_after: int | None) -> None:
    step, count = generator.step, 0

    def slow() -> Any:
        nonlocal count
        count += 1
        if fails_after is not None and count > fails_after:
            raise RuntimeError("a fault of the test")
        assert threading.current_thread().name == "engine"
        time.sleep(delay)
        return step()

    # `object.__setattr__` is needed because generators are immutable.
    object.__setattr__(generator, "step", slow)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
