# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The options of a server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerOptions:
    """The limits of a server.

    Attributes:
      waiting: the number of questions that may wait for a slot; further ones are rejected with the HTTP status 429.
      connections: the number of open connections; further ones receive the HTTP status 503, and beyond twice this
        number connections are closed immediately.
      body_bytes: the maximum size of a request body.
      body_seconds: the time limit for receiving a request body.
      encode_seconds: the time limit for tokenizing a prompt, including the prompts queued before it.
      idle_seconds: the time after which a connection is closed if the head of its first request is incomplete, or if
        the client sends nothing after an answer. The head of a later request has two to three times as long, counted
        from the answer.
      write_seconds: the time after which a connection is closed if its client does not read.
      grace_seconds: the time limit for running answers when the server is shut down.
      step_seconds: the time limit at shutdown for the model's last step and the tokenizer's last call, after all
        answers have ended or have been cancelled.
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
