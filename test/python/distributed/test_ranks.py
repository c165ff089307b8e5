# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Training on any number of ranks, with any targets and any shares of the work, gives the bits of one process."""

import threading
from typing import Any

import numpy as np
import pytest
import repro_mlir
import torch
from loopback import make_loopback, run_ranks
from loopback_runs import Run, alone, captured, hash_of, run
from repro_mlir.base.errors import RankLost, ReproError, StepFailed
from repro_mlir.distributed import Ranks
from repro_mlir.distributed.tree import maximal_nodes
from repro_mlir.execute.executable import Executable
from repro_mlir.execute.microbatches import MicrobatchExecutable

ROWS = 192
REPORT_BYTES = 7 * 32 + 1 + 255
X = torch.randn(ROWS, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(ROWS) % 3


def normalized(leaves: int, accumulate: int) -> Run:
    """Returns a training step with batch normalization, dropout and gradient clipping."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 3)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    rows, count = 2 * leaves * accumulate, leaves * accumulate
    options: dict[str, Any] = dict(microbatches=count, accumulate=accumulate, clip_norm=1.0)
    return captured(model, torch.nn.functional.cross_entropy, optimizer, (X[:rows], Y[:rows]), **options)


class Decoder(torch.nn.Module):
    """A language model of one block, with tied embeddings and with both bf16 and f32 weights."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(11, 16)
        self.norm = torch.nn.RMSNorm(16)
        self.qkv = torch.nn.Linear(16, 48, bias=False)
        self.up = torch.nn.Linear(16, 32, dtype=torch.bfloat16)
        self.down = torch.nn.Linear(32, 16, dtype=torch.bfloat16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        q, k, v = (each.unflatten(2, (2, 8)).transpose(1, 2) for each in self.qkv(self.norm(x)).chunk(3, -1))
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + mixed.transpose(1, 2).flatten(2)
        x = x + self.down(torch.nn.functional.silu(self.up(x.bfloat16()))).float()
        return (x @ self.embedding.weight.T).flatten(0, 1)


def decoder(leaves: int, accumulate: int) -> Run:
    model = Decoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    count = leaves * accumulate
    tokens = torch.randint(11, (count, 6), generator=torch.Generator().manual_seed(2))

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(output, target.flatten())

    return captured(model, loss, optimizer, (tokens[:, :-1], tokens[:, 1:]), microbatches=count, accumulate=accumulate)


@pytest.mark.parametrize("make", [normalized, decoder])
@pytest.mark.parametrize("leaves, accumulate", [(1, 1), (3, 1), (5, 3), (64, 1), (32, 3)])
@pytest.mark.diagonal
@pytest.mark.exhaustive("64")
def test_one_hash_for_any_number_of_ranks(make: Any, leaves: int, accumulate: int) -> None:
    given = make(leaves, accumulate)
    want = alone(given)
    divisions = [(size, None) for size in (1, 2, 3, 5, 8, 16)]
    divisions += [(len(shares), shares) for shares in ((5, 2, 1), (16, 1, 1), (0, 1), (1, 0, 7, 3))]
    for size, shares in divisions:
        found, _ = run(given, size, shares)
        assert found == [want] * size, (size, shares, found)


@pytest.mark.parametrize("make", [normalized, decoder])
def test_ranks_of_several_kinds(make: Any) -> None:
    given = make(6, 1)
    targets = ("cpu:x86-64-v2", "cpu", "reference", "ptx-emulator")
    want = alone(given, "reference")
    found, _ = run(given, 4, (3, 1, 1, 1), targets)
    assert found == [want] * 4


def test_measured_shares_do_not_change_bits() -> None:
    given = normalized(12, 1)
    ranks: list[Ranks] = []
    targets = "cpu", "reference", "cpu"
    found, _ = run(given, 3, "measured", targets, steps=4, ended=lambda kept: ranks.append(kept._executable.ranks))
    assert found == [alone(given, steps=4)] * 3
    shares = {each.shares for each in ranks}
    assert len(shares) == 1
    assert max(shares.pop()) == 10_000


def test_shares_are_proportional_to_measured_rates() -> None:
    """The first step is not measured. A rank without a measured rate, because it had no microbatch, gets the rate of
    the slowest rank."""
    ranks = [Ranks(transport, "measured") for transport in make_loopback(4)]
    for seconds in ((9.0, 0.1, 0.1, 0.1), (0.01, 0.05, 0.02, float("nan"))):
        assert {each.shares for each in ranks} == {"measured"}
        run_ranks(4, lambda rank, seconds=seconds: ranks[rank].measure(seconds[rank]))
    assert {each.shares for each in ranks} == {(10_000, 2_000, 5_000, 2_000)}


@pytest.mark.parametrize("size", range(1, 17))
@pytest.mark.parametrize("leaves", [64, 96])
@pytest.mark.diagonal(size=[1, 3, 8, 16])
def test_bytes_are_those_of_the_formula(leaves: int, size: int) -> None:
    """Each rank sends k + 1 slices of the sums and two reports to each other rank. Here, k is the least number of tree
    nodes that cover exactly the rank's leaves. For k = 1, ranks send as much as in a ring all-reduce."""
    given = normalized(leaves, 1)
    layout_bytes = 4 * sum(int(np.prod(kind.shape)) for kind in given.program.sums if kind.element == "f32")
    _, sent = run(given, size, steps=1)
    slice_bytes = 4 * -(-layout_bytes // 4 // size)
    owned = Ranks(make_loopback(size)[0]).leaves(leaves)
    nodes = [len(maximal_nodes(range(leaves), own)) for own in owned]
    assert sent == [(size - 1) * ((count + 1) * slice_bytes + 2 * REPORT_BYTES) for count in nodes]
    if (leaves // size).bit_count() == 1 and leaves % size == 0:
        assert nodes == [1] * size


def flip(array: np.ndarray, bit: int) -> None:
    raw = array.reshape(-1).view(np.uint8)
    raw[bit // 8 % raw.size] ^= 1 << bit % 8


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.diagonal(seed=range(6))
def test_a_flipped_bit_of_the_state_is_found_in_its_step(seed: int) -> None:
    given, draw = normalized(4, 1), np.random.default_rng(seed)
    wrong, bit = int(draw.integers(3)), int(draw.integers(99))
    name = str(draw.choice([kind.name for kind in given.program.state]))

    def between(rank: int, step: int, state: dict[str, np.ndarray], _: Any) -> None:
        if rank == wrong and step == 1:
            flip(state[name], bit)

    found, _ = run(given, 3, steps=3, between=between)
    for each in found:
        assert isinstance(each, ReproError), each
        assert f"ranks disagree: {wrong} of 3 have another state than most" in str(each)


def test_ranks_with_other_batches_or_numbers_are_named() -> None:
    given = normalized(4, 1)

    def change(position: int) -> Any:
        def between(rank: int, step: int, state: Any, inputs: list[np.ndarray]) -> None:
            if rank == 2 and step == 1:
                inputs[position] = inputs[position] * np.asarray(0.5, inputs[position].dtype)

        return between

    for position in (0, len(given.inputs) - 2):
        found, _ = run(given, 3, between=change(position))
        assert all("ranks disagree: 2 of 3 have another batch" in str(each) for each in found)
    found, _ = run(given, 2, between=lambda rank, *rest: change(0)(2 * rank, *rest))
    assert all("ranks 0 / 1 each have another batch" in str(each) for each in found)


def test_a_failed_check_on_one_rank_fails_on_all() -> None:
    given = normalized(4, 1)
    wrong = given.inputs[-1].copy()
    wrong[-1] = 7
    states: dict[int, dict[str, np.ndarray]] = {}

    def between(rank: int, step: int, state: dict[str, np.ndarray], inputs: list[np.ndarray]) -> None:
        states[rank] = state
        if step == 1:
            inputs[-1] = wrong

    found, _ = run(given, 3, between=between)
    assert all(isinstance(each, StepFailed) for each in found)
    assert sum(str(each).startswith("rank 2: ") for each in found) == 2
    assert {hash_of(given, state) for state in states.values()} == {alone(given, steps=1)}


def test_any_error_of_a_microbatch_reaches_the_other_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    given = normalized(4, 1)
    write_at = Executable.write_at

    def run_out(self: Executable, *arguments: Any) -> None:
        if self.program is given.program.part and threading.current_thread().name == "rank 1":
            raise ReproError("out of memory")
        write_at(self, *arguments)

    monkeypatch.setattr(Executable, "write_at", run_out)
    found, _ = run(given, 3)
    assert [str(each) for each in found] == ["rank 1: out of memory", "out of memory", "rank 1: out of memory"]


def test_a_wrong_new_state_is_found_before_anybody_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    given = normalized(4, 1)
    write = Executable.write
    states: dict[int, dict[str, np.ndarray]] = {}

    def flipped(self: Executable, state: Any, *arguments: Any) -> None:
        write(self, state, *arguments)
        if self.program is given.program.finish and threading.current_thread().name == "rank 1":
            flip(state[0], 3)

    monkeypatch.setattr(Executable, "write", flipped)
    found, _ = run(given, 3, steps=1, between=lambda rank, step, state, _: states.update({rank: state}))
    assert all("ranks disagree: 1 of 3 have another state than most" in str(each) for each in found)
    assert {hash_of(given, state) for state in states.values()} == {hash_of(given, given.program.initial_state())}


def test_a_rank_that_was_cut_short_takes_part_in_nothing_more() -> None:
    """A rank whose step was interrupted by an exception refuses further steps: the other ranks still wait for its
    messages of the interrupted step."""
    given = normalized(4, 1)
    again: list[Exception] = []

    class CutShort(Exception):
        pass

    transports = make_loopback(2)
    exchange = transports[1].exchange
    calls = []

    def cut(sends: Any, receives: Any) -> None:
        calls.append(len(sends))
        if len(calls) == 2:
            raise CutShort
        exchange(sends, receives)

    transports[1].exchange = cut  # type: ignore[method-assign]
    executables = [MicrobatchExecutable(given.program, "cpu", 1, Ranks(transport)) for transport in transports]
    kept = [executable.keep(given.program.initial_state()) for executable in executables]

    def work(rank: int) -> None:
        try:
            kept[rank].step(*given.inputs)
        except CutShort:
            try:
                kept[rank].step(*given.inputs)
            except ReproError as error:
                again.append(error)
            transports[rank].leave()
        except ReproError as error:
            again.append(error)

    run_ranks(2, work)
    assert [type(each) for each in again] == [RankLost, RankLost]
    assert any("a step was interrupted: start all ranks again" in str(each) for each in again)
    assert [each.completed for each in kept] == [0, 0]


def test_a_rank_without_leaves_keeps_no_more_sums_in_each_step() -> None:
    given = normalized(2, 1)
    kept: list[int] = []
    run(given, 3, steps=6, ended=lambda each: kept.append(len(each._free)))
    assert kept == [1, 1, 1]


@pytest.mark.exhaustive
def test_trainers_of_several_kinds_with_batches_of_two_sizes() -> None:
    """Each batch size has its own program, and on a device each program has its own copy of the state."""
    found: list[Any] = [None] * 3
    transports = make_loopback(3)

    def make(ranks: Ranks | None, target: str) -> Any:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 3))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        loss = torch.nn.functional.cross_entropy
        trainer = repro_mlir.Trainer(model, loss, optimizer, target=target, threads=1, microbatches=4, ranks=ranks)
        # Captures here, because the ranks, which are threads, must not capture at the same time.
        for rows in (16, 8):
            trainer.prepare(X[:rows], Y[:rows])
        return trainer

    def train(trainer: Any) -> str:
        for rows in (16, 16, 8, 16):
            trainer.step(X[:rows], Y[:rows])
        return trainer.state_hash()

    want = train(make(None, "cpu"))
    trainers = [make(Ranks(transports[rank]), ("cpu", "cpu", "ptx-emulator")[rank]) for rank in range(3)]

    def work(rank: int) -> None:
        try:
            found[rank] = train(trainers[rank])
        except ReproError as error:
            found[rank] = error
            transports[rank].leave()

    run_ranks(3, work)
    assert found == [want] * 3


def test_a_rank_that_leaves_is_missed() -> None:
    given = normalized(4, 1)

    def between(rank: int, step: int, *_: Any) -> None:
        if rank == 1 and step == 1:
            raise ValueError("gone")

    found, _ = run(given, 3, between=between)
    assert [type(each) for each in found] == [RankLost, ValueError, RankLost]
