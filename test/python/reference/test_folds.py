# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares the interpreter's folds, scans, scatters, sorts and random numbers with scalar loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scalar
from hypothesis import given, settings
from hypothesis import strategies as st
from repro_mlir.base.numerics import philox as random
from repro_mlir.reference import arithmetic, folds, ordering


def values(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Returns f32 values of widely different magnitudes, with signed zeros and subnormals."""
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-20, 20, shape))
    x[rng.random(shape) < 0.1] = -0.0
    x[rng.random(shape) < 0.05] = 3e-42
    return x.astype(np.float32)


def equal_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


OPS = {"add": (np.float32(0.0), np.add), "mul": (np.float32(1.0), np.multiply)}


@given(
    extents=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    run=st.integers(0, 3),
    chunk=st.integers(2, 40),
    lanes=st.sampled_from([1, 2, 4, 8, 64]),
    refold=st.booleans(),
    name=st.sampled_from(["add", "mul", "fma", "chain"]),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=300, deadline=None)
def test_ordered_fold_F1_F2_F3_F4(
    extents: list[int], run: int, chunk: int, lanes: int, refold: bool, name: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    n, results = math.prod(extents), 2
    x, y, init = values(rng, n, results), values(rng, n, results), values(rng, results)
    start, op = OPS["mul" if name == "mul" else "add"]
    order = folds.Order(chunk, lanes, min(run, len(extents)), refold)

    def step(acc: np.ndarray, t: int, count: int) -> np.ndarray:
        if name in ("fma", "chain"):
            return arithmetic.fma(x[t : t + count], y[t : t + count], acc)
        return op(acc, x[t : t + count])

    def chain(acc: np.ndarray, t: int, count: int) -> np.ndarray:
        x64, y64 = (v[t : t + count].astype(np.float64) for v in (x, y))
        return arithmetic.fma_chain(x64, y64, acc)

    with np.errstate(all="ignore"):
        given_chain = chain if name == "chain" else None
        got = folds.ordered_fold(order, extents, np.array(start), init, step, op, given_chain)
        r = math.prod(extents[len(extents) - order.run :]) if order.run else n
        for i in range(results):
            elements = list(zip(x[:, i], y[:, i], strict=True)) if name in ("fma", "chain") else [(v,) for v in x[:, i]]
            one = (lambda acc, a, b: scalar.fma(a, b, acc)) if name in ("fma", "chain") else op
            want = scalar.ordered(elements, init[i], start, one, op, chunk, lanes, r, refold)
            assert equal_bits(got[i], want)


def test_fold_of_nothing_F3() -> None:
    init = np.array([-0.0, 1.0], np.float32)

    def unused(acc: np.ndarray, t: int, count: int) -> np.ndarray:
        raise AssertionError

    order = folds.Order(8, 4, 0, True)
    assert equal_bits(folds.ordered_fold(order, [3, 0], np.array(np.float32(0)), init, unused, np.add), init)


@pytest.mark.parametrize("n", [0, 1, 511, 512, 513, 1300])
def test_scan_D3(n: int) -> None:
    x = values(np.random.default_rng(n), n, 3)
    with np.errstate(all="ignore"):
        got = folds.scan(x, np.add)
        for i in range(3):
            assert equal_bits(got[:, i], np.array(scalar.scan(list(x[:, i]), np.add), np.float32))


@pytest.mark.parametrize("n", [0, 1, 40, 512, 1500])
def test_scatter_add_D1(n: int) -> None:
    rng = np.random.default_rng(n)
    old, updates = values(rng, 7, 2), values(rng, n, 2)
    destinations = rng.integers(0, 6, n)
    destinations[: n // 3] = 2
    got = folds.scatter(old, destinations, updates, np.array(np.float32(0)), np.add)
    for i in range(2):
        columns = list(old[:, i]), list(updates[:, i])
        want = scalar.scatter(*columns, destinations.tolist(), np.float32(0), np.add)
        assert equal_bits(got[:, i], np.array(want, np.float32))


def test_scatter_replace_D1() -> None:
    rng = np.random.default_rng(0)
    old, updates, destinations = values(rng, 9, 2), values(rng, 30, 2), rng.integers(0, 8, 30)
    want = old.copy()
    for where, update in zip(destinations, updates, strict=True):
        want[where] = update
    assert equal_bits(folds.scatter_replace(old, destinations, updates), want)


SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 2.0]


@given(st.lists(st.sampled_from(SPECIAL), min_size=1, max_size=12))
@settings(max_examples=300, deadline=None)
def test_arg_extreme_and_sort_D2(items: list[float]) -> None:
    x = np.array(items, np.float32)

    def rank(i: int) -> tuple[bool, float]:
        return math.isnan(items[i]), 0.0 if math.isnan(items[i]) else items[i] + 0.0

    everyone = range(len(items))
    assert ordering.arg_extreme(x, largest=True) == max(everyone, key=rank)  # max() returns the first equal element
    least = min(everyone, key=lambda i: (not rank(i)[0], rank(i)[1]))
    assert ordering.arg_extreme(x, largest=False) == least
    assert ordering.sort_order(x, descending=False).tolist() == sorted(everyone, key=rank)
    falling = sorted(everyone, key=lambda i: (not rank(i)[0], -rank(i)[1]))
    assert ordering.sort_order(x, descending=True).tolist() == falling


def test_integer_order_D2() -> None:
    x = np.array([[3, -(2**63), 2**63 - 1, -(2**63), 2**63 - 1, 0]], np.int64)
    assert ordering.arg_extreme(x, largest=True).tolist() == [2]
    assert ordering.arg_extreme(x, largest=False).tolist() == [1]
    assert ordering.sort_order(x, descending=True).tolist() == [[2, 4, 0, 5, 1, 3]]
    assert ordering.sort_order(x, descending=False).tolist() == [[1, 3, 5, 0, 2, 4]]


def test_philox_R1() -> None:
    # Known results from Random123, the library of Philox's authors.
    ones = 0xFFFFFFFF
    known = {
        ((0, 0, 0, 0), (0, 0)): (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
        ((ones,) * 4, (ones,) * 2): (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)): (
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)
        ),
    }
    for (counter, key), words in known.items():
        got = random.philox4x32_10(list(np.array(counter, np.uint64).reshape(4, 1)), key, random.multiply_words)
        assert tuple(word.item() for word in got) == words == scalar.philox(counter, key)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 4), (2, 3, 5), (0, 3)])
def test_random_elements_R1_R2(shape: tuple[int, ...]) -> None:
    seed, site, step = -(2**61) + 12345, 7, 2**32 - 1
    bits = random.random_bits(shape, seed, site, step)
    uniform = random.random_uniform(shape, seed, site, step)
    assert bits.shape == uniform.shape == shape and uniform.dtype == np.float32
    word = seed % 2**64
    for i, where in enumerate(itertools.product(*map(range, shape))):
        block = scalar.philox((i // 4, 0, site, step), (word % 2**32, word // 2**32))
        assert bits[where] == block[i % 4]
        assert uniform[where] == (block[i % 4] >> 8) * 2.0**-24
