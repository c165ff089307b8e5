# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compressed gradients (L1): any number of ranks has the bits of one process, and what microbatches keep (B5)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch
from loopback_runs import Run, alone, captured, run
from repro_mlir.errors import ReproError
from repro_mlir.execute.microbatches import KeptMicrobatches
from support.compression_methods import METHODS

X = torch.randn(24, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(24) % 3
STEPS = 3


@functools.cache
def given(name: str) -> Run:
    """A step in six microbatches."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    options: dict[str, Any] = {"microbatches": 6, "clip_norm": 1.0, "gradient_compression": METHODS[name]}
    return captured(model, torch.nn.functional.cross_entropy, optimizer, (X, Y), **options)


@pytest.mark.parametrize("name", METHODS)
def test_one_hash_for_any_number_of_ranks(name: str) -> None:
    want = alone(given(name), steps=STEPS)
    for size, shares in ((1, None), (2, None), (3, (4, 1, 1)), (4, None), (2, (0, 1))):
        found, _ = run(given(name), size, shares, steps=STEPS)
        assert found == [want] * size, (size, shares, found)


@pytest.mark.parametrize("name", ["one_bit", "qsgd"])
def test_ranks_of_several_kinds(name: str) -> None:
    targets = "cpu:x86-64-v2", "reference", "ptx-emulator"
    found, _ = run(given(name), 3, (4, 1, 1), targets, steps=STEPS)
    assert found == [alone(given(name), steps=STEPS)] * 3


@pytest.mark.parametrize("name", ["top_k", "one_bit", "power_sgd"])
def test_ranks_that_shard_the_optimizer_or_check_each_other(name: str) -> None:
    """What the mean leaves over is on one rank then; what microbatches leave over is on all."""
    want = alone(given(name), steps=STEPS)
    for sharded, share in ((True, 0.0), (False, 1.0), (True, 0.5)):
        found, _ = run(given(name), 3, steps=STEPS, shard_optimizer=sharded, check_share=share)
        assert found == [want] * 3, (sharded, share, found)


def test_bytes_that_ranks_send() -> None:
    """Beside those of a step without such state, half of it in each step: the other half is the other rank's."""
    sent = {name: run(given(name), 2, steps=STEPS)[1] for name in ("top_k", "qsgd")}
    program = given("top_k").program
    size = sum(4 * int(np.prod(program.state[i].shape)) for i in program.own)
    assert [a - b for a, b in zip(sent["top_k"], sent["qsgd"], strict=True)] == [STEPS * size // 2] * 2


def test_a_flipped_bit_of_what_a_microbatch_keeps_is_found() -> None:
    def between(rank: int, step: int, state: dict[str, np.ndarray], _: Any) -> None:
        if (rank, step) == (1, 1):
            state["gradient_compression.residual.0.weight"].view(np.uint32)[5, 7, 0] ^= 1

    found, _ = run(given("top_k"), 3, steps=STEPS, between=between)
    assert all("ranks disagree: 1 of 3 have another state than most" in str(each) for each in found), found


def test_what_a_microbatch_keeps_is_checked_by_another_rank() -> None:
    """Rank 0 gives right sums, and something wrong in what its first microbatch keeps."""

    def begun(kept: KeptMicrobatches) -> None:
        ranks, write = kept._executable.ranks, kept._calls.write
        assert ranks is not None

        def wrong(number: int, sums: Any, own: Any) -> None:
            write(number, sums, own)
            if number == 0:
                own[0].view(np.uint32)[0, 0] ^= 1

        if ranks.rank == 0:
            kept._calls.write = wrong  # type: ignore[method-assign]

    found, _ = run(given("top_k"), 3, steps=STEPS, check_share=1.0, begun=begun)
    assert all(isinstance(each, ReproError) for each in found), found
    assert all("rank 0 of 3 has computed something wrong" in str(each) for each in found), found
