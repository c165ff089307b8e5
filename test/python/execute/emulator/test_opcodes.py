# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares every opcode that does not access memory with semantics.py, on special and random operands and all host CPU
levels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from kernels import dtype_of, run_instruction
from patterns import operands
from repro_mlir._mlir_libs import _repro
from repro_mlir.execute import emulator
from semantics import Meaning, meanings

MEANINGS = meanings()
INTERNAL = ("extend.", "narrow.", "join", "part", "quarter", "carry", "borrow", "addc.", "subc.")
"""Rows of the emulator's table that correspond to no single statement; test_forms.py covers the statements that use
them."""


def test_every_row_has_a_meaning() -> None:
    opcodes = {name for name in _repro.emulator_opcodes() if not name.startswith(INTERNAL)}
    assert opcodes == set(MEANINGS)


def expected(meaning: Meaning, arrays: list[np.ndarray]) -> np.ndarray:
    """Returns the results, as bits, that semantics.py computes for an opcode and arrays of operands."""
    values = [meaning.compute(*row) for row in zip(*(array.tolist() for array in arrays), strict=True)]
    return np.array(values, dtype_of(meaning.result))


def groups() -> list[tuple[str, list[str]]]:
    """Returns the opcodes in groups. The opcodes of a group have the same name before the first dot, and one test runs
    a group."""
    names = sorted(MEANINGS)
    return [(key, list(group)) for key, group in itertools.groupby(names, lambda name: name.split(".")[0])]


@pytest.mark.parametrize(("group", "opcodes"), groups(), ids=[key for key, _ in groups()])
def test_opcodes(group: str, opcodes: list[str]) -> None:
    for opcode in opcodes:
        meaning = MEANINGS[opcode]
        names = [f"%s{i}" for i in range(len(meaning.sources))]
        arrays = operands(meaning.sources)
        want = expected(meaning, arrays)
        line = f"  {opcode} %d0, {', '.join(names)};"
        for level in emulator.levels():
            (got,) = run_instruction(line, [meaning.result], arrays, meaning.sources, level)
            wrong = np.flatnonzero(got != want)
            assert not len(wrong), (
                f"{opcode} on {level}: {len(wrong)} of {len(want)} differ; of "
                f"{[hex(int(array[wrong[0]])) for array in arrays]} expected {int(want[wrong[0]]):#x}, "
                f"got {int(got[wrong[0]]):#x}"
            )
