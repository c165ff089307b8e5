# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""BLAKE3, computed by the package `blake3` if it is installed, else by NumPy.

The function is specified in https://github.com/BLAKE3-team/BLAKE3-specs (unkeyed, 32 bytes of output). All chunks of
1024 bytes are independent, so NumPy processes thousands of chunks at a time, in several threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

_package: Any
try:
    import blake3 as _package
except ImportError:
    _package = None


def _is_memory_limited() -> bool:
    """Returns whether the address space is limited (ulimit -v), so that threads may fail to start."""
    try:
        import resource
    except ImportError:
        # This system does not support resource limits.
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


_one_thread = _is_memory_limited()
"""Whether the package must use one thread: its threads may fail to start, which prints a message on standard error, or
this process is a fork, in which the threads of the parent do not exist."""


def _use_one_thread() -> None:
    global _one_thread
    _one_thread = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_use_one_thread)

_IV = np.array(
    [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19], np.uint32
)
_PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
_CHUNK_START, _CHUNK_END, _PARENT, _ROOT = 1, 2, 4, 8
_BLOCK, _CHUNK = 64, 1024
_ROUNDS = 7
# The number of chunks that are compressed together, chosen so that their state and message fit the cache of one core.
_TOGETHER = 4096


Bytes = bytes | bytearray | memoryview


def blake3_of(*parts: Bytes, alone: bool = True) -> bytes:
    """Returns the 32-byte BLAKE3 hash of the concatenated parts.

    Args:
      parts: the data.
      alone: whether to use all processors; pass False if the caller computes many hashes in its own threads.
    """
    if _package is None:
        return numpy_blake3_of(*parts)
    size = sum(len(part) for part in parts)
    return _hashed(lambda: parts, together=alone and size > 1 << 20)


def blake3_of_chunks(chunks: Callable[[], Iterable[Bytes]]) -> bytes:
    """Returns the hash (`blake3_of`) of data that is never in memory as a whole; needs the package `blake3`.

    Args:
      chunks: a function that returns the data from its beginning; it is called again if threads cannot be started.
    """
    return _hashed(chunks, together=True)


def _hashed(chunks: Callable[[], Iterable[Bytes]], *, together: bool) -> bytes:
    """Returns the hash of the chunks, computed by the package blake3. If `together`, the package uses all processors,
    unless its threads cannot be started."""
    threads = _package.blake3.AUTO if together and not _one_thread else 1
    try:
        state = _package.blake3(max_threads=threads)
        for chunk in chunks():
            state.update(chunk)
    except BaseException as error:
        # A Rust panic, which is not an Exception, means that the threads could not be started.
        if type(error).__name__ != "PanicException" or threads == 1:
            raise
        _use_one_thread()
        return _hashed(chunks, together=False)
    result: bytes = state.digest()
    return result


def numpy_blake3_of(*parts: Bytes) -> bytes:
    """Computes `blake3_of` with NumPy only."""
    given = [np.frombuffer(part, np.uint8) for part in parts if len(part)]
    raw = given[0] if len(given) == 1 else np.concatenate([np.zeros(0, np.uint8), *given])
    # The last chunk is handled separately: it may be shorter, and if it is the only chunk, it is the root.
    whole = max(raw.size - 1, 0) // _CHUNK
    last = _last_chunk(raw[whole * _CHUNK :], whole)
    if whole == 0:
        return last.astype("<u4").tobytes()
    values = np.concatenate([_whole_chunks(raw[: whole * _CHUNK]), last], axis=1)
    # Each level combines pairs of neighbors. An unpaired last node moves to the next level, so that left subtrees are
    # complete.
    while values.shape[1] > 2:
        count = values.shape[1] // 2
        parents = _parents(values[:, : 2 * count], _PARENT)
        values = np.concatenate([parents, values[:, 2 * count :]], axis=1)
    return _parents(values, _PARENT | _ROOT).astype("<u4").tobytes()


def _last_chunk(raw: np.ndarray, index: int) -> np.ndarray:
    """Returns the chaining value u32 [8, 1] of the last chunk, of at most 1024 bytes. If `index` is 0, this chunk is
    the only one and therefore the root."""
    blocks = max(-(-raw.size // _BLOCK), 1)
    padded = np.zeros(blocks * _BLOCK, np.uint8)
    padded[: raw.size] = raw
    words = padded.view("<u4").astype(np.uint32).reshape(blocks, 16, 1)
    value = _IV[:, None].copy()
    counter = np.array([index], np.uint64)
    for block in range(blocks):
        size = raw.size - _BLOCK * block if block == blocks - 1 else _BLOCK
        flags = (_CHUNK_START if block == 0 else 0) | (_CHUNK_END if block == blocks - 1 else 0)
        if block == blocks - 1 and index == 0:
            flags |= _ROOT
        value = _compress(value, words[block], counter, size, flags)
    return value


def _whole_chunks(raw: np.ndarray) -> np.ndarray:
    """Returns the chaining values u32 [8, n] of the n whole chunks of `raw`, none of which is the last chunk."""
    words = raw.view("<u4").reshape(-1, 16, 16)

    def part(start: int) -> np.ndarray:
        message = words[start : start + _TOGETHER].astype(np.uint32).transpose(1, 2, 0)
        count = message.shape[2]
        counter = np.arange(start, start + count, dtype=np.uint64)
        value = np.repeat(_IV[:, None], count, axis=1)
        for block in range(16):
            flags = (_CHUNK_START if block == 0 else 0) | (_CHUNK_END if block == 15 else 0)
            value = _compress(value, message[block], counter, _BLOCK, flags)
        return value

    starts = range(0, len(words), _TOGETHER)
    if len(starts) == 1:
        return part(0)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return np.concatenate(list(pool.map(part, starts)), axis=1)


def _parents(values: np.ndarray, flags: int) -> np.ndarray:
    """Returns the chaining values u32 [8, n] of the parents of 2n neighboring nodes."""
    message = values.reshape(8, -1, 2).transpose(2, 0, 1).reshape(16, -1)
    count = message.shape[1]
    return _compress(np.repeat(_IV[:, None], count, axis=1), message, np.zeros(count, np.uint64), _BLOCK, flags)


def _compress(value: np.ndarray, message: np.ndarray, counter: np.ndarray, size: int, flags: int) -> np.ndarray:
    """Applies the compression function to n blocks at a time.

    Args:
      value: chaining values, u32 [8, n].
      message: blocks, u32 [16, n].
      counter: chunk counters, u64 [n].
      size: the number of bytes in each block.
      flags: the flags of each block.
    Returns:
      The chaining values, u32 [8, n].
    """
    count = message.shape[1]
    # Each array is one row of the 4 x 4 state matrix, with the words of its four columns, so that each NumPy operation
    # mixes all columns at once.
    a, b = value[:4].copy(), value[4:].copy()
    c = np.repeat(_IV[:4, None], count, axis=1)
    d = np.empty((4, count), np.uint32)
    d[0], d[1], d[2], d[3] = counter.astype(np.uint32), counter >> np.uint64(32), size, flags
    scratch = np.empty_like(a)
    order = list(range(16))
    for _ in range(_ROUNDS):
        _mix(a, b, c, d, message[order[0:8:2]], message[order[1:8:2]], scratch)
        b, c, d = b[[1, 2, 3, 0]], c[[2, 3, 0, 1]], d[[3, 0, 1, 2]]
        _mix(a, b, c, d, message[order[8::2]], message[order[9::2]], scratch)
        b, c, d = b[[3, 0, 1, 2]], c[[2, 3, 0, 1]], d[[1, 2, 3, 0]]
        order = [order[i] for i in _PERMUTATION]
    return np.concatenate([a ^ c, b ^ d])


def _mix(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray, x: np.ndarray, y: np.ndarray, scratch: np.ndarray
) -> None:
    """Applies the quarter round to four columns at once, in place; all arrays are u32 [4, n]."""
    for word, first, second in ((x, 16, 12), (y, 8, 7)):
        a += b
        a += word
        d ^= a
        _rotate(d, first, scratch)
        c += d
        b ^= c
        _rotate(b, second, scratch)


def _rotate(x: np.ndarray, bits: int, scratch: np.ndarray) -> None:
    np.left_shift(x, np.uint32(32 - bits), out=scratch)
    x >>= np.uint32(bits)
    x |= scratch
