# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(G5) Tensors that a model computes while it is constructed have bits that do not depend on PyTorch's kernels; tensors
for which this is not known are reported."""

import math
import warnings
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
import repro_mlir
import torch
from repro_mlir.frontends.torch.objects.defined_construction import DefinedConstruction, is_plain, is_whole


def rotary(theta: float, size: int) -> torch.Tensor:
    """Returns the frequencies of rotary embeddings, computed as transformers does."""
    return 1.0 / (theta ** (torch.arange(0, size, 2, dtype=torch.int64).to(dtype=torch.float) / size))


def table(length: int, size: int) -> torch.Tensor:
    """Returns a table of sinusoidal position encodings [length, size]."""
    found = torch.zeros(length, size)
    angles = torch.arange(length)[:, None] * torch.exp(torch.arange(0, size, 2).float() * (-math.log(10000.0) / size))
    found[:, 0::2] = torch.sin(angles)
    found[:, 1::2] = torch.cos(angles)
    return found


def rounded(value: mpmath.mpf) -> np.float32:
    """Rounds `value` to f32, once. `value` must be positive and in the range of normal f32 numbers."""
    mantissa, exponent = mpmath.frexp(value)
    return np.float32(math.ldexp(int(mpmath.nint(mpmath.ldexp(mantissa, 24))), exponent - 24))


@pytest.mark.parametrize(("theta", "size"), [(1e4, 96), (1e6, 128), (5e5, 64), (1e4, 10), (123.5, 7)])
def test_rotary_tables_are_those_of_the_page(theta: float, size: int) -> None:
    with DefinedConstruction() as construction:
        found = rotary(theta, size)
    assert construction.knows(found)
    with mpmath.workprec(200):
        exponents = [np.float32(2 * i) / np.float32(size) for i in range((size + 1) // 2)]
        powers = [rounded(mpmath.power(mpmath.mpf(float(np.float32(theta))), float(each))) for each in exponents]
    assert found.tolist() == [float(np.float32(1) / power) for power in powers]


DEFINED: list[Callable[[], torch.Tensor]] = [
    lambda: table(9, 6),
    lambda: torch.tensor(7**0.5),
    lambda: torch.full((3,), 0.1) * 3 - 1,
    lambda: torch.rsqrt(torch.tensor(2.0)),
    lambda: torch.tensor([0.1, 0.3]).pow_(2.5),
    lambda: torch.clamp((torch.arange(4.0) - 0.3) / 2.1, 0, 1),
    lambda: torch.where(torch.arange(3.0) > 1, torch.tensor(0.1), 0.2),
    lambda: torch.outer(torch.arange(4.0), torch.tensor([0.1, 0.3])),
    lambda: torch.exp(torch.arange(3).double()),
    lambda: torch.rsub(torch.arange(3.0, 7.0, 2), 0.1),
    lambda: torch.empty(4).fill_(0.3),
    lambda: torch.full((4, 4), -math.inf).triu(1),
    lambda: torch.cat([torch.tensor([0.1]), torch.sqrt(torch.arange(3.0))]).expand(2, 4).clone(),
]
UNDEFINED: list[Callable[[], torch.Tensor]] = [
    lambda: torch.randn(3),
    lambda: torch.randperm(5),
    lambda: torch.empty(3),
    lambda: torch.hann_window(16),
    lambda: torch.linspace(0, 1, 7),
    lambda: torch.tensor([0.1, 0.2]).mean(),
    lambda: torch.tensor([0.1, 0.2]).cumsum(0),
    lambda: torch.ones(3, 3) @ torch.ones(3, 3),
    lambda: torch.from_numpy(np.sin([1.0, 2.0])),
    lambda: torch.from_numpy(np.sin([1.0])),
    lambda: torch.FloatTensor(np.sin([1.0, 2.0])),
    lambda: torch.ones(2).copy_(torch.tensor(np.sin([1.0, 2.0]))),
    lambda: torch.add(torch.tensor([0.1]), torch.tensor([0.3]), alpha=0.7),
    lambda: torch.rsub(torch.tensor([0.1]), 0.3, alpha=0.7),
    lambda: torch.arange(0, 1, 0.1, dtype=torch.float64),
    lambda: torch.full((2,), 0.1 + 0.3j) * torch.tensor(0.7 + 0.1j),
    lambda: torch.exp(torch.arange(3).bfloat16()),
    lambda: torch.zeros(3).index_copy_(0, torch.tensor([1]), torch.randn(1)),
]


@pytest.mark.parametrize("number", range(len(DEFINED)))
def test_operations_that_are_defined(number: int) -> None:
    with DefinedConstruction() as construction:
        found = DEFINED[number]()
    assert construction.knows(found)
    torch.testing.assert_close(found, DEFINED[number]())


@pytest.mark.parametrize("number", range(len(UNDEFINED)))
def test_operations_that_are_not(number: int) -> None:
    with DefinedConstruction() as construction:
        found = UNDEFINED[number]()
    assert not construction.knows(found)


def test_tensors_that_need_no_rule() -> None:
    assert is_plain(torch.full((3,), 0.1)) and not is_whole(torch.full((3,), 0.1))
    assert is_whole(torch.tensor([0.0, -math.inf, 1.0, math.nan]))
    assert is_plain(torch.arange(5)) and is_plain(torch.zeros(0)) and not is_plain(torch.tensor([0.1, 0.2]))


class Positions(torch.nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 6)
        self.norm = torch.nn.BatchNorm1d(6)
        if kind != "none":
            made = {"table": table(9, 6), "window": torch.hann_window(6), "mean": torch.tensor([0.1, 0.2]).mean()}[kind]
            self.register_buffer("positions", made, persistent=False)


def test_initialize_names_unchanged_tensors() -> None:
    with pytest.warns(UserWarning, match=r"initialize leaves positions as PyTorch .*pass initialize a function"):
        repro_mlir.initialize(Positions("table"))
    for kind in ("window", "mean"):
        with pytest.warns(UserWarning, match=r"initialize leaves positions as PyTorch computed them: .*machine$"):
            repro_mlir.initialize(lambda kind=kind: Positions(kind))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        repro_mlir.initialize(Positions("none"))
        made = repro_mlir.initialize(lambda: Positions("table"), 3)
    with DefinedConstruction():
        expected = table(9, 6)
    assert torch.equal(made.get_buffer("positions"), expected)
    assert torch.equal(made.linear.weight, repro_mlir.initialize(Positions("none"), 3).linear.weight)
