# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q3) Stochastic rounding over 10^8 draws: tests the share of draws that round up, and that any number of threads
gives equal bits."""

import numpy as np
import pytest
from repro_mlir.compilation.cpu import native_level
from support.block_programs import Form, quantized
from support.builder import Builder
from support.kit import Configuration, compiled

ROWS, COLUMNS, STEPS = 4096, 1024, 12
FRACTIONS = np.array([0, 1, 2**12, 2**14 + 3, 2**15, 3 * 2**14 - 1, 2**16 - 1, 2**15 + 2**7]) / 2**16
FLOOR = 10
"""The code of mxint8 just below all elements; the elements lie between this code and the next one."""


def _program(bits: int) -> str:
    b = Builder()
    x, seed, step = b.argument((ROWS, COLUMNS), "f32"), b.argument((), "i64"), b.argument((), "i64")
    seed, step = (b.op(f"tensor.extract {v.name}[] : {v.type}", None, "i64") for v in (seed, step))
    form = Form("i8", 1, 0, "power_scale<rule = floor>", f"direction = sr, bits = {bits}")
    codes, _ = quantized(b, form, x, key=(5, seed, step))
    return b.program(codes)


def _codes(program: str, x: np.ndarray, step: int, threads: int) -> np.ndarray:
    inputs = (x, np.array(11), np.array(step))
    found = compiled(program, inputs, Configuration(native_level(), threads), runs=1)
    assert isinstance(found, list)
    return found[0].view(np.uint8)


@pytest.mark.parametrize("bits", [8, 16])
def test_stochastic_rounding_is_low_by_less_than_its_bits_Q3(bits: int) -> None:
    """With n bits, a value at the fraction t between two codes rounds up in floor(t 2^n) / 2^n of all draws, within six
    standard deviations."""
    fractions = np.resize(FRACTIONS, COLUMNS)
    x = np.broadcast_to(((FLOOR + fractions) / 64).astype(np.float32), (ROWS, COLUMNS)).copy()
    x[:, 0] = 1  # the largest magnitude of each row, which makes the scale 1
    program = _program(bits)
    up = np.zeros(COLUMNS, np.int64)
    for step in range(STEPS):
        codes = _codes(program, x, step, threads=1 + step % 2)
        assert np.isin(codes[:, 1:], (FLOOR, FLOOR + 1)).all()
        up += (codes == FLOOR + 1).sum(axis=0)
    np.testing.assert_array_equal(_codes(program, x, 3, threads=1), _codes(program, x, 3, threads=2))
    draws = 0
    for t in FRACTIONS:
        columns = np.flatnonzero(fractions == t)
        columns = columns[columns > 0]
        count = len(columns) * ROWS * STEPS
        draws += count
        expected = np.floor(t * 2**bits) / 2**bits
        mean = up[columns].sum() / count
        deviation = np.sqrt(expected * (1 - expected) / count)
        assert abs(mean - expected) <= 6 * deviation
        assert t - 2.0**-bits - 6 * deviation < mean <= t + 6 * deviation
    assert 2 * draws > 10**8
