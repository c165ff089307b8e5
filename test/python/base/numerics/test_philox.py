# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests which seeds of random numbers (R1) users may pass."""

import re
from typing import Any

import numpy as np
import pytest
from repro_mlir import ReproError
from repro_mlir.base.numerics.philox import random_bits, signed_seed


@pytest.mark.parametrize(
    ("seed", "signed"),
    [
        (0, 0),
        (2**63 - 1, 2**63 - 1),
        (2**63, -(2**63)),
        (2**64 - 1, -1),
        (-(2**63), -(2**63)),
        (np.int64(-5), -5),
        (np.uint64(2**64 - 1), -1),
    ],
)
def test_the_signed_seed_has_the_same_64_bits(seed: Any, signed: int) -> None:
    found = signed_seed(seed)
    assert type(found) is int and found == signed
    assert np.array_equal(random_bits((5,), found, 1, 2), random_bits((5,), int(seed), 1, 2))


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1, 1.0, True, "1", None])
def test_invalid_seeds_are_refused(seed: Any) -> None:
    with pytest.raises(ReproError, match=re.escape(f"expected a whole number of 64 bits as seed, got {seed!r}")):
        signed_seed(seed)
