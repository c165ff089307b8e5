# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Counter-based random numbers (R1), (R2).

Philox4x32-10 is the generator of J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, which is the
source of its constants.
"""

from __future__ import annotations

import itertools
import numbers
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.environment import float_environment

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF
_LOW = np.uint64(_MASK)
_HALF = np.uint64(32)
_TOGETHER = 1 << 16
"""The number of elements that are computed together, a multiple of 4; their words fit in the cache of a core."""


class Place(NamedTuple):
    """(R1) The seed, of which the low 64 bits count, and the site and the step, both below 2^32."""

    seed: int
    site: int
    step: int


def philox4x32_10(
    counter: Sequence[Any], key: Sequence[Any], multiply: Callable[[Any, int], tuple[Any, Any]]
) -> tuple[Any, Any, Any, Any]:
    """Returns the four words of Philox4x32-10 for a counter of four words and a key of two words.

    The words are arrays or tensors of integers below 2^32, in a type of at least 64 bits.

    Args:
      counter: the words of the counter.
      key: the words of the key.
      multiply: returns new words: the high and the low half of the 64-bit products of words and a number below 2^32.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = multiply(c0, _MULTIPLIERS[0])
        high1, low1 = multiply(c2, _MULTIPLIERS[1])
        # In place, which takes less memory and time: `multiply` has made these words.
        high1 ^= c1
        high1 ^= k0
        high0 ^= c3
        high0 ^= k1
        c0, c1, c2, c3 = high1, low1, high0, low0
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def key_words(seed: Any) -> tuple[Any, Any]:
    """(R1) Returns the words of the key: the low and the high half of the seed."""
    return seed & _MASK, seed >> 32 & _MASK


def multiply_words(words: np.ndarray, factor: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the high and the low half of the 64-bit products of u64 words below 2^32 and a number below 2^32."""
    product = words * np.uint64(factor)
    high = product >> _HALF
    product &= _LOW
    return high, product


def signed_seed(seed: object) -> int:
    """Returns the seed as programs represent it: the i64 value with the same 64 bits.

    Args:
      seed: an integer of Python or NumPy from -2^63 to 2^64 - 1.
    Raises:
      ReproError: the seed is not such an integer.
    """
    if isinstance(seed, numbers.Integral) and not isinstance(seed, bool) and -(2**63) <= int(seed) < 2**64:
        return (int(seed) + 2**63) % 2**64 - 2**63
    raise ReproError(f"expected a whole number of 64 bits as seed, got {seed!r}")


def map_runs(
    starts: np.ndarray,
    length: int,
    place: Place,
    function: Callable[[np.ndarray], np.ndarray],
    dtype: DTypeLike,
    *,
    per_result: int = 1,
    threads: int = 1,
) -> np.ndarray:
    """Applies a function to the random bits (R1) of runs of results, a block at a time.

    Args:
      starts: u64 [runs]; the number of the first result of each run.
      length: the number of results of each run.
      place: the place from which the bits are drawn.
      function: maps u32 bits [r, per_result * n] to results [r, n].
      dtype: the element type of the results.
      per_result: 1, or 2 if result i is computed from the elements 2i and 2i + 1.
      threads: the number of threads that compute blocks.
    Returns:
      the results, [runs, length].
    """
    result = np.empty((len(starts), length), dtype)
    columns = min(max(length, 1), _TOGETHER)
    rows = _TOGETHER // columns
    starts = starts * np.uint64(per_result)

    @float_environment()
    def fill(block: tuple[int, int]) -> None:
        row, column = block
        first = starts[row : row + rows] + np.uint64(per_result * column)
        count = min(columns, length - column)
        result[row : row + rows, column : column + count] = function(_bits(first, per_result * count, place))

    blocks = list(itertools.product(range(0, len(starts), rows), range(0, length, columns)))
    if min(threads, len(blocks)) > 1:
        with ThreadPoolExecutor(min(threads, len(blocks))) as pool:
            list(pool.map(fill, blocks))
    else:
        for block in blocks:
            fill(block)
    return result


def _bits(starts: np.ndarray, length: int, place: Place) -> np.ndarray:
    """(R1) Returns the bits of runs of elements as u32 [runs, length]; `starts` has the number of the first element of
    each run, and has at least one."""
    skipped = (starts & np.uint64(3)).astype(np.int64)
    is_equal = bool((skipped == skipped[0]).all())
    most = int(skipped[0]) if is_equal else 3
    block: np.ndarray = (starts >> np.uint64(2))[:, np.newaxis] + np.arange((most + length + 3) // 4, dtype=np.uint64)
    counter = block & _LOW, block >> _HALF, np.full_like(block, place.site), np.full_like(block, place.step)
    words = np.empty((*block.shape, 4), np.uint32)
    for i, word in enumerate(philox4x32_10(counter, key_words(int(place.seed)), multiply_words)):
        words[..., i] = word
    elements = words.reshape(len(starts), -1)
    if is_equal:
        return elements[:, most : most + length]
    return np.take_along_axis(elements, skipped[:, np.newaxis] + np.arange(length), 1)


def uniform(bits: np.ndarray) -> np.ndarray:
    """(R2) Returns uniform f32 values in [0, 1) from u32 bits: (bits >> 8) * 2^-24."""
    # The conversion of signed integers is exact below 2^24, and faster than that of unsigned integers.
    return (bits >> np.uint32(8)).view(np.int32).astype(np.float32) * np.float32(2.0**-24)


def random_bits(shape: tuple[int, ...], seed: int, site: int, step: int) -> np.ndarray:
    """(R1) Returns the 32 random bits of each element, as uint64.

    `seed` is reduced modulo 2^64; `site` and `step` must be below 2^32.
    """
    return _whole(shape, Place(seed, site, step), lambda bits: bits, np.uint64)


def random_uniform(shape: tuple[int, ...], seed: int, site: int, step: int) -> np.ndarray:
    """(R2) Returns uniform f32 values in [0, 1): (bits >> 8) * 2^-24."""
    return _whole(shape, Place(seed, site, step), uniform, np.float32)


def _whole(
    shape: tuple[int, ...], place: Place, function: Callable[[np.ndarray], np.ndarray], dtype: DTypeLike
) -> np.ndarray:
    size = int(np.prod(shape, dtype=np.int64))
    return map_runs(np.zeros(1, np.uint64), size, place, function, dtype).reshape(shape)
