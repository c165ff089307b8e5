# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares the number of blocks per multiprocessor with values computed by hand from the rules of the CUDA Occupancy
Calculator."""

from __future__ import annotations

from dataclasses import replace

import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.roofline.gpu.occupancy import blocks_per_multiprocessor
from support.predicted import GPU


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks"),
    [
        # 2048 threads are 64 warps with 1024 registers each: all fit, in 8 blocks of 256 threads.
        (256, 32, 0, 8),
        # 33 registers are rounded up to 1280 per warp, so each of four partitions holds 12 warps: 6 blocks of 8 warps.
        (256, 33, 0, 6),
        # 255 registers take 8192 per warp, so 8 warps fit: 2 blocks of 4 warps.
        (128, 255, 0, 2),
        # 20 threads take the space of a full warp; at most 32 blocks are resident.
        (20, 16, 0, 32),
        (1024, 64, 0, 1),
        # With 1 KiB for the driver, a block takes 50,176 of the 233,472 bytes of shared memory.
        (128, 32, 48 * 1024, 4),
        # 1 byte and 1 KiB for the driver are rounded up to 1152 bytes.
        (32, 32, 1, 32),
    ],
)
def test_by_hand(threads: int, registers: int, shared: int, blocks: int) -> None:
    assert blocks_per_multiprocessor("k", threads, registers, shared, GPU) == blocks


def test_other_architectures() -> None:
    # sm_75 has 1024 threads, 16 blocks, and 64 KiB of shared memory, of which the driver uses none.
    small = replace(GPU, architecture="sm_75", threads=1024, blocks=16, shared_bytes=65536)
    assert blocks_per_multiprocessor("k", 64, 32, 32768, small) == 2
    assert blocks_per_multiprocessor("k", 64, 32, 32768, replace(small, architecture="sm_80")) == 1


@pytest.mark.parametrize(
    ("change", "scarce"),
    [({"shared_bytes": 1000}, "shared_bytes"), ({"threads": 64}, "threads"), ({"registers": 4096}, "registers")],
)
def test_a_block_that_does_not_fit(change: dict[str, int], scarce: str) -> None:
    with pytest.raises(
        ReproError, match=f"a block of k with 128 threads, 64 registers .* more than the {scarce} of made-up"
    ):
        blocks_per_multiprocessor("k", 128, 64, 512, replace(GPU, **change))
