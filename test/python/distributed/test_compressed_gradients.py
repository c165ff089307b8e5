# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compressed gradients (L1) and state of microbatches (B5), (T3): any number of ranks has the bits of one process."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repro_mlir
import torch
from loopback_runs import Run, alone, captured, run
from loopback_trainers import Trainers, capture_alone
from repro_mlir.base.errors import RankLost, ReproError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.distributed import Ranks
from repro_mlir.distributed.tree import maximal_nodes
from repro_mlir.execute.microbatches import KeptMicrobatches
from repro_mlir.execute.payloads import pack, unpack
from repro_mlir.gradient_compression import TopK
from repro_mlir.program.payload import packed_bytes
from repro_mlir.verification.receipts.options import ReceiptOptions
from support.compression_methods import METHODS

X = torch.randn(24, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(24) % 3
STEPS = 3


@functools.cache
def given(name: str) -> Run:
    """Returns a training step with six microbatches, compressed by the named method, and its inputs."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    options: dict[str, Any] = {"microbatches": 6, "clip_norm": 1.0, "gradient_compression": METHODS[name]}
    return captured(model, torch.nn.functional.cross_entropy, optimizer, (X, Y), **options)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.diagonal(name=["top_k", "power_sgd", "blocks"])
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
    """If the optimizer is sharded, only one rank has the residual of the mean gradient."""
    want = alone(given(name), steps=STEPS)
    for sharded, share in ((True, 0.0), (False, 1.0), (True, 0.5)):
        found, _ = run(given(name), 3, steps=STEPS, shard_optimizer=sharded, check_share=share)
        assert found == [want] * 3, (sharded, share, found)


def bytes_of_a_step(given: Run, size: int) -> list[int]:
    """Returns, for each rank, the number of bytes that it sends in a step that is not the last one."""
    once, twice = (run(given, size, steps=steps)[1] for steps in (1, 2))
    return [b - a for a, b in zip(once, twice, strict=True)]


def told(shape: tuple[int, ...], rows: range) -> int:
    """Returns the number of bytes that a rank sends for the hash of an f32 tensor: 32 for each of the largest tree
    nodes that contain only this rank's chunks of 1024 bytes, and the bytes of its rows in chunks that it shares with
    other ranks."""
    head, row = 36 + 8 * len(shape), 4 * int(np.prod(shape[1:]))
    end = head + row * shape[0]
    start, stop = 0 if rows.start == 0 else head + row * rows.start, head + row * rows.stop
    chunks = range(-(-start // 1024), -(-end // 1024) if stop == end else stop // 1024)
    if not chunks:
        return stop - start
    loose = 1024 * chunks.start - start + max(0, stop - 1024 * chunks.stop)
    return loose + 32 * len(maximal_nodes(range(-(-end // 1024)), chunks))


REPORT_BYTES = 7 * 32 + 1 + 255
WIDE = [(300, 6), (300,), (3, 300), (3,)]


@functools.cache
def wide(name: str, microbatches: int = 8) -> Run:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 300), torch.nn.ReLU(), torch.nn.Linear(300, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    options: dict[str, Any] = {"microbatches": microbatches, "gradient_compression": WIDE_METHODS[name]}
    return captured(model, torch.nn.functional.cross_entropy, optimizer, (X, Y), **options)


WIDE_METHODS = {**METHODS, "top_k": TopK(0.01)}


@pytest.mark.parametrize("name", ["top_k", "one_bit", "blocks"])
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.diagonal
@pytest.mark.exhaustive("blocks")
def test_what_moves_is_the_compressed_form(name: str, size: int) -> None:
    """(T2) A rank sends the compressed gradients and the loss of each of its microbatches, its part of the state hash
    of the residuals, and two reports."""
    given, share = wide(name), 8 // size
    shapes = [given.program.state[i].shape for i in given.program.own]
    assert [shape[1:] for shape in shapes] == WIDE
    payload = 4 + sum(map(WIDE_METHODS[name].bytes_of, WIDE))
    want = [
        (size - 1) * (share * payload + 2 * REPORT_BYTES + sum(told(shape, rows) for shape in shapes))
        for rows in (range(share * rank, share * (rank + 1)) for rank in range(size))
    ]
    assert bytes_of_a_step(given, size) == want


def test_sums_move_where_they_are_fewer_bytes() -> None:
    """Ranks send compressed gradients or sums of gradients, whichever have fewer bytes. The sums of two ranks have
    fewer bytes than the compressed gradients of 24 microbatches, but more than those of 8."""
    for microbatches, moves in ((8, True), (24, False)):
        seen: list[bool] = []
        given, sums = wide("blocks", microbatches), 4 * (1 + sum(map(math.prod, WIDE)))
        payload = microbatches * (4 + sum(map(WIDE_METHODS["blocks"].bytes_of, WIDE)))
        assert (payload < 4 * (sums // 2)) == moves
        found, _ = run(given, 2, begun=lambda kept, seen=seen: seen.append(kept._executable.decode is not None))
        assert found == [alone(given)] * 2 and seen == [moves] * 2


def test_packed_bytes() -> None:
    """Elements of fewer than 8 bits are packed without gaps, starting at the lowest bit of each byte."""
    kinds = [TensorType("", "i1", (3, 3)), TensorType("", "f4E2M1FN", (5,)), TensorType("", "f32", ())]
    kinds += [TensorType("", "f6E3M2FN", (3,)), TensorType("", "i1", (0,))]
    bits = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1]], np.bool_)
    arrays = [bits, np.array([1, 2, 3, 4, 15], np.uint8), np.array(1, np.float32)]
    arrays += [np.array([1, 63, 2], np.uint8), np.zeros(0, np.bool_)]
    data = pack(arrays, kinds)
    assert data.tobytes() == bytes.fromhex("1901 21430f 0000803f c12f00")
    assert len(data) == sum(packed_bytes(kind.element, kind.shape) for kind in kinds)
    for array, found, kind in zip(arrays, unpack(data, kinds), kinds, strict=True):
        assert found.tobytes() == array.tobytes() and (found.shape, found.dtype) == (kind.shape, kind.dtype)


def test_ranks_have_the_state_of_their_microbatches() -> None:
    """Between steps, a rank keeps only the per-microbatch state of its own microbatches. At the end, all ranks get all
    of it."""
    given = wide("top_k")
    names = {given.program.state[i].name for i in given.program.own}
    want, seen = alone(given, steps=STEPS), {}
    keeps: dict[int, KeptMicrobatches] = {}

    def between(rank: int, step: int, state: dict[str, np.ndarray], _: Any) -> None:
        if step:
            assert keeps[rank].foreign == names and keeps[rank].is_divided
            seen[rank] = state["gradient_compression.residual.0.weight"].copy()

    def begun(kept: KeptMicrobatches) -> None:
        assert kept._executable.ranks is not None
        keeps[kept._executable.ranks.rank] = kept

    found, _ = run(given, 2, steps=STEPS, between=between, begun=begun)
    assert found == [want] * 2 and not any(kept.foreign for kept in keeps.values())
    # Each rank has released (zeroed) at least one page of the rows of the other rank's microbatches.
    assert (seen[0][4:] == 0).sum() >= 1024 and (seen[1][:4] == 0).sum() >= 1024
    assert np.count_nonzero(seen[0][:4]) > 4000 and np.count_nonzero(seen[1][4:]) > 4000


@pytest.mark.parametrize("options", [{"check_share": 0.5}, {"shares": "measured"}])
def test_all_ranks_have_the_state_of_a_microbatch_that_another_rank_computes(options: dict[str, Any]) -> None:
    """With these options, ranks send sums instead of compressed gradients, and each rank has the state of every
    microbatch."""

    def ended(kept: KeptMicrobatches) -> None:
        assert not kept._executable.divided and kept._executable.decode is None

    found, _ = run(given("blocks"), 2, steps=4, ended=ended, **options)
    assert found == [alone(given("blocks"), steps=4)] * 2


def test_a_flipped_bit_of_the_state_of_a_microbatch_is_found() -> None:
    """Flips a bit in a rank's copy of a microbatch's state. The rank detects the flip if the microbatch is its own. It
    never reads its copies of other microbatches' states, so a flip there has no effect."""
    name = "gradient_compression.residual.0.weight"
    for rank, row in ((1, 2), (2, 5), (1, 5)):

        def between(at: int, step: int, state: dict[str, np.ndarray], _: Any, flip: Any = (rank, row)) -> None:
            if (at, step) == (flip[0], 1):
                state[name].view(np.uint32)[flip[1], 7, 0] ^= 1

        found, _ = run(given("top_k"), 3, steps=STEPS, between=between)
        if rank == row // 2:
            own = f"state {name}, which only rank {rank} holds, was written between steps"
            other = f"ranks disagree: {rank} of 3 have another state than most"
            assert all(own in str(each) or other in str(each) for each in found), found
        else:
            assert found == [alone(given("top_k"), steps=STEPS)] * 3


def test_another_rank_checks_the_state_of_a_microbatch() -> None:
    """Rank 0 computes right sums but a wrong state for its first microbatch, which another rank computes again as a
    check."""

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
    assert all("rank 0 of 3 has computed wrong results" in str(each) for each in found), found


def trainer_of(ranks: Ranks | None, name: str = "blocks", **options: Any) -> Any:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    given = {"threads": 1, "microbatches": 6, "gradient_compression": METHODS[name], "ranks": ranks, **options}
    trainer = repro_mlir.Trainer(model, torch.nn.functional.cross_entropy, optimizer, **given)
    if "receipt" not in options:
        trainer.prepare(X, Y)
    return trainer


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.diagonal(sharded=[True])
@pytest.mark.exhaustive
def test_a_run_goes_on_from_a_checkpoint_with_another_number_of_ranks(tmp_path: Path, sharded: bool) -> None:
    """After the number of ranks changes, microbatches move to other ranks, and some ranks have an odd number of
    them."""
    path, single = tmp_path / "half.safetensors", trainer_of(None)
    for _ in range(2):
        single.step(X, Y)
    single.save_checkpoint(tmp_path / "single.safetensors")
    for _ in range(2):
        single.step(X, Y)

    def first(rank: int, trainer: Any) -> None:
        for _ in range(2):
            trainer.step(X, Y)
        trainer.sync()
        if rank == 0:
            trainer.save_checkpoint(path)

    def second(rank: int, trainer: Any) -> str:
        trainer.load_checkpoint(path)
        for _ in range(2):
            trainer.step(X, Y)
        return str(trainer.state_hash())

    assert Trainers(3, trainer_of, shard_optimizer=sharded).run(first) == [None] * 3
    assert path.read_bytes() == (tmp_path / "single.safetensors").read_bytes()
    for size in (2, 4):
        assert Trainers(size, trainer_of, shard_optimizer=sharded).run(second) == [single.state_hash()] * size


def test_a_save_by_one_rank_alone_is_an_error_on_all() -> None:
    def work(rank: int, trainer: Any) -> None:
        trainer.step(X, Y)
        if rank == 1:
            trainer.state_dict()
        else:
            trainer.step(X, Y)

    found = Trainers(3, trainer_of).run(work)
    assert all("ranks disagree: 1 of 3 run another program, or make another call," in str(each) for each in found)


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.exhaustive("1")
def test_receipts_are_those_of_one_process(tmp_path: Path, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also covers a run of three ranks in which one rank fails, and which four ranks resume."""
    capture_alone(monkeypatch)

    def receipt(name: str, resume: bool = False) -> ReceiptOptions:
        return ReceiptOptions(tmp_path / name, checkpoint_every=every, microbatches_every=2, resume=resume)

    def loop(trainer: Any, steps: int = 5) -> list[bool]:
        divided = []
        for _ in range(trainer.steps, steps):
            trainer.step(X, Y)
            divided.append(trainer._step.is_divided)
        trainer.close()
        return divided

    loop(trainer_of(None, receipt=receipt("one")))
    whole = (tmp_path / "one" / "steps.jsonl").read_bytes()
    trainers = Trainers(2, lambda ranks: trainer_of(ranks, receipt=receipt("two")))
    # Between steps, a rank has the whole state only if the receipt writes a checkpoint of that step.
    assert trainers.run(lambda _, trainer: loop(trainer)) == [[step % every != 0 for step in range(1, 6)]] * 2
    assert (tmp_path / "two" / "steps.jsonl").read_bytes() == whole

    def lost(rank: int, trainer: Any) -> None:
        with trainer:
            for step in range(5):
                if (rank, step) == (1, 4):
                    raise RuntimeError("killed")
                trainer.step(X, Y)

    first, *others = Trainers(3, lambda ranks: trainer_of(ranks, receipt=receipt("lost"))).run(lost)
    assert [type(each) for each in (first, *others)] == [RankLost, RuntimeError, RankLost]
    resumed = Trainers(4, lambda ranks: trainer_of(ranks, receipt=receipt("lost", resume=True)))

    def go_on(_: int, trainer: Any) -> None:
        trainer.fit([(X, Y)], 5)
        trainer.close()

    assert resumed.run(go_on) == [None] * 4
    assert (tmp_path / "lost" / "steps.jsonl").read_bytes() == whole
    assert repro_mlir.verify(tmp_path / "lost", target="reference").steps == 5
