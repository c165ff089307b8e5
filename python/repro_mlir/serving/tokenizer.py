# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The interface of tokenizers that the server uses."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol


class Tokenizer(Protocol):
    """Converts text to tokens and back. `encode` and `encode_chat` are called on one thread, `decode` on another
    one."""

    @property
    def stop_tokens(self) -> Collection[int]:
        """The tokens that end an answer."""

    @property
    def has_chat(self) -> bool:
        """Whether the tokenizer has a template for conversations."""

    def encode(self, text: str) -> list[int]:
        """Returns the tokens of a prompt. Raises ReproError if the text cannot be converted."""

    def encode_chat(self, messages: Sequence[dict[str, Any]]) -> list[int]:
        """Returns the tokens of a conversation, up to the point where the model's next message begins.

        Args:
          messages: each with the strings `role` and `content`.
        Raises:
          ReproError: the template rejects the conversation.
        """

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of tokens, without special tokens. A character that is incomplete is replaced by U+FFFD."""
