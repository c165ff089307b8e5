# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Produces the text of an answer while its tokens are generated one by one."""

from __future__ import annotations

from collections.abc import Sequence

from repro_mlir.serving.tokenizer import Tokenizer

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_HELD = 16
"""The maximum number of tokens that wait for the rest of a character, which has at most four bytes in UTF-8."""


class GrowingText:
    """Decodes tokens incrementally. Each piece of text depends only on the tokens so far, so the pieces of a stream add
    up to the whole text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # The tokens of the last piece. New tokens are decoded together with these tokens, since spaces in the text
        # depend on the preceding tokens.
        self._before: list[int] = []
        self._held: list[int] = []

    def add(self, token: int) -> str:
        """Adds a token; returns the characters that it completes, or an empty string if the token ends within a
        character."""
        self._held.append(token)
        text = self._new_text()
        if not text or (text.endswith(_REPLACEMENT) and len(self._held) < _HELD):
            # A token without text may be a part of a character, so it is decoded again together with the next tokens,
            # up to a limit.
            if not text and len(self._held) >= _HELD:
                self._held = []
            return ""
        self._before, self._held = self._held, []
        return text

    def end(self) -> str:
        """Ends the text: returns what is left of it, including incomplete characters."""
        text = self._new_text()
        self._before, self._held = self._held, []
        return text

    def _new_text(self) -> str:
        if not self._held:
            return ""
        known = self._tokenizer.decode(self._before) if self._before else ""
        return self._tokenizer.decode([*self._before, *self._held])[len(known) :]


class StopStrings:
    """Ends a text at the first occurrence of a stop string. Holds back text that may be the beginning of a stop
    string."""

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = strings
        self._held = ""
        self.found = False

    def add(self, piece: str) -> str:
        """Adds a piece of text; returns the text that can be sent, since no stop string can begin in it."""
        if self.found:
            return ""
        text = self._held + piece
        places = [place for place in (text.find(each) for each in self._strings) if place >= 0]
        if places:
            self.found, self._held = True, ""
            return text[: min(places)]
        held = max((self._overlap(text, each) for each in self._strings), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def end(self) -> str:
        """Returns the text that is still held back. Called at the end of the text, so the returned text does not begin
        a stop string."""
        text, self._held = self._held, ""
        return text

    @staticmethod
    def _overlap(text: str, string: str) -> int:
        """Returns the length of the longest suffix of the text that is a proper prefix of the string."""
        return next((n for n in range(min(len(text), len(string) - 1), 0, -1) if text.endswith(string[:n])), 0)
