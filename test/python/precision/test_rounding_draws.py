# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""(Q3) Stochastic rounding is unbiased within 2^-n of a unit in 10^8 draws, and does not depend on how work is
divided."""

from __future__ import annotations

import math

import numpy as np
import pytest
import repro_mlir
from repro_mlir.program import read_signature
from repro_mlir.program.canonical import to_bytes
from support.block_programs import Form, dequantized, quantized
from support.builder import Builder

SHAPE = (1024, 1024)
STEPS = 96
# The distance between values of f8E4M3FN from 1 to 2, if the scale is 1.
UNIT = 2.0**-3
DEVIATIONS = 5.0


def program_of(bits: int) -> repro_mlir.Program:
    """Returns a program that quantizes x and dequantizes the result. The quantization uses random bits that depend on
    the step number."""
    form = Form("f8E4M3FN", 1, 32, "power_scale<rule = floor>", f"direction = sr, bits = {bits}")
    b = Builder()
    x, step = b.argument(SHAPE, "f32"), b.argument((), "i64")
    number = b.op(f"tensor.extract {step.name}[] : {step.type}", None, "i64")
    seed = b.constant("7", None, "i64")
    codes, scales = quantized(b, form, x, key=(1, seed, number))
    return read_signature(to_bytes(b.program(dequantized(b, form, codes, scales))))


def samples(generator: np.random.Generator) -> np.ndarray:
    """Returns numbers from 1 to 2. Each block begins with 256, so that its scale is 1."""
    x = generator.uniform(1, 2, SHAPE).astype(np.float32)
    x[:, ::32] = 256
    return x


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_Q3_the_mean_of_draws(bits: int) -> None:
    """The mean may be off by five standard deviations. A random test would exceed this limit once in 1.7 million times,
    but these draws are fixed."""
    x = samples(np.random.default_rng(bits))
    executable = repro_mlir.compile(program_of(bits), "cpu", 1)
    (name,) = (each.name for each in executable.program.outputs)
    total = np.zeros(SHAPE, np.int64)
    for step in range(STEPS):
        _, outputs = executable({}, x, np.array(step))
        total += np.round(outputs[name] / UNIT).astype(np.int64)
    drawn = np.ones(SHAPE, bool)
    drawn[:, ::32] = False
    assert drawn.sum() * STEPS > 97e6
    low, rest = np.divmod(x[drawn].astype(np.float64) / UNIT, 1)
    chance = np.floor(rest * 2**bits) / 2**bits
    sigma = math.sqrt(float((chance * (1 - chance)).sum()) * STEPS)
    off = float((total[drawn] - STEPS * (low + chance)).sum())
    assert abs(off) < DEVIATIONS * sigma
    # With n random bits, the mean is lower than x by less than 2^-n of a unit.
    bias = float((STEPS * (low + rest) - total[drawn]).mean()) / STEPS
    spread = DEVIATIONS * sigma / (STEPS * drawn.sum())
    assert -spread < bias < 2.0**-bits + spread


def test_Q3_draws_are_those_of_any_split() -> None:
    x, program = samples(np.random.default_rng(0)), program_of(8)
    (name,) = (each.name for each in program.outputs)
    found = {
        threads: repro_mlir.compile(program, "cpu", threads)({}, x, np.array(3))[1][name].tobytes()
        for threads in (1, 2, 3)
    }
    assert len(set(found.values())) == 1
