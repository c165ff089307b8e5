# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Rules of docs/reference/numerics.md, implemented one element at a time: the expected values for the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import gmpy2
import numpy as np

Op = Callable[[np.generic, np.generic], np.generic]


def fma(x: np.float32, y: np.float32, z: np.float32) -> np.float32:
    """Returns x * y + z in f32 with one rounding."""
    with gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True):
        return np.float32(float(gmpy2.fma(*(gmpy2.mpfr(float(v)) for v in (x, y, z)))))


def ordered(
    elements: Sequence[tuple[np.generic, ...]],
    init: np.generic,
    start: np.generic,
    step: Callable[..., np.generic],
    op: Op,
    chunk: int,
    lanes: int,
    run: int,
    refold: bool,
) -> np.generic:
    """Returns the result of a fold in a defined order (F1) to (F4). `step(acc, *elements[t])` adds one element, and
    `op` combines two accumulators. After each `run` elements, the assignment of elements to lanes begins again at lane
    0."""
    if not elements:
        return init

    def chunk_results(items: Sequence[tuple[np.generic, ...]], step: Callable[..., np.generic], run: int) -> list:
        results = []
        for first in range(0, len(items), chunk):
            accumulators = [start] * lanes
            for t in range(first, min(first + chunk, len(items))):
                lane = (t % run) % lanes
                accumulators[lane] = step(accumulators[lane], *items[t])
            w = lanes // 2
            while w >= 1:
                for lane in range(w):
                    accumulators[lane] = op(accumulators[lane], accumulators[lane + w])
                w //= 2
            results.append(accumulators[0])
        return results

    totals = chunk_results(elements, step, run)
    if refold:
        while len(totals) > 1:
            totals = chunk_results([(x,) for x in totals], op, len(totals))
    total = totals[0]
    for x in totals[1:]:
        total = op(total, x)
    return op(init, total)


def scan(elements: Sequence[np.generic], op: Op) -> list[np.generic]:
    """Returns the running results of `op` by (D3): in chunks of 512 elements."""
    results: list[np.generic] = []
    carry = None
    for first in range(0, len(elements), 512):
        local = None
        for x in elements[first : first + 512]:
            local = x if local is None else op(local, x)
            results.append(local if carry is None else op(carry, local))
        carry = local if carry is None else op(carry, local)
    return results


def scatter(old: list, updates: Sequence, destinations: Sequence[int], start: np.generic, op: Op) -> list:
    """Returns one column of a scatter by (D1): `old` with the updates of each destination combined in chunks of 512."""
    new = list(old)
    for d in set(destinations):
        total = None
        for first in range(0, len(updates), 512):
            mine = [
                u
                for u, where in zip(updates[first : first + 512], destinations[first : first + 512], strict=True)
                if where == d
            ]
            if not mine:
                continue
            acc = start
            for u in mine:
                acc = op(acc, u)
            total = acc if total is None else op(total, acc)
        new[d] = op(old[d], total)
    return new


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Returns the four words of Philox4x32-10 as Salmon et al. define it."""
    c, k = list(counter), list(key)
    for r in range(10):
        if r:
            k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
        high0, low0 = divmod(0xD2511F53 * c[0], 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 2**32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
    return tuple(c)
