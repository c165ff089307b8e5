# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares the model of caches, which evict the least recently used data, with simulations that follow each byte."""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import pytest
from repro_mlir.roofline.traffic import Touch, reuse, touches_of


def beyond_by_bytes(launches: Sequence[Sequence[Touch]], size: int) -> list[int]:
    """Returns what `Reuse.beyond` returns for the second of two equal steps, simulated byte by byte with a cache of
    `size` bytes."""
    cache: OrderedDict[tuple[str, int, int], None] = OrderedDict()
    found: list[int] = []
    for touches in [*launches, *launches]:
        found.append(0)
        for touch in touches:
            for place in range(touch.offset, touch.offset + touch.size):
                byte = touch.space, touch.number, place
                found[-1] += int(touch.times) * (byte not in cache)
                cache[byte] = None
                cache.move_to_end(byte)
                if len(cache) > size:
                    cache.popitem(last=False)
    return found[len(launches) :]


def kept_by_bytes(launches: Sequence[Sequence[Touch]], seconds: Sequence[int], half_life: float) -> list[float]:
    """Returns, for each launch of the second of two equal steps, the fractions that `Reuse.kept` returns, summed over
    the touched bytes and multiplied by the passes. Simulates each byte, which a launch may touch at any time while it
    runs."""
    spans: dict[tuple[str, int, int], tuple[int, int, int]] = {}
    found, now = list[float](), 0
    times = (np.arange(300) + 0.5) / 300
    for number, touches in enumerate([*launches, *launches]):
        found.append(0)
        end = now + seconds[number % len(launches)]
        for touch in touches:
            for place in range(touch.offset, touch.offset + touch.size):
                byte = touch.space, touch.number, place
                last, begin, until = spans.get(byte, (number, now, now))
                apart = np.add.outer(now + times * (end - now), -(begin + times * (until - begin)))
                found[-1] += touch.times * (
                    float(np.exp2(-((apart / half_life) ** 2)).mean()) if last < number else 1.0
                )
                spans[byte] = number, now, end
        now = end
    return found[len(launches) :]


def some_launches(seed: int) -> list[list[Touch]]:
    """Returns random launches. Their touched ranges overlap, are disjoint or contain each other."""
    some = random.Random(seed)
    return [
        [
            Touch(some.choice("ab"), some.randrange(2), some.randrange(20), some.randrange(1, 12), some.choice((1, 2)))
            for _ in range(some.randrange(4))
        ]
        for _ in range(some.randrange(1, 8))
    ]


@pytest.mark.parametrize("seed", range(100))
def test_caches_of_bytes(seed: int) -> None:
    launches = some_launches(seed)
    found = reuse(launches)
    for size in range(40):
        assert found.beyond(size).tolist() == beyond_by_bytes(launches, size)


@pytest.mark.parametrize("seed", range(20))
def test_kept_data_of_a_cache_that_others_use(seed: int) -> None:
    launches = some_launches(seed)
    seconds = [random.Random(seed).randrange(1, 100) for _ in launches]
    found = reuse(launches)
    kept = np.bincount(found.launch, found.passing * found.kept(np.array(seconds), 50.0), len(launches))
    assert kept.tolist() == pytest.approx(kept_by_bytes(launches, seconds, 50.0), rel=1e-3)
    # For a cache that has lost half of its data, the result is the mean of those for an empty and for a full cache.
    halves = (np.array(beyond_by_bytes(launches, 0)) + beyond_by_bytes(launches, 20)) / 2
    assert np.abs(found.beyond(20, 0.5) - halves).max(initial=0) <= 0.5


@pytest.mark.parametrize(
    ("near", "size", "expected"), [(7, 40, [0, 0.5, 0.5]), (7, 20, [0, 1, 1]), (24, 20, [0, 0, 0])]
)
def test_the_farthest_piece_of_a_launch(near: int, size: int, expected: list[float]) -> None:
    """The largest reuse distance is 4 bytes in the first launch and 24 bytes in the others. The cache of `size` bytes
    has lost half of its data."""
    again, once, other = (Touch("state", number, 0, size) for number, size in enumerate((4, 16, 4)))
    found = reuse([[again], [again, once], [other, again]])
    assert found.farthest(near, size, 0.5).tolist() == expected


def test_the_kept_share_is_valid_for_every_half_life() -> None:
    """Rounding can make the computed time since the previous touch zero or negative. The kept share must still be
    between 0 and 1."""
    launches = [[Touch("state", 0, 0, 8)]] * 50
    seconds = np.random.default_rng(0).random(50) * 1e-3
    for half_life in (1e-300, 1e-30, 1e-9, 1e300):
        with np.errstate(all="raise", under="ignore"):
            kept = reuse(launches).kept(seconds, half_life)
        assert ((kept >= 0) & (kept <= 1)).all()


def test_another_large_launch_makes_no_cache_larger() -> None:
    small = [Touch("state", 0, 0, 200 << 10)]
    large = [Touch("state", 1, 0, 20 << 30)]
    for launches in ([small, small], [small, small, large]):
        found = reuse(launches)
        assert found.beyond(32 << 10).tolist()[1] == 200 << 10
        assert found.beyond(1 << 20).tolist()[1] == 0


def test_a_long_step_takes_no_long_time() -> None:
    """Covers a step with 40,001 touches: of a buffer's parts in order, of the whole buffer, and of its parts in reverse
    order."""
    number, size = 20000, 4096
    parts = [[Touch("arena", 0, size * i, size)] for i in range(number)]
    whole = [Touch("arena", 0, 0, size * number)]
    start = time.process_time()
    found = reuse([*parts, whole, *parts[::-1]])
    assert time.process_time() - start < 60
    # The distance between two touches of a part is the size of the parts between this part and the end at which the
    # order turns around.
    assert found.distance[:number].tolist() == [size * (i + 1) for i in range(number)]
    assert (found.distance[number : 2 * number] == size * number).all()
    assert found.distance[2 * number :].tolist() == [size * (i + 1) for i in range(number)]


def test_fetched_lines_that_are_written_back_pass_twice() -> None:
    accesses = [
        ("state", 0, 0, 64, True, True),
        ("state", 1, 32, 64, True, False),
        ("state", 1, 32, 64, False, True),
        ("state", 1, 0, 32, True, False),
        ("state", 2, 0, 16, False, True),
        ("arena", 0, 0, 0, True, True),
    ]
    for fetches_written in (True, False):
        touches = touches_of(accesses, fetches_written=fetches_written)
        assert [(each.number, each.offset, each.size, each.times) for each in touches] == [
            (0, 0, 64, 2), (1, 32, 64, 2), (1, 0, 32, 1), (2, 0, 16, 1 + fetches_written),
        ]  # fmt: skip
        assert reuse([touches]).beyond(32).tolist() == [288 + 16 * (1 + fetches_written)]


def test_nothing_is_touched() -> None:
    assert reuse([]).beyond(0).tolist() == []
    assert reuse([[], []]).beyond(0).tolist() == [0, 0]
