# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""From which memory the bytes of launches come: least-recently-used caches over pages of buffers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

_LEAST_PAGE = 1024
# Pages of a step at most, so that its time is bounded.
_PAGES = 1 << 16


@dataclass(frozen=True)
class Touch:
    """Bytes that a launch reads or writes.

    Attributes:
      space, number: what they are part of (docs/plan.md).
      offset, size: in bytes.
      times: how often they pass where no cache holds them: 2 where they are read, and written back.
    """

    space: str
    number: int
    offset: int
    size: int
    times: int = 1


class _Cache:
    """Pages, the latest last."""

    def __init__(self, size: int, page: int) -> None:
        self.pages: OrderedDict[tuple[str, int, int], None] = OrderedDict()
        self.most = max(1, size // page)

    def touch(self, page: tuple[str, int, int]) -> bool:
        """Whether the page was here; now it is."""
        found = page in self.pages
        self.pages[page] = None
        self.pages.move_to_end(page)
        if len(self.pages) > self.most:
            self.pages.popitem(last=False)
        return found


def traffic(launches: Sequence[Sequence[Touch]], levels: Sequence[str], sizes: Sequence[int]) -> list[dict[str, int]]:
    """The bytes of each launch that come from each level, in a step like all others.

    Args:
      launches: what each of the step touches, in its order.
      levels: names of the caches and of the memory behind them.
      sizes: bytes of the caches, of the first level first.
    """
    total = sum(touch.size for launch in launches for touch in launch)
    page = _LEAST_PAGE
    while total // page > _PAGES:
        page *= 2
    caches = [_Cache(size, page) for size in sizes]
    found: list[dict[str, int]] = []
    for is_counted in (False, True):
        for launch in launches:
            counts = dict.fromkeys(levels, 0)
            for touch in launch:
                end = touch.offset + touch.size
                for place in range(touch.offset // page, -(-end // page)):
                    part = min(end, (place + 1) * page) - max(touch.offset, place * page)
                    hits = [each.touch((touch.space, touch.number, place)) for each in caches]
                    counts[levels[hits.index(True) if True in hits else len(caches)]] += part * touch.times
            if is_counted:
                found.append(counts)
    return found
