# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(T3) Ranks that shard the optimizer's state have the bits of one process."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repro_mlir
import torch
from loopback_runs import Run, alone, captured, hash_of, run
from loopback_trainers import Trainers, capture_alone
from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.distributed import Ranks
from repro_mlir.execute import sharded_state
from repro_mlir.execute.sharded_state import ShardedState
from repro_mlir.verification.receipts.options import ReceiptOptions

REPORT_BYTES = 7 * 32 + 1 + 255
FAILURE_BYTES = 256
X = torch.randn(96, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(96) % 3
LOSS = torch.nn.functional.cross_entropy

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
    "momentum": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
    "AdamW": lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2, amsgrad=True),
    "Adafactor": lambda model: torch.optim.Adafactor(model.parameters(), lr=1e-2),
    "Muon": lambda model: torch.optim.Muon([each for each in model.parameters() if each.dim() == 2], lr=1e-2),
    "NAdam": lambda model: torch.optim.NAdam(model.parameters(), lr=1e-2),
}


def make(name: str = "AdamW", width: int = 8) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, width), torch.nn.BatchNorm1d(width), torch.nn.Dropout(0.3), torch.nn.Linear(width, 3)
    )
    if name == "Muon":
        for parameter in model.parameters():
            parameter.requires_grad_(parameter.dim() == 2)
    return model, OPTIMIZERS[name](model)


def small(name: str = "AdamW", clip_norm: float | None = None) -> Run:
    model, optimizer = make(name)
    return captured(model, LOSS, optimizer, (X[:24], Y[:24]), microbatches=6, clip_norm=clip_norm)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("clip_norm", [None, 0.1])
@pytest.mark.diagonal
@pytest.mark.exhaustive("NAdam", "Adafactor", "SGD")
def test_one_hash_for_any_number_of_ranks_that_share_the_optimizer(name: str, clip_norm: float | None) -> None:
    given = small(name, clip_norm)
    # Only AdamW is tested on the CPU target. The other optimizers use the reference interpreter, which saves compiling.
    target = "cpu" if name == "AdamW" else "reference"
    want = alone(given, target)
    for size, shares in ((1, None), (2, None), (3, (5, 0, 1)), (8, None)):
        found, _ = run(given, size, shares, (target,), shard_optimizer=True)
        assert found == [want] * size, (size, found)


def test_ranks_of_several_kinds() -> None:
    given = small(clip_norm=0.1)
    want = alone(given, "reference")
    targets = ("cpu:x86-64-v2", "cpu", "reference", "ptx-emulator")
    found, _ = run(given, 4, (3, 1, 1, 1), targets, shard_optimizer=True)
    assert found == [want] * 4


@pytest.mark.parametrize("size", [2, 4, 8])
def test_bytes_are_those_of_a_ring(size: int) -> None:
    """Sums go to their owners, and updated tensors other than momenta go to all ranks. For p ranks, these two transfers
    together take 2 (p - 1) times the bytes of the sums. In addition, ranks send digests and reports."""
    model, optimizer = make("momentum")
    given = captured(model, LOSS, optimizer, (X, Y), microbatches=8)
    kept: list[ShardedState] = []

    def ended(each: Any) -> None:
        kept.append(each._kept)

    _, once = run(given, size, steps=1, shard_optimizer=True, ended=ended)
    _, twice = run(given, size, steps=2, shard_optimizer=True)
    plan = kept[0]._update.plan
    owned = [kind.name for kind, owner in zip(plan.program.state, plan.owners, strict=False) if owner is not None]
    assert len(owned) == 6 and all(name.endswith("momentum_buffer") for name in owned)
    # The sums include the loss (4 bytes).
    sums = sum(kind.nbytes for kind in given.program.sums if kind.element == "f32")
    assert sums == 4 + sum(4 * each.numel() for each in model.parameters()) + 2 * 4 * 8
    reports = size * (2 * REPORT_BYTES + FAILURE_BYTES)
    assert sum(twice) - sum(once) == (size - 1) * (2 * sums + 32 * len(owned) + reports)


def test_a_rank_has_no_more_than_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[str] = []
    release = sharded_state._release

    def noted(array: np.ndarray) -> None:
        release(array)
        released.append(str(array.shape))

    monkeypatch.setattr(sharded_state, "_release", noted)
    found, _ = run(small(), 3, steps=2, shard_optimizer=True, ended=lambda kept: kept.foreign)
    # AdamW with amsgrad has three state tensors for each of six parameters, and two of the three ranks do not own a
    # given tensor and release it.
    assert all(isinstance(each, str) for each in found) and len(released) == 2 * 3 * 6


def test_memory_that_is_released_is_zero() -> None:
    array = np.ones(1 << 20, np.float32)
    sharded_state._release(array)
    assert (array == 0).sum() >= array.size - 2 * 4096 and ((array == 0) | (array == 1)).all()
    array[:] = 2
    assert (array == 2).all()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.diagonal(seed=range(3))
def test_a_flipped_bit_is_found_in_its_step(seed: int) -> None:
    """Also flips bits of state tensors that only one rank has, so that no other rank can compare the tensors."""
    given, draw = small(), np.random.default_rng(seed)
    size, names = int(draw.integers(2, 5)), [kind.name for kind in given.program.state if kind.shape]
    victim, name, bit = int(draw.integers(size)), names[draw.integers(len(names))], int(draw.integers(1 << 20))
    owned: list[str] = []
    states: dict[int, list[Any]] = {}

    def flip(rank: int, step: int, state: dict[str, np.ndarray], _: Any) -> None:
        states[rank] = [state, hash_of(given, state)]
        if step == 1 and rank == victim:
            raw = state[name].reshape(-1).view(np.uint8)
            raw[bit // 8 % raw.size] ^= 1 << bit % 8

    def begun(kept: Any) -> None:
        plan = kept._kept._update.plan
        if plan.rank == victim:
            pairs = zip(plan.program.state, plan.owners, strict=False)
            owned.extend(kind.name for kind, owner in pairs if owner in (None, plan.rank))

    found, _ = run(given, size, steps=2, between=flip, begun=begun, shard_optimizer=True)
    if name not in owned:
        # A rank never reads its copy of a tensor that another rank owns, so a flip there changes nothing.
        assert found == [alone(given)] * size
        return
    messages = [str(each) for each in found]
    if size > 2:
        named = f"{victim} of {size} have another state than most"
    else:
        named = "ranks disagree: ranks 0 / 1 each have another state"
    own = f"state {name}, which only rank {victim} holds, was written between steps"
    assert all(named in each or own in each for each in messages), messages


def test_a_failure_of_an_owner_fails_on_all_and_leaves_their_state(monkeypatch: pytest.MonkeyPatch) -> None:
    given, call = small(clip_norm=0.1), ShardedState._call
    want = alone(given)
    for number, kind in itertools.product(range(2), (StepFailed, KeyboardInterrupt)):
        failing = [True]

        def failed(
            self: ShardedState, step: Any, values: Any, number: int = number, kind: Any = kind, failing: Any = failing
        ) -> Any:
            if self._ranks.rank == 1 and step.segment == number and failing:
                failing.clear()
                raise kind("(E1) an owner has failed")
            return call(self, step, values)

        monkeypatch.setattr(ShardedState, "_call", failed)
        begin = hash_of(given, given.program.initial_state())
        errors: list[str] = []
        keeps: list[Any] = []

        def between(
            rank: int, step: int, state: Any, inputs: Any, keeps: Any = keeps, errors: Any = errors, begin: str = begin
        ) -> None:
            if step == 0:
                kept = next(each for each in keeps if each._kept._ranks.rank == rank)
                with pytest.raises((StepFailed, KeyboardInterrupt)) as caught:
                    kept.step(*inputs)
                errors.append(str(caught.value))
                assert hash_of(given, state) == begin

        found, _ = run(given, 3, steps=2, between=between, begun=keeps.append, shard_optimizer=True)
        assert errors.count("(E1) an owner has failed") == 1
        assert sum(each.startswith("rank 1: ") and each.endswith("an owner has failed") for each in errors) == 2
        assert found == [want] * 3


class Joined(torch.optim.Optimizer):
    """An optimizer that keeps one momentum tensor for all parameters, so that one rank owns the whole state."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 1e-2})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        parameters = self.param_groups[0]["params"]
        state, gradient = self.state[parameters[0]], torch.cat([each.grad.flatten() for each in parameters])
        if "joined" not in state:
            state["joined"] = torch.zeros_like(gradient)
        state["joined"].mul_(0.9).add_(gradient)
        parts = state["joined"].split([each.numel() for each in parameters])
        for each, part in zip(parameters, parts, strict=True):
            each.sub_(self.param_groups[0]["lr"] * part.view_as(each))


class Normed(torch.optim.Optimizer):
    """An optimizer that divides by the norm of each tensor and by the norm of all gradients, and also shrinks
    parameters that have no gradient."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 1e-2})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        parameters = self.param_groups[0]["params"]
        total = sum(each.grad.pow(2).sum() for each in parameters if each.grad is not None).sqrt()
        for each in parameters:
            each.mul_(0.9)
            if each.grad is not None:
                momentum = self.state[each].setdefault("momentum", torch.zeros_like(each))
                momentum.mul_(0.9).add_(each.grad / total)
                each.sub_(self.param_groups[0]["lr"] * momentum * each.norm() / (momentum.norm() + 1e-6))


class Unread(torch.nn.Module):
    """A model with a parameter that no microbatch reads."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(6, 3)
        self.scale = torch.nn.Parameter(torch.ones(300))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        return y if self.training else y * self.scale.mean()


def shared(size: int, name: str = "AdamW", made: Any = None, **options: Any) -> Trainers:
    def build(ranks: Ranks) -> Any:
        model, optimizer = made() if made else make(name)
        given = {"target": "cpu", "threads": 1, "microbatches": 4, **options}
        trainer = repro_mlir.Trainer(model, LOSS, optimizer, ranks=ranks, **given)
        if "receipt" not in options:
            for rows in (16, 8):
                trainer.prepare(X[:rows], Y[:rows])
            trainer.evaluate(X[:16], Y[:16])
        return trainer

    return Trainers(size, build, shard_optimizer=True)


def one(name: str = "AdamW", made: Any = None, **options: Any) -> Any:
    model, optimizer = made() if made else make(name)
    return repro_mlir.Trainer(model, LOSS, optimizer, threads=1, microbatches=4, **options)


@pytest.mark.exhaustive
def test_a_loop_that_looks_at_everything(tmp_path: Path) -> None:
    def loop(rank: int, trainer: Any) -> tuple[str, bytes]:
        optimizer = trainer._optimizer
        for step, rows in enumerate((16, 16, 8, 16, 16)):
            trainer.step(X[:rows], Y[:rows])
            with torch.no_grad():
                # Sharding divides the optimizer's state; each rank has all parameters.
                next(trainer._model.parameters()).mul_(0.99)
            if step == 2:
                trainer.sync()
                for state in optimizer.state.values():
                    state["exp_avg"].mul_(0.5)
            if rank == 0:
                trainer.evaluate(X[:8], Y[:8])
        trainer.sync()
        path = tmp_path / f"{rank}.safetensors"
        trainer.save_checkpoint(path)
        return trainer.state_hash(), path.read_bytes()

    want = loop(7, one())
    assert shared(3).run(loop) == [want] * 3


def joined() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model, _ = make()
    return model, Joined(model.parameters())


def normed() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = Unread()
    return model, Normed(model.parameters())


@pytest.mark.parametrize("made", [joined, normed])
@pytest.mark.exhaustive("joined")
def test_optimizers_of_users(made: Any) -> None:
    """Each rank has all tensors of the model, including the one that no microbatch reads, and all ranks take part in
    `sync`."""

    def loop(_: int, trainer: Any) -> tuple[str, float, str]:
        for _ in range(3):
            trainer.step(X[:16], Y[:16])
        loss = trainer.evaluate(X[:16], Y[:16])
        trainer.sync()
        between = trainer.state_hash()
        for rows in (16, 8):
            trainer.step(X[:rows], Y[:rows])
        return between, loss, trainer.state_hash()

    want = loop(0, one(made=made, target="reference"))
    assert shared(2, made=made, target="reference").run(loop) == [want] * 2


def test_a_state_that_cannot_be_loaded_changes_nothing(tmp_path: Path) -> None:
    def work(rank: int, trainer: Any) -> str:
        trainer.step(X[:16], Y[:16])
        with pytest.raises(ReproError):
            trainer.load_state_dict({"format": "wrong"})
        trainer.step(X[:16], Y[:16])
        return trainer.state_hash()

    assert shared(2).run(work) == [work(0, one())] * 2


def test_a_run_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "half.safetensors"

    def first(rank: int, trainer: Any) -> None:
        trainer.step(X[:16], Y[:16])
        trainer.sync()
        if rank == 0:
            trainer.save_checkpoint(path)

    def second(rank: int, trainer: Any) -> str:
        trainer.load_checkpoint(path)
        trainer.step(X[:16], Y[:16])
        return trainer.state_hash()

    assert shared(2).run(first) == [None] * 2
    alone = one()
    for _ in range(2):
        alone.step(X[:16], Y[:16])
    assert shared(3).run(second) == [alone.state_hash()] * 3


@pytest.mark.parametrize(
    "use",
    [
        lambda state: state["exp_avg"].sum(),
        lambda state: state["exp_avg"].zero_(),
        lambda state: copy.deepcopy(state),
        lambda state: state["exp_avg"].numpy(),
        lambda state: torch.save(state, "/dev/null"),
    ],
)
@pytest.mark.exhaustive("<lambda>0", "<lambda>3", "<lambda>4")
def test_state_of_another_rank_is_not_used(use: Callable[[Any], object]) -> None:
    def work(rank: int, trainer: Any) -> list[str]:
        trainer.step(X[:16], Y[:16])
        found = []
        for state in trainer._optimizer.state.values():
            try:
                use({key: value for key, value in state.items() if key == "exp_avg"})
                found.append("used")
            except ReproError as error:
                found.append(str(error))
        return found

    first, second = shared(2).run(work)
    assert len(first) == 6
    for own, other in zip(first, second, strict=True):
        refused, used = sorted((own, other))
        assert used == "used" and refused.endswith("on another rank: call sync() on all ranks")


def test_a_request_by_one_rank_alone_is_an_error_on_all() -> None:
    def work(rank: int, trainer: Any) -> None:
        trainer.step(X[:16], Y[:16])
        if rank == 1:
            trainer.state_dict()
        else:
            trainer.step(X[:16], Y[:16])

    found = shared(3).run(work)
    assert all("ranks disagree: 1 of 3 run another program, or make another call," in str(each) for each in found)


@pytest.mark.exhaustive
def test_an_average_is_evaluated_on_all_ranks() -> None:
    def averaged(ranks: Ranks | None) -> Any:
        model, optimizer = make()
        average = torch.optim.swa_utils.AveragedModel(
            model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
        )
        trainer = repro_mlir.Trainer(model, LOSS, optimizer, threads=1, microbatches=4, average=average, ranks=ranks)
        trainer.prepare(X[:16], Y[:16])
        trainer.evaluate(X[:16], Y[:16], average=True)
        return trainer

    def work(trainer: Any) -> tuple[float, str]:
        for _ in range(2):
            trainer.step(X[:16], Y[:16])
        return trainer.evaluate(X[:16], Y[:16], average=True), trainer.state_hash()

    trainers = Trainers(2, averaged, shard_optimizer=True)
    assert trainers.run(lambda _, trainer: work(trainer)) == [work(averaged(None))] * 2


@pytest.mark.parametrize("every", [1, 3])
def test_receipts_are_those_of_one_process(tmp_path: Path, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    capture_alone(monkeypatch)

    def loop(trainer: Any) -> list[bool]:
        divided = []
        for step in range(5):
            trainer.step(X[:16], Y[:16])
            divided.append(bool(trainer._step.foreign))
            if step == 1:
                with torch.no_grad():
                    next(trainer._model.parameters()).mul_(0.99)
        trainer.close()
        return divided

    whole, divided = tmp_path / "one", tmp_path / "ranks"
    loop(one(receipt=ReceiptOptions(whole, checkpoint_every=every)))
    trainers = shared(2, receipt=ReceiptOptions(divided, checkpoint_every=every))
    # Between steps, a rank has the whole state only if the receipt writes a checkpoint of that step.
    assert trainers.run(lambda _, trainer: loop(trainer)) == [[step % every != 0 for step in range(1, 6)]] * 2
    assert (divided / "steps.jsonl").read_bytes() == (whole / "steps.jsonl").read_bytes()
    assert repro_mlir.verify(divided, target="reference").steps == 5
