# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares BLAKE3 in NumPy with the blake3 package."""

import subprocess
import sys

import blake3
import numpy as np
import pytest
from repro_mlir.base.numerics import digest
from repro_mlir.base.numerics.digest import blake3_of, numpy_blake3_of

# Sizes at and next to multiples of BLAKE3's blocks and chunks. Their trees are full or partial. Several threads hash
# the last size.
SIZES = [0, 1, 3, 63, 64, 65, 1023, 1024, 1025, 2048, 2049, 3072, 4097, 5120, 31744, 102400, (9 << 20) + 17]


@pytest.mark.parametrize("size", SIZES)
def test_numpy_gives_the_same(size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    expected = blake3.blake3(data).digest()
    assert numpy_blake3_of(data) == expected and blake3_of(data) == expected
    assert numpy_blake3_of(data[: size // 3], b"", memoryview(bytearray(data))[size // 3 :]) == expected


def test_threads_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the package `blake3` cannot start threads, it panics. Then the data is hashed again by one thread."""

    class PanicException(BaseException):
        pass

    class Hasher:
        AUTO = -1

        def __new__(cls, max_threads: int) -> object:
            if max_threads != 1:
                raise PanicException("no threads")
            return blake3.blake3(max_threads=1)

    class Package:
        blake3 = Hasher

    data = bytes(range(256)) * 8192
    want = digest.blake3_of(data)
    monkeypatch.setattr(digest, "_package", Package)
    monkeypatch.setattr(digest, "_one_thread", False)
    assert digest.blake3_of(data) == want
    assert digest.blake3_of_chunks(lambda: [data[:100], data[100:]]) == want


def test_threads_are_not_tried_where_memory_is_limited() -> None:
    """If memory is limited, only one thread is used: failing to start threads would print a panic, although the hash
    would be right."""
    program = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))
from repro_mlir.base.numerics.digest import blake3_of
data = bytes(1 << 22)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (1 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
print(blake3_of(data).hex())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == (blake3.blake3(bytes(1 << 22)).hexdigest(), "")
