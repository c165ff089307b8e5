# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The text of an answer while its tokens come, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from repro_mlir.serving.tokenizer import Tokenizer

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_HELD = 16
"""How many tokens may wait for the rest of a character, of which UTF-8 has at most four bytes."""


class GrowingText:
    """Decodes tokens as they come: each piece follows from the tokens so far, so that a stream has the whole text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # Those of the last piece, next to which the new ones are decoded: spaces depend on what stands before.
        self._before: list[int] = []
        self._held: list[int] = []

    def add(self, token: int) -> str:
        """The characters that are complete with this token; a token that ends within one adds none."""
        self._held.append(token)
        text = self._new_text()
        if not text or (text.endswith(_REPLACEMENT) and len(self._held) < _HELD):
            # Tokens without a text of their own go on being decoded with what follows.
            if not text and len(self._held) >= _HELD:
                self._held = []
            return ""
        self._before, self._held = self._held, []
        return text

    def end(self) -> str:
        """What was held back."""
        text = self._new_text()
        self._before, self._held = self._held, []
        return text

    def _new_text(self) -> str:
        if not self._held:
            return ""
        known = self._tokenizer.decode(self._before) if self._before else ""
        return self._tokenizer.decode([*self._before, *self._held])[len(known) :]


class StopStrings:
    """Cuts a text off before the first of some strings, and holds back what may be the beginning of one."""

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = strings
        self._held = ""
        self.found = False

    def add(self, piece: str) -> str:
        """The text that is sure to come before a stop string."""
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
        """What was held back and began no stop string."""
        text, self._held = self._held, ""
        return text

    @staticmethod
    def _overlap(text: str, string: str) -> int:
        """How many characters at the end of the text are the beginning of the string."""
        return next((n for n in range(min(len(text), len(string) - 1), 0, -1) if text.endswith(string[:n])), 0)
