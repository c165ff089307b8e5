# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests that blocks of a loop are simulated together, and that each run of a block is counted once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from repro_mlir.roofline.cpu.assembly import Block, read_assembly
from repro_mlir.roofline.cpu.sequences import Sequence, sequences_of

NESTED = """
kernel_0:                               # @kernel_0
# %bb.0:                                # %runs.2.
\tmov\tx
.LBB0_1:                                # %runs.20.
\tmov\ty
.LBB0_2:                                # %runs.60.
\tadd\tx
\tjne\t.LBB0_2
# %bb.3:                                # %runs.20.
\tmov\tz
\tjne\t.LBB0_1
# %bb.4:                                # %runs.2.
\tmov\tw
.Lfunc_end0:
"""


def instructions(sequences: list[Sequence]) -> Counter[str]:
    """Returns how often each instruction runs in these sequences."""
    runs: Counter[str] = Counter()
    for one in sequences:
        for instruction in one.instructions:
            runs[instruction] += one.runs
    return runs


def test_loops_of_few_iterations_are_part_of_their_surroundings() -> None:
    (blocks,) = read_assembly(NESTED).values()
    assert [block.loop for block in blocks] == [0, 0, 1, 3, 0]
    inner = "mov\ty", *3 * ("add\tx", "jne\t.LBB0_2"), "mov\tz", "jne\t.LBB0_1"
    assert sequences_of(blocks) == [Sequence(2, True, ("mov\tx", *10 * inner, "mov\tw"))]


def test_long_loops_are_alone() -> None:
    blocks = [Block(3, 0, ["a"]), Block(3000, 1, ["b", "c"]), Block(3, 0, ["d"])]
    assert sequences_of(blocks) == [
        Sequence(3, False, ("a",)), Sequence(3000, True, ("b", "c")), Sequence(3, False, ("d",))
    ]  # fmt: skip
    # Block c is a loop of its own, although it runs as often as block b.
    blocks = [Block(1, 0, ["a"]), Block(900, 1, ["b"]), Block(900, 1, ["c"])]
    assert sequences_of(blocks) == [
        Sequence(1, False, ("a",)),
        Sequence(900, True, ("b",)),
        Sequence(900, True, ("c",)),
    ]


@pytest.mark.parametrize("runs", [7, 8, 9, 13])
def test_iterations_beyond_a_whole_number_are_apart(runs: int) -> None:
    blocks = [Block(4, 0, ["a"]), Block(runs, 1, ["b"])]
    sequences = sequences_of(blocks)
    assert sequences[-1] == Sequence(4, True, ("a", *runs // 4 * ("b",)))
    assert all(one.runs > 0 for one in sequences)
    assert instructions(sequences) == {"a": 4, "b": runs}


@pytest.mark.parametrize("seed", range(200))
def test_each_instruction_runs_as_often_as_its_block(seed: int) -> None:
    """Covers random loops, even one that begins in another loop and ends after it."""
    rng = np.random.default_rng(seed)
    blocks = []
    for number in range(int(rng.integers(1, 12))):
        loop = int(rng.integers(0, number + 2)) if rng.random() < 0.4 else 0
        count = int(rng.choice([1, 2, 40, 300]))
        blocks.append(Block(int(rng.choice([1, 2, 3, 10, 60])), loop, [f"{number}.{i}" for i in range(count)]))
    runs = instructions(sequences_of(blocks))
    assert {name: count for name, count in runs.items() if count} == {
        each: block.runs for block in blocks for each in block.instructions
    }
