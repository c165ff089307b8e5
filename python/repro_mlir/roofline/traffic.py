# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Computes reuse distances: the bytes touched between two touches of the same data, which determine cache hits."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

# Gauss-Legendre quadrature on the interval from 0 to 1.
_POINTS, _WEIGHTS = (each / 2 for each in np.polynomial.legendre.leggauss(6))
_POINTS += 0.5
# The number of half-lives after which a cache keeps nothing.
_LONG = 30.0

Access = tuple[str, int, int, int, bool, bool]
"""A buffer of a launch: space, number, offset and size as in `Touch`, whether the launch reads it, whether it writes
it."""


@dataclass(frozen=True)
class Touch:
    """A contiguous range of bytes that a launch reads or writes.

    Attributes:
      space, number: the buffer that contains the bytes (docs/reference/plan.md).
      offset, size: the position and the size of the range, in bytes.
      times: how often each byte is transferred on a cache miss: 2 if it is both fetched and written back.
    """

    space: str
    number: int
    offset: int
    size: int
    times: float = 1


def touches_of(accesses: Iterable[Access], *, fetches_written: bool) -> list[Touch]:
    """Returns the touches of a launch; several accesses to the same bytes are one touch.

    Args:
      fetches_written: whether caches also fetch lines that are only written, as the caches of CPUs do.
    """
    found: dict[tuple[str, int, int, int], tuple[bool, bool]] = {}
    for space, number, offset, size, reads, writes in accesses:
        if size:
            place = space, number, offset, size
            before = found.get(place, (False, False))
            found[place] = before[0] or reads, before[1] or writes
    return [
        Touch(*place, times=1 + (writes and (reads or fetches_written))) for place, (reads, writes) in found.items()
    ]


@dataclass(frozen=True, eq=False)
class Reuse:
    """The reuse distances of a step in steady state. Touched ranges are divided into pieces, all bytes of which have
    the same last touch. The arrays have one entry for each touch of a piece.

    Attributes:
      launches: the number of launches of the step.
      launch, passing: the launch that touches the piece, and the number of bytes that are transferred if the piece is
        not in the cache.
      distance: the size in bytes of the smallest LRU cache that still contains the piece: the distinct bytes touched
        since its last touch, including the piece itself.
      ago: the number of launches since that touch; 0 if it belongs to the same launch.
    """

    launches: int
    launch: np.ndarray
    passing: np.ndarray
    distance: np.ndarray
    ago: np.ndarray

    def beyond(self, size: float, lost: np.ndarray | float = 0.0) -> np.ndarray:
        """Returns the number of bytes of each launch that miss in an LRU cache of `size` bytes; all bytes for size 0.

        Args:
          lost: the fraction of each piece that other programs have evicted since its last touch.
        """
        passing = self.passing * np.where(self.distance > size, 1.0, lost)
        return np.rint(np.bincount(self.launch, passing, self.launches)).astype(np.int64)

    def farthest(self, near: float, size: float, lost: np.ndarray | float = 0.0) -> np.ndarray:
        """Returns, for each launch, the largest fraction of any piece that misses both in a cache of `near` bytes and
        in a cache of `size` bytes that has lost the fraction `lost` of each piece.
        """
        found = np.zeros(self.launches)
        beyond_near = np.where(self.distance > near, lost, 0.0)
        np.maximum.at(found, self.launch, np.where(self.distance > max(near, size), 1.0, beyond_near))
        return found

    def kept(self, seconds: np.ndarray, half_life: float) -> np.ndarray:
        """Returns the fraction of each piece that remains in a cache that keeps 2^-n² of untouched data after n
        half-lives.

        Launches take `seconds`, and each launch touches its bytes evenly in that time.
        """
        ends = np.concatenate([np.cumsum(seconds) - np.sum(seconds), np.cumsum(seconds)])
        now, before = self.launch + self.launches, (self.launch - self.ago) % self.launches
        # Rounding can make this difference of times negative.
        since = np.maximum(ends[now] - seconds[self.launch] - ends[now - self.ago], 0.0)
        found = np.zeros(len(since))
        for part, weight in zip(_POINTS, _WEIGHTS, strict=True):
            for part_before, weight_before in zip(_POINTS, _WEIGHTS, strict=True):
                time = since + part * seconds[self.launch] + part_before * seconds[before]
                found += weight * weight_before * np.exp2(-(np.minimum(time / half_life, _LONG) ** 2))
        return np.where(self.ago > 0, found, 1.0)


def reuse(launches: Sequence[Sequence[Touch]]) -> Reuse:
    """Returns the reuse distances of a step that follows an equal step. `launches` has the touches of each launch, in
    order."""
    stack = _Stack(2 * sum(len(touches) for touches in launches))
    numbers, passing, distances, ago = list[int](), list[float](), list[int](), list[int]()
    # Maps the time of a touch to its launch.
    order = [0]
    for step in range(2):
        for number, touches in enumerate(launches):
            for touch in touches:
                order.append(step * len(launches) + number)
                for size, distance, time in stack.touch(touch):
                    if step:
                        numbers.append(number)
                        passing.append(size * touch.times)
                        distances.append(distance)
                        ago.append(order[-1] - order[time])
    whole = (np.array(each, np.int64) for each in (distances, ago))
    return Reuse(len(launches), np.array(numbers, np.int64), np.array(passing), *whole)


@dataclass
class _Piece:
    """The bytes from `begin` to `end` of a buffer, last touched at `time`. The bytes of that touch end at `until`."""

    begin: int
    end: int
    time: int
    until: int

    @property
    def size(self) -> int:
        return self.end - self.begin


class _Stack:
    """All bytes ordered by their last touch, and within one touch by address."""

    def __init__(self, touches: int) -> None:
        # A Fenwick tree with the number of bytes for each time of a last touch.
        self.tree = [0] * (touches + 1)
        self.time = self.total = 0
        self.buffers: defaultdict[tuple[str, int], list[_Piece]] = defaultdict(list)

    def touch(self, touch: Touch) -> list[tuple[int, int, int]]:
        """Marks bytes as the most recently touched. Returns the size, the distance and the time of the last touch of
        each piece that was touched before."""
        pieces = self.buffers[touch.space, touch.number]
        begin, end = touch.offset, touch.offset + touch.size
        first, last = _split(pieces, begin), _split(pieces, end)
        # Maps the time of a last touch to the number of its bytes at addresses above the current piece: within one
        # touch, bytes at higher addresses count as more recent.
        behind: defaultdict[int, int] = defaultdict(int)
        until = max((piece.until for piece in pieces[first:last]), default=0)
        for i in range(first, len(pieces)):
            if i >= last and pieces[i].begin >= until:
                break
            behind[pieces[i].time] += pieces[i].size
        found, passed = [], 0
        for piece in pieces[first:last]:
            behind[piece.time] -= piece.size
            later = self.total - self._bytes_until(piece.time)
            found.append((piece.size, piece.size + behind[piece.time] + later + passed, piece.time))
            self._add(piece.time, -piece.size)
            passed += piece.size
        if first and begin < pieces[first - 1].until <= end:
            pieces[first - 1].until = begin
        self.time += 1
        self._add(self.time, touch.size)
        pieces[first:last] = [_Piece(begin, end, self.time, end)]
        return found

    def _add(self, time: int, size: int) -> None:
        self.total += size
        while time < len(self.tree):
            self.tree[time] += size
            time += time & -time

    def _bytes_until(self, time: int) -> int:
        found = 0
        while time:
            found += self.tree[time]
            time &= time - 1
        return found


def _split(pieces: list[_Piece], place: int) -> int:
    """Splits the piece that contains the offset `place`, if there is one; returns the index of the first piece at or
    after `place`."""
    number = bisect_left(pieces, place, key=lambda piece: piece.begin)
    if number and pieces[number - 1].end > place:
        before = pieces[number - 1]
        pieces.insert(number, _Piece(place, before.end, before.time, before.until))
        before.end = place
    return number
