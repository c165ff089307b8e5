# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Folds (F1) to (F7), scans (D3) and scatters (D1), implemented literally, on arrays with the elements of many
independent results.

All arrays have the folded elements along axis 0 and the independent results along the other axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from repro_mlir.reference.low_precision.accumulators import Fdpa, LateFdpa, accumulate
from repro_mlir.reference.low_precision.binary_formats import BinaryFormat

Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""The op of (F2) and (F3), on two arrays of accumulators."""

Chain = Callable[[np.ndarray, int, int], np.ndarray]
"""chain(acc, t, count) returns the accumulators combined with the elements t, ..., t + count - 1, one after another."""

Step = Callable[[np.ndarray, int, int], np.ndarray]
"""step(acc, t, count) returns the accumulators acc[i] combined with the elements t + i, for i below count =
len(acc)."""

SCAN_CHUNK = 512
SCATTER_CHUNK = 512


@dataclass(frozen=True)
class Order:
    """(F1) to (F3) `#repro.order`: the order of an ordered fold. The fields are the parameters of the attribute."""

    chunk: int
    lanes: int
    run: int
    refold: bool


@dataclass(frozen=True)
class AnyOrder:
    """(F5) `#repro.any_order`: every order gives the same result."""


@dataclass(frozen=True)
class Sequential:
    """(F6) `#repro.sequential`: combines init with one element after another."""


@dataclass(frozen=True)
class Exact:
    """(K4) `#repro.exact`: a contraction that converts its factors to integers of `digits` bytes and adds the products
    of these integers exactly."""

    digits: int


@dataclass(frozen=True)
class Accumulated:
    """(M4) `#repro.fdpa`: a contraction with an accumulator of matrix units.

    Attributes:
      accumulator: the rule by which blocks of products are added.
      chunk: the number of elements in a chain of blocks; the totals of the chains are added in f32. 0 for a single
        chain.
      from_init: whether the chain begins with init, which is then not added at the end.
    """

    accumulator: Fdpa | LateFdpa
    chunk: int
    from_init: bool


FoldOrder = Order | AnyOrder | Sequential | Exact | Accumulated

ONE_OF_ANY = Order(chunk=8192, lanes=64, run=0, refold=False)
"""The order in which a fold with `#repro.any_order` (F5) is evaluated here: any choice gives the same result."""

EXACT_TERMS = 1 << 18
"""(K4) The maximum number of terms of a contraction: the sum of this many products of two 22-bit integers fits in an
int64."""


def _integers(x: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """(K4) Returns x * 2^(bits - e), rounded to integers, and the exponents e, one for each result. x is finite; the
    factors of a result are along axis 0."""
    # frexp returns m and e with |x| = m * 2^e and m < 1; e is 0 for 0.
    exponent = np.frexp(np.abs(x).max(axis=0))[1]
    return np.rint(np.ldexp(x.astype(np.float64), bits - exponent)).astype(np.int64), exponent


def exact_contraction(x: np.ndarray, y: np.ndarray, digits: int) -> np.ndarray:
    """(K4) Returns the sum of x[t] * y[t] over axis 0, without init.

    `x` and `y` are f32 of shape [n, ...], with n from 1 to EXACT_TERMS; the result is f32.
    """
    bits = 8 * digits - 2
    finite = (np.isfinite(x) & np.isfinite(y)).all(axis=0)
    q, e = _integers(np.where(finite, x, np.float32(0)), bits)
    r, f = _integers(np.where(finite, y, np.float32(0)), bits)
    total = (q * r).sum(axis=0).astype(np.float64)
    rounded = np.ldexp(total, e + f - 2 * bits).astype(np.float32)
    return np.where(finite, rounded, np.float32(np.nan))


def accumulated_contraction(
    x: np.ndarray, y: np.ndarray, of: tuple[BinaryFormat, BinaryFormat], init: np.ndarray, order: Accumulated
) -> np.ndarray:
    """(M4) Returns init plus the sum of x[t] * y[t] over axis 0, before it is rounded to the result type.

    `x` and `y` are f32 of shape [n, ...], n > 0, with values of the formats `of`; `init` has the shape of the results.
    """
    n = len(x)
    x, y = np.moveaxis(x, 0, -1), np.moveaxis(y, 0, -1)
    if order.from_init:
        return accumulate(x, y, init, order.accumulator, of)
    chunk = order.chunk or n
    total = None
    for first in range(0, n, chunk):
        part = slice(first, first + chunk)
        one = accumulate(x[..., part], y[..., part], np.zeros_like(init), order.accumulator, of)
        total = one if total is None else total + one
    return np.asarray(init + total)


def ordered_fold(
    order: Order,
    extents: Sequence[int],
    start: np.ndarray,
    init: np.ndarray,
    step: Step,
    combine: Combine,
    chain: Chain | None = None,
) -> np.ndarray:
    """Returns the fold of elements into `init`, in the order `order`. The elements are numbered row-major over the
    reduction `extents`; `step` takes the numbers of the elements that it combines with accumulators. `chain`, if given,
    does the same as several calls of `step`, and is used for an order of one lane.

    `start` is the start value (F4), a 0-d array of the accumulator's dtype; `init` has the shape of the results.
    """
    n = math.prod(extents)
    if n == 0:
        return init
    run = math.prod(extents[len(extents) - order.run :]) if order.run else n
    starts = np.broadcast_to(start, init.shape)
    if chain is not None and order.lanes == 1:
        totals = [chain(starts, t, min(order.chunk, n - t)) for t in range(0, n, order.chunk)]
    else:
        totals = _chunk_results(order, n, run, starts, step, combine)
    while order.refold and len(totals) > 1:
        items = np.stack(totals)

        def again(acc: np.ndarray, t: int, count: int, items: np.ndarray = items) -> np.ndarray:
            return combine(acc, items[t : t + count])

        totals = _chunk_results(order, len(items), len(items), starts, again, combine)
    total = totals[0]
    for chunk in totals[1:]:
        total = combine(total, chunk)
    return combine(init, total)


def _chunk_results(order: Order, n: int, run: int, start: np.ndarray, step: Step, combine: Combine) -> list[np.ndarray]:
    results = []
    for first in range(0, n, order.chunk):
        end = min(first + order.chunk, n)
        lanes = np.repeat(start[np.newaxis], order.lanes, axis=0)
        t = first
        while t < end:
            # Adjacent elements of one run go to adjacent lanes, so they are evaluated together.
            lane = t % run % order.lanes
            count = min(order.lanes - lane, run - t % run, end - t)
            lanes[lane : lane + count] = step(lanes[lane : lane + count], t, count)
            t += count
        width = order.lanes // 2
        while width:
            lanes = combine(lanes[:width], lanes[width : 2 * width])
            width //= 2
        results.append(lanes[0])
    return results


def scan(elements: np.ndarray, combine: Combine) -> np.ndarray:
    """(D3) Returns the inclusive prefix reduction along axis 0."""
    results = np.empty_like(elements)
    carry: np.ndarray | None = None
    for first in range(0, len(elements), SCAN_CHUNK):
        chunk = elements[first : first + SCAN_CHUNK]
        local = chunk[0]
        for t in range(len(chunk)):
            if t:
                local = combine(local, chunk[t])
            results[first + t] = local if carry is None else combine(carry, local)
        carry = local if carry is None else combine(carry, local)
    return results


def grouped_fold(
    groups: np.ndarray, elements: np.ndarray, start: np.ndarray, combine: Combine
) -> tuple[np.ndarray, np.ndarray]:
    """Folds the elements of each group in order from the start value. Elements with equal group numbers form a group.

    `groups` is int64 of shape [n], `elements` has shape [n, ...]. Returns the distinct group numbers in ascending order
    and the result of each group.
    """
    order = np.argsort(groups, kind="stable")
    names, first, counts = np.unique(groups[order], return_index=True, return_counts=True)
    results = np.repeat(np.broadcast_to(start, elements.shape[1:])[np.newaxis], len(names), axis=0)
    for rank in range(int(counts.max(initial=0))):
        members = np.flatnonzero(counts > rank)
        results[members] = combine(results[members], elements[order[first[members] + rank]])
    return names, results


def scatter(
    original: np.ndarray, destinations: np.ndarray, updates: np.ndarray, start: np.ndarray, combine: Combine
) -> np.ndarray:
    """(D1) Returns a copy of `original` in which, for each p, updates[p] has been folded into row destinations[p].

    `original` has shape [m, ...], `destinations` is int64 of shape [n] with values from 0 to m - 1, and `updates` has
    shape [n, ...].
    """
    chunks = -(-len(destinations) // SCATTER_CHUNK)
    position = np.arange(len(destinations)) // SCATTER_CHUNK
    groups, totals = grouped_fold(destinations * max(chunks, 1) + position, updates, start, combine)
    rows = groups // max(chunks, 1)
    # The groups ascend, so the chunk totals of a row are adjacent, in the order of the chunks. The first total of a row
    # is used unchanged; the others are combined with it in this order.
    leads = np.flatnonzero(np.diff(rows, prepend=-1))
    total = totals[leads].copy()
    counts = np.diff(np.append(leads, len(rows)))
    for rank in range(1, int(counts.max(initial=0))):
        members = np.flatnonzero(counts > rank)
        total[members] = combine(total[members], totals[leads[members] + rank])
    result = original.copy()
    result[rows[leads]] = combine(original[rows[leads]], total)
    return result


def scatter_replace(original: np.ndarray, destinations: np.ndarray, updates: np.ndarray) -> np.ndarray:
    """(D1) Returns a copy of `original` in which each updated row is replaced by its last update."""
    rows, last = np.unique(destinations[::-1], return_index=True)
    result = original.copy()
    result[rows] = updates[::-1][last]
    return result
