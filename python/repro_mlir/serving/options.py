# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a server is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerOptions:
    """The limits of a server.

    Attributes:
      waiting: how many questions may wait for a slot; one more is refused with 429.
      connections: how many connections may be open; one more gets 503, and twice as many are closed at once.
      body_bytes: of the body of a request.
      body_seconds: for the body of a request to come.
      encode_seconds: for the tokenizer to make tokens of a prompt, with those that it got before.
      idle_seconds: after which a connection is closed that has sent no whole head of a request.
      write_seconds: after which a connection is closed whose client reads nothing.
      grace_seconds: for the answers that are running when the server is told to end.
      step_seconds: for the last step of the model and the tokenizer's last text, when all answers have ended or were
        given up.
    """

    waiting: int = 64
    connections: int = 256
    body_bytes: int = 1 << 18
    body_seconds: float = 10.0
    encode_seconds: float = 10.0
    idle_seconds: float = 10.0
    write_seconds: float = 30.0
    grace_seconds: float = 30.0
    step_seconds: float = 5.0
