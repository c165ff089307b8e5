# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Test operands: special bit patterns of each type, and random ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from formats import FORMATS
from kernels import bits_of, dtype_of


def special(type_name: str) -> list[int]:
    """Returns the bit patterns of values of a type at which operations are likely to go wrong, such as the largest
    ones."""
    if type_name == "pred":
        return [0, 1]
    bits = bits_of(type_name)
    if type_name in FORMATS:
        form = FORMATS[type_name]
        fraction, top = form.fraction_bits, 1 << (bits - 1)
        infinity = ((1 << form.exponent_bits) - 1) << fraction
        one = form.bias << fraction
        positive = [
            0,
            1,
            (1 << fraction) - 1,  # greatest subnormal
            1 << fraction,  # least normal
            one,
            one + 1,
            one - 1,
            one + (1 << (fraction - 1)),  # 1.5
            one + (1 << fraction) + (1 << (fraction - 2)),  # 2.5
            one - (1 << fraction),  # 0.5
            infinity - 1,
            infinity,
            infinity + 1,  # signalling NaN
            infinity | 1 << (fraction - 1),
            top - 1,
        ]
        # Values near the limits of integer types, some of them halfway between two integers.
        for value in (7.5, 127.5, 255.5, 32767.5, 65535.5, 2.0**31, 2.0**32, 2.0**63, 2.0**64, 2.0**31 - 128):
            positive.append(form.round_float(value))
        return [*positive, *(pattern | top for pattern in positive)]
    values = {0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 255, 256}
    for power in (7, 8, 15, 16, 24, 31, 32, 53, 63, 64):
        values |= {(1 << power) - 1, 1 << power, (1 << power) + 1}
    values |= {-value for value in values}
    return sorted({value % (1 << bits) for value in values})


def operands(sources: Sequence[str], count: int = 320, seed: int = 0) -> list[np.ndarray]:
    """Returns an array of bit patterns for each source. The array mixes special patterns, random patterns and values of
    similar magnitude. If there is only one source, its array begins with all special patterns."""
    rng = np.random.default_rng(seed)
    arrays = []
    for kind in sources:
        bits = min(bits_of(kind), 64)
        edges = np.array(special(kind), np.uint64)
        random = (
            rng.integers(0, 1 << bits, count, np.uint64, endpoint=False)
            if bits < 64
            else rng.integers(0, 1 << 64, count, np.uint64)
        )
        if kind == "pred":
            random &= np.uint64(1)
        small = rng.integers(0, 70, count).astype(np.uint64) % np.uint64(2**bits if bits < 64 else 2**63)
        if kind in FORMATS:
            # Random values of similar magnitude, so that sums cancel and products need rounding.
            form = FORMATS[kind]
            fraction = rng.integers(0, 1 << form.fraction_bits, count, np.uint64)
            exponent = rng.integers(form.bias - 3, form.bias + 4, count).astype(np.uint64) << np.uint64(
                form.fraction_bits
            )
            small = fraction | exponent | rng.integers(0, 2, count).astype(np.uint64) << np.uint64(bits - 1)
        choice = rng.integers(0, 3, count)
        if kind == "pred":
            choice[:] = 0
        values = np.where(choice == 0, random, np.where(choice == 1, small, edges[rng.integers(0, len(edges), count)]))
        arrays.append(values.astype(dtype_of(kind)))
    if len(sources) == 1:
        arrays[0] = np.concatenate([np.array(special(sources[0]), arrays[0].dtype), arrays[0]])
    return arrays
