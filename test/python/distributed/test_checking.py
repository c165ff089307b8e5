# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A rank detects errors in a microbatch of another rank by computing it again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from loopback import make_loopback, run_ranks
from loopback_runs import alone, run
from repro_mlir.base.errors import ReproError
from repro_mlir.distributed import Ranks
from repro_mlir.distributed.checking import Checks
from repro_mlir.distributed.sums import Sums
from repro_mlir.execute.microbatch_calls import MicrobatchCalls
from repro_mlir.execute.microbatches import MicrobatchExecutable
from test_ranks import flip, normalized

Fault = Callable[[list[np.ndarray], list[np.ndarray]], None]
"""Called with the inputs, and then with the outputs, of a microbatch; changes them."""


def plant(monkeypatch: pytest.MonkeyPatch, program: Any, rank: int, fault: Callable[[int], Any]) -> None:
    """Makes a rank compute wrong results. `fault` receives the number of microbatches that the rank has already run,
    and returns two functions: one changes the inputs of the next microbatch, the other its outputs."""
    write, count = MicrobatchCalls.write, 0

    def wrong(self: MicrobatchCalls, number: int, sums: Sums, own: Sequence[np.ndarray]) -> None:
        nonlocal count
        if self._part.program is not program or threading.current_thread().name != f"rank {rank}":
            return write(self, number, sums, own)
        before, behind = fault(count)
        count += 1
        self._part.write([], before(self._arrays(number)), [*sums.tensors, *own])
        behind(sums.tensors)

    monkeypatch.setattr(MicrobatchCalls, "write", wrong)


def nothing(values: Any) -> Any:
    return values


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.diagonal(seed=range(4))
def test_a_flipped_bit_of_a_gradient_or_an_activation_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 3 ranks and full checking, a single wrong result is detected: every rank's error names the rank that
    computed it."""
    # One microbatch per leaf of the sum's tree: if a leaf added several, the rounding of its sum could hide the flipped
    # bit.
    given, draw = normalized(6, 1), np.random.default_rng(seed)
    rank, when, bit = int(draw.integers(3)), int(draw.integers(3)), int(draw.integers(1 << 20))
    sums = [i for i, kind in enumerate(given.program.sums) if kind.element == "f32"]
    place = int(draw.choice(sums))

    def gradient(outputs: list[np.ndarray]) -> None:
        flip(outputs[place], bit)

    def activation(inputs: list[np.ndarray]) -> list[np.ndarray]:
        # Flips a high mantissa bit or an exponent bit of one element of the microbatch's rows, so that the gradients
        # differ.
        rows = inputs[len(given.program.state) + given.program.cut[0]].copy()
        flip(rows, 32 * (bit // 32) + 12 + bit % 19)
        return [rows if i == len(given.program.state) + given.program.cut[0] else each for i, each in enumerate(inputs)]

    def fault(count: int) -> tuple[Any, Any]:
        if count != when:
            return nothing, nothing
        return (nothing, gradient) if seed % 2 else (activation, nothing)

    plant(monkeypatch, given.program.part, rank, fault)
    found, _ = run(given, 3, (2, 1, 2), steps=2, check_share=1.0)
    for each in found:
        assert isinstance(each, ReproError), each
        assert f"rank {rank} of 3 has computed wrong results in leaves" in str(each)


def test_C8_a_bit_that_rounding_swallows_is_found_where_it_is_committed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    given = normalized(2, 4)

    def fault(count: int) -> Any:
        # Flips the lowest bit of all gradients of the second microbatch of rank 1.
        return nothing, (lambda outputs: [flip(each, 0) for each in outputs if each.size]) if count == 1 else nothing

    plant(monkeypatch, given.program.part, 1, fault)
    commits = lambda kept: setattr(kept, "commits", True)  # noqa: E731
    found, _ = run(given, 2, steps=1, check_share=1.0, begun=commits)
    assert all("rank 1 of 2 has computed wrong results" in str(each) for each in found)


@pytest.mark.parametrize("size", [1, 2])
def test_two_ranks_find_a_single_error(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given = normalized(4, 1)
    plant(monkeypatch, given.program.part, size - 1, lambda count: (nothing, lambda o: count == 1 and flip(o[0], 5)))
    found, _ = run(given, size, steps=1, check_share=1.0)
    assert all(f"rank {size - 1} of {size} has computed wrong results" in str(each) for each in found)


def test_a_rank_that_is_always_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """One rank always computes wrong results. Three ranks can tell which rank is wrong, because the other two agree;
    two ranks cannot."""
    given = normalized(4, 1)
    plant(monkeypatch, given.program.part, 1, lambda count: (nothing, lambda outputs: flip(outputs[1], 9)))
    found, _ = run(given, 3, steps=1, check_share=1.0)
    assert all("rank 1 of 3 has computed wrong results" in str(each) for each in found)
    found, _ = run(given, 2, steps=1, check_share=1.0)
    assert all(
        "of 2 differ in leaves 0 to 1" in str(each) and "no majority shows which is wrong" in str(each)
        for each in found
    )


def test_a_wrong_sum_of_leaves_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from repro_mlir.execute.microbatches import KeptMicrobatches

    given, added = normalized(8, 1), KeptMicrobatches._added

    def wrong(self: Any, left: Any, right: Any) -> Any:
        sums = added(self, left, right)
        if threading.current_thread().name == "rank 0":
            flip(sums.tensors[1], 3)
        return sums

    monkeypatch.setattr(KeptMicrobatches, "_added", wrong)
    found, _ = run(given, 4, steps=1, check_share=1.0)
    assert all("rank 0 of 4 has computed wrong results" in str(each) for each in found)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_right_ranks_go_on(share: float) -> None:
    given = normalized(5, 2)
    for size, shares in ((1, None), (2, None), (4, (0, 3, 1, 1)), (7, None)):
        found, _ = run(given, size, shares, check_share=share)
        assert found == [alone(given)] * size


def test_the_step_determines_the_checked_microbatches() -> None:
    seeds = [bytes([i]) * 32 for i in range(200)]
    ranks = [Ranks(each, check_share=0.25) for each in make_loopback(3)]
    drawn = [Checks.drawn(each, 12, seed) for each in ranks for seed in seeds]
    assert drawn[:200] == drawn[200:400] == drawn[400:]
    leaves = [leaf for checks in drawn[:200] for nodes in checks.nodes for leaf in nodes if len(leaf) == 1]
    assert 0.2 < len(leaves) / (12 * 200) < 0.3
    assert Checks.drawn(Ranks(make_loopback(3)[0], check_share=1.0), 12, b"").nodes[1] == (
        *(range(leaf, leaf + 1) for leaf in range(4, 8)),
        range(4, 8),
    )


def test_a_share_that_is_none() -> None:
    for share in (-0.1, 1.5, float("nan")):
        with pytest.raises(ReproError, match="expected check_share from 0 to 1"):
            Ranks(make_loopback(1)[0], check_share=share)


def test_ranks_that_check_otherwise_are_named() -> None:
    given, found = normalized(4, 1), [""] * 3
    transports = make_loopback(3)

    def work(rank: int) -> None:
        executable = MicrobatchExecutable(
            given.program, "cpu", 1, Ranks(transports[rank], check_share=0.5 if rank == 1 else 0.25)
        )
        try:
            executable(given.program.initial_state(), *given.inputs)
        except ReproError as error:
            found[rank] = str(error)

    run_ranks(3, work)
    assert all("1 of 3 have other shares" in each for each in found)
