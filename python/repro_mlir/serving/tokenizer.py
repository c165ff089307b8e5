# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What the server knows of a tokenizer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol


class Tokenizer(Protocol):
    """Text as tokens and back. `encode` and `encode_chat` are called by one thread, `decode` by another."""

    @property
    def stop_tokens(self) -> Collection[int]:
        """The tokens behind which an answer ends."""

    @property
    def has_chat(self) -> bool:
        """Whether there is a template for conversations."""

    def encode(self, text: str) -> list[int]:
        """The tokens of a prompt. ReproError for a text that has none."""

    def encode_chat(self, messages: Sequence[dict[str, Any]]) -> list[int]:
        """The tokens of a conversation whose next message is the model's.

        Args:
          messages: each with the strings `role` and `content`.
        Raises:
          ReproError: a conversation that the template does not take.
        """

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without those that are no text. What is no whole character yet is U+FFFD."""
