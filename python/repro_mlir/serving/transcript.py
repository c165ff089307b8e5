# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The tokens and the text of an answer while the answer grows. The server and the verification of receipts both use
this code."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from repro_mlir.base.numerics.hashing import combine_digests
from repro_mlir.serving.text import GrowingText, StopStrings
from repro_mlir.serving.tokenizer import Tokenizer


class Transcript:
    """The tokens of an answer, its text and the reason why it ends.

    Attributes:
      tokens: the tokens so far; the last one may be the stop token.
      text: the text so far, without a stop string.
      finish: None while the answer continues, then "stop" (a stop token or a stop string) or "length".
    """

    def __init__(self, tokenizer: Tokenizer, most: int, stop_tokens: Collection[int], stop: Sequence[str]) -> None:
        """Creates an empty answer.

        Args:
          most: the maximum number of tokens of the answer.
          stop_tokens: tokens that end the answer.
          stop: strings that end the answer.
        """
        self.tokens: list[int] = []
        self.text = ""
        self.finish: str | None = None
        self._most = most
        self._stop_tokens = frozenset(stop_tokens)
        self._growing = GrowingText(tokenizer)
        self._stops = StopStrings(stop)
        self._digests: list[bytes] = []

    def add(self, token: int, digest: bytes) -> str:
        """Adds a token; returns the piece of text that is now certain to belong to the answer. Must not be called after
        `finish` is set.

        Args:
          digest: the hash (H1) of the logits from which the token was chosen.
        """
        self.tokens.append(token)
        self._digests.append(digest)
        piece = self._stops.add(self._growing.add(token))
        if not self._stops.found:
            if token in self._stop_tokens:
                self.finish = "stop"
            elif len(self.tokens) == self._most:
                self.finish = "length"
            if self.finish is not None:
                piece += self._stops.add(self._growing.end())
        if self._stops.found:
            self.finish = "stop"
        elif self.finish is not None:
            piece += self._stops.end()
        self.text += piece
        return piece

    def logits_hash(self) -> str:
        """(H3) Returns the hash of the logits of all tokens, in hexadecimal."""
        return combine_digests(self._digests)
