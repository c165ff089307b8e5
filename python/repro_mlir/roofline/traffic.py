# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What kernels read and write, and from which memory: least-recently-used caches over pages of buffers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...bundle.runner.plan import Plan
from ...errors import ReproError

LEVELS = ("l1", "l2", "l3", "memory")
_LEAST_PAGE = 1024
# Pages of a step at most, so that its time is bounded.
_PAGES = 1 << 16


@dataclass(frozen=True)
class Operand:
    """A buffer of a kernel."""

    size: int
    reads: bool
    writes: bool


def read_operands(text: str) -> dict[str, list[Operand]]:
    """The buffers of each kernel, of what `repro_mlir.compilation.cpu.analyze` gives."""
    kernels = {}
    for line in text.splitlines():
        name, *buffers = line.split()
        pairs = [buffer.rsplit(":", 1) for buffer in buffers]
        kernels[name] = [Operand(int(size), "read" in access, "write" in access) for access, size in pairs]
    return kernels


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


def traffic(plan: Plan, operands: dict[str, list[Operand]], sizes: Sequence[int]) -> list[dict[str, int]]:
    """The bytes of each launch that come from each of `LEVELS`, each buffer read or written once, in a step like all
    others.

    Args:
      plan: of a CPU.
      operands: of its kernels.
      sizes: bytes of the caches, of the first level first.
    Raises:
      ReproError: a kernel of other operands than its launch has.
    """
    touched = [[*_touches(plan, operands, number)] for number in range(len(plan.launches))]
    total = sum(size for launch in touched for *_, size in launch)
    page = _LEAST_PAGE
    while total // page > _PAGES:
        page *= 2
    caches = [_Cache(size, page) for size in sizes]
    found: list[dict[str, int]] = []
    for is_counted in (False, True):
        for launch in touched:
            counts = dict.fromkeys(LEVELS, 0)
            for space, number, offset, size in launch:
                for place in range(offset // page, -(-(offset + size) // page)):
                    begin, end = max(offset, place * page), min(offset + size, (place + 1) * page)
                    hits = [each.touch((space, number, place)) for each in caches]
                    counts[LEVELS[hits.index(True) if True in hits else len(caches)]] += end - begin
            if is_counted:
                found.append(counts)
    return found


def _touches(plan: Plan, operands: dict[str, list[Operand]], number: int) -> Iterator[tuple[str, int, int, int]]:
    launch = plan.launches[number]
    kernel = operands[plan.kernels[launch.kernel].name]
    if len(kernel) != len(launch.arguments):
        raise ReproError(f"launch {number} has {len(launch.arguments)} buffers, its kernel {len(kernel)}")
    for operand, (space, index, offset) in zip(kernel, launch.arguments, strict=True):
        if operand.size:
            yield space, index, offset, operand.size
