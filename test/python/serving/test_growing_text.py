# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the text of an answer that grows with each token: whole characters, stop strings, and results that do not
depend on how the text is cut into pieces."""

import random

import pytest
from repro_mlir.serving.text import GrowingText, StopStrings
from repro_mlir.serving.transcript import Transcript
from support.small_server import PIECES, Pieces


def pieces_of(tokens: list[int]) -> list[str]:
    growing = GrowingText(Pieces())
    return [*(growing.add(token) for token in tokens), growing.end()]


def test_no_piece_ends_within_a_character() -> None:
    tokens = Pieces().encode("é€\N{SLIGHTLY SMILING FACE}stop €")
    pieces = pieces_of(tokens)
    assert "".join(pieces) == "é€\N{SLIGHTLY SMILING FACE}stop €"
    assert "\N{REPLACEMENT CHARACTER}" not in "".join(pieces)
    assert pieces[:5] == ["", "é", "", "", "€"]


def test_bytes_that_are_not_a_character_are_not_held_back_forever() -> None:
    half = PIECES.index(b"\xe2")
    pieces = pieces_of([half] * 40)
    assert "".join(pieces) == "\N{REPLACEMENT CHARACTER}" * 40 and any(pieces[:20])


@pytest.mark.parametrize("seed", range(20))
def test_pieces_are_the_text_of_all_tokens(seed: int) -> None:
    draw = random.Random(seed)
    characters = ["é", "€", "\N{SLIGHTLY SMILING FACE}", "st", "op", " ", "the ", *"abcxyz.?"]
    text = "".join(draw.choices(characters, k=60))
    tokens = Pieces().encode(text)
    assert "".join(pieces_of(tokens)) == text == Pieces().decode(tokens)


def spaced(tokens: list[int]) -> str:
    """Returns the text of tokens that are words. Omits the space before the first word, like tokenizers that mark
    spaces."""
    return "".join(f" {'abc'[token]}" for token in tokens)[1:]


def test_spaces_depend_on_the_preceding_text() -> None:
    class Words(Pieces):
        def decode(self, tokens: list[int]) -> str:
            return spaced(tokens)

    growing = GrowingText(Words())
    assert [growing.add(token) for token in (0, 1, 2, 0)] == ["a", " b", " c", " a"]


def naive_cut(text: str, stops: list[str]) -> str:
    """Returns the text before the stop string that is complete first. Searches each prefix of the text."""
    for end in range(len(text) + 1):
        places = [place for place in (text[:end].find(stop) for stop in stops) if place >= 0]
        if places:
            return text[: min(places)]
    return text


@pytest.mark.parametrize("seed", range(200))
def test_stop_strings_cut_at_the_first(seed: int) -> None:
    draw = random.Random(seed)
    text = "".join(draw.choices("ab", k=30))
    stops = ["".join(draw.choices("ab", k=draw.randint(1, 6))) for _ in range(draw.randint(0, 3))]
    finder = StopStrings(stops)
    given = [finder.add(letter) for letter in text]
    assert "".join(given) + finder.end() == naive_cut(text, stops)
    # Checks that a stop string is reported if and only if the text contains one.
    assert finder.found == any(stop in text for stop in stops)


def test_a_stop_string_over_pieces_is_held_back() -> None:
    finder = StopStrings(["stop"])
    assert [finder.add(piece) for piece in ("a st", "o", "x s", "t", "op b")] == ["a ", "", "stox ", "", ""]
    assert finder.found and finder.end() == ""


def answer(text: str, most: int = 100, stop: tuple[str, ...] = (), end: bool = False) -> Transcript:
    made = Transcript(Pieces(), most, (0,), stop)
    for token in [*Pieces().encode(text), *([0] * end)]:
        if made.finish is None:
            made.add(token, bytes(32))
    return made


def test_why_an_answer_ends() -> None:
    goes_on = answer("abc")
    assert goes_on.finish is None and goes_on.text == "abc"
    ended = answer("abc", end=True)
    assert (ended.finish, ended.text, ended.tokens[-1]) == ("stop", "abc", 0)
    short = answer("abcdef", most=4)
    assert (short.finish, short.text, len(short.tokens)) == ("length", "abcd", 4)
    stopped = answer("abstopx", stop=("sto",))
    assert (stopped.finish, stopped.text, len(stopped.tokens)) == ("stop", "ab", 4)
    # "st" is held back because a stop string may follow. Then the answer ends without one, so its text contains "st".
    assert answer("abst", most=3, stop=("stop",)).text == "abst"
    # The last allowed token completes the stop string, so the answer ends with "stop", not "length".
    both = answer("abstop", most=4, stop=("stop",))
    assert (both.finish, both.text) == ("stop", "ab")
    half = answer("ab" + "€", most=4)
    assert (half.finish, half.text) == ("length", "ab\N{REPLACEMENT CHARACTER}")
    assert half.logits_hash() != answer("ab", most=2).logits_hash()
