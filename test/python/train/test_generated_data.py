# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares the permutations, random numbers and initial values of (G1) to (G3) with a second implementation, in
Python's integers and fractions."""

from __future__ import annotations

import itertools
import math
import struct

import pytest
import repro_mlir

torch = pytest.importorskip("torch")

WORD = 2**32


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Returns the words of Philox4x32-10 by Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011)."""
    a, b, c, d = counter
    k, m = key
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = q >> 32 ^ b ^ k, q % WORD, p >> 32 ^ d ^ m, p % WORD
        k, m = (k + 0x9E3779B9) % WORD, (m + 0xBB67AE85) % WORD
    return [a, b, c, d]


def bits(count: int, seed: int, site: int, step: int) -> list[int]:
    """(R1) Returns the first `count` random words of a site at a step."""
    seed %= 2**64
    blocks = ([i % WORD, i >> 32, site, step] for i in range(-(-count // 4)))
    return list(itertools.chain(*(philox(block, [seed % WORD, seed >> 32]) for block in blocks)))[:count]


def f32(value: float) -> float:
    """Returns a value rounded to f32. The values here are exact in a Python float, so each is rounded only once."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def permutation(size: int, seed: int, epoch: int) -> list[int]:
    words = bits(size, seed, 0, epoch)
    return sorted(range(size), key=lambda i: words[i])


def test_philox() -> None:
    """Compares with the published results of the authors' library (Random123, kat_vectors)."""
    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox([WORD - 1] * 4, [WORD - 1] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


@pytest.mark.parametrize(("size", "seed", "epoch"), [(1, 0, 0), (7, 1, 2), (100, -1, 3), (513, 2**64 - 1, WORD - 1)])
def test_permutation(size: int, seed: int, epoch: int) -> None:
    """(G1) Compares permutations."""
    assert repro_mlir.permutation(size, seed, epoch).tolist() == permutation(size, seed, epoch)


def test_batches() -> None:
    """(G2) Compares batches."""
    expected = [permutation(10, 5, epoch)[start : start + 3] for epoch in range(3) for start in (0, 3, 6)]
    assert [batch.tolist() for batch in itertools.islice(repro_mlir.batches(10, 3, 5), 9)] == expected


def test_initialize() -> None:
    """(G3) Compares the initial values of parameters with the second implementation."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 5, 2), torch.nn.BatchNorm2d(5), torch.nn.Linear(7, 2))
    repro_mlir.initialize(model, seed=-3)
    for site, (name, parameter) in enumerate(model.named_parameters()):
        values = parameter.detach().reshape(-1).tolist()
        if parameter.dim() >= 2:
            bound = f32(math.sqrt(1.0 / math.prod(parameter.shape[1:])))
            uniform = [(word >> 8) * 2.0**-24 for word in bits(parameter.numel(), -3, site, 0)]
            assert values == [f32(f32(u - 0.5) * f32(2 * bound)) for u in uniform], name
        else:
            assert values == [float(name == "1.weight")] * parameter.numel(), name
