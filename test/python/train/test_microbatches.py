# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(B1), (B2), (B3), (B4) Compares the bits of every target with those of a second implementation of the sums over
microbatches."""

from typing import Any

import numpy as np
import pytest
import repro_mlir
from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.distributed.sums import SumLayout
from repro_mlir.reference.interpreter import Interpreter

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

TARGETS = ("reference", "cpu", "cpu:x86-64-v2", "ptx-emulator")
ROWS = 24
X = torch.randn(ROWS, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(ROWS) % 3
LOSS = torch.nn.functional.cross_entropy


def make(norm: bool = True, dropout: float = 0.3) -> tuple[Any, Any]:
    torch.manual_seed(0)
    layers = [torch.nn.BatchNorm1d(8)] if norm else []
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 8), *layers, torch.nn.ReLU(), torch.nn.Dropout(dropout), torch.nn.Linear(8, 3)
    )
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def trained(steps: int = 2, norm: bool = True, dropout: float = 0.3, **options: Any) -> Any:
    model, optimizer = make(norm, dropout)
    trainer = repro_mlir.Trainer(model, LOSS, optimizer, **options)
    losses = [trainer.step(X, Y) for _ in range(steps)]
    return trainer, losses


@pytest.mark.parametrize("count, accumulate", [(1, 1), (2, 1), (6, 2), (6, 3), (12, 1)])
@pytest.mark.diagonal(accumulate=[2, 3])
def test_bits_are_those_of_every_target(count: int, accumulate: int) -> None:
    found = []
    for target in TARGETS:
        trainer, losses = trained(target=target, microbatches=count, accumulate=accumulate, clip_norm=1.0)
        found.append((trainer.state_hash(), losses))
    assert all(each == found[0] for each in found[1:])
    if count == 1:
        whole, losses = trained(clip_norm=1.0)
        assert (whole.state_hash(), losses) == found[0]


@pytest.mark.parametrize("count, accumulate", [(6, 1), (6, 2), (8, 4)])
def test_sums_are_added_by_b2(count: int, accumulate: int) -> None:
    """Compares a step with runs of its microbatches on the reference interpreter. NumPy adds the results of the
    microbatches by (B2)."""
    trainer, _ = trained(steps=0, microbatches=count, accumulate=accumulate)
    program = trainer.prepare(X, Y)
    part, finish = Interpreter(program.part.data), Interpreter(program.finish.data)
    state = [*program.initial_state().values()]
    numbers = [value.numpy() for value in trainer._step.captured.hyper_parameters()]
    size = ROWS // count
    sums = []
    for p in range(count):
        moved = [value + p if i == program.random else value for i, value in enumerate(state)]
        rows = slice(p * size, (p + 1) * size)
        sums.append(part.run(*map(np.asarray, moved), *numbers, X[rows].numpy(), Y[rows].numpy()))

    def add(left: list[np.ndarray], right: list[np.ndarray]) -> list[np.ndarray]:
        return [a + b if a.dtype.kind == "f" else a for a, b in zip(left, right, strict=True)]

    leaves = []
    for start in range(0, count, accumulate):
        total = sums[start]
        for each in sums[start + 1 : start + accumulate]:
            total = add(total, each)
        leaves.append(total)
    while len(leaves) > 1:
        # Adds neighbouring results pairwise until one result is left. For powers of two, 3 and 6, this is the order of
        # (B2).
        pairs = [add(*leaves[i : i + 2]) for i in range(0, len(leaves) - 1, 2)]
        leaves = [*pairs, *leaves[2 * len(pairs) :]]
    results = finish.run(*state, *leaves[0], *numbers)
    trainer.step(X, Y)
    for kind, want in zip(program.state, results, strict=False):
        assert trainer.state[kind.name].tobytes() == want.tobytes(), kind.name


def test_gradients_are_those_of_accumulation() -> None:
    trainer, losses = trained(steps=3, norm=False, dropout=0.0, microbatches=3)
    model, optimizer = make(norm=False, dropout=0.0)
    for step in range(3):
        optimizer.zero_grad()
        parts = [LOSS(model(x), y) / 3 for x, y in zip(X.chunk(3), Y.chunk(3), strict=True)]
        for loss in parts:
            loss.backward()
        optimizer.step()
        assert abs(losses[step] - float(sum(parts).detach())) < 1e-5
    for name, value in model.named_parameters():
        np.testing.assert_allclose(trainer.state[name], value.detach().numpy(), 1e-4, 1e-5)


def test_statistics_are_the_mean_of_those_of_microbatches() -> None:
    trainer, _ = trained(steps=1, microbatches=2, dropout=0.0)
    wanted = []
    for x in X.chunk(2):
        each, _ = make(dropout=0.0)
        each(x)
        wanted.append(each[1].running_var)
    np.testing.assert_allclose(trainer.state["1.running_var"], torch.stack(wanted).mean(0).numpy(), 1e-5)
    assert trainer.state["1.num_batches_tracked"] == 1


class Unchanged(torch.nn.Linear):
    def __init__(self) -> None:
        super().__init__(6, 3)
        self.register_buffer("scale", torch.tensor([0.1, 0.7, 1.3]))
        self.register_buffer("halved", torch.tensor([0.1, 0.7, 1.3]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.scale += 0
        self.halved[:] = self.halved.clone() * 0.5
        return super().forward(x) * self.scale


def test_values_independent_of_microbatches_are_not_averaged() -> None:
    """A value that is equal in all microbatches is kept, not averaged: the mean of seven equal numbers can differ from
    the number."""
    seven = torch.full([7], 0.1)
    assert (seven[0] + seven[1] + (seven[2] + seven[3]) + (seven[4] + seven[5] + seven[6])) / 7 != seven[0]
    model = Unchanged()
    trainer = repro_mlir.Trainer(model, LOSS, torch.optim.SGD(model.parameters()), microbatches=7)
    for _ in range(2):
        trainer.step(X[:21], Y[:21])
    assert model.scale.tolist() == torch.tensor([0.1, 0.7, 1.3]).tolist()
    assert model.halved.tolist() == (torch.tensor([0.1, 0.7, 1.3]) * 0.25).tolist()


class Queue(torch.nn.Linear):
    def __init__(self) -> None:
        super().__init__(6, 3)
        self.register_buffer("queue", torch.zeros(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.queue.copy_(x.mean(0))
        return super().forward(x)


def test_values_without_a_meaningful_mean_are_refused() -> None:
    model = Queue()
    trainer = repro_mlir.Trainer(model, LOSS, torch.optim.SGD(model.parameters()), microbatches=2)
    with pytest.raises(ReproError, match=r"\(B3\) queue changes with each microbatch: expected no change"):
        trainer.step(X, Y)


def test_sums_of_narrow_floats_are_of_f32() -> None:
    """The sum of gradients of about 10,000 would overflow f16, but it is computed in f32."""
    for target in TARGETS:
        model = torch.nn.Linear(6, 1, bias=False, dtype=torch.float16)
        with torch.no_grad():
            model.weight.fill_(0.5)
        rule = torch.optim.SGD(model.parameters(), lr=1e-5)
        trainer = repro_mlir.Trainer(model, lambda found, _: found.sum() * 1250, rule, target=target, microbatches=8)
        trainer.step(torch.ones(64, 6, dtype=torch.float16), torch.zeros(64))
        assert trainer.program.sums[0].element == trainer.program.sums[-1].element == "f32"
        assert model.weight.tolist() == [[0.39990234375] * 6]


@pytest.mark.exhaustive
def test_sums_of_f64() -> None:
    hashes = []
    for target in TARGETS:
        torch.manual_seed(0)
        model = torch.nn.Linear(6, 3, dtype=torch.float64)
        rule = torch.optim.SGD(model.parameters(), lr=0.1)
        trainer = repro_mlir.Trainer(model, LOSS, rule, target=target, microbatches=6, accumulate=2)
        trainer.step(X.double(), Y)
        assert {kind.element for kind in trainer.program.sums} == {"f64"}
        hashes.append(trainer.state_hash())
    assert len({*hashes}) == 1


def test_sums_that_memory_has_no_room_for_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, _ = trained(steps=1, microbatches=2)
    before = trainer.state_hash()

    def new(_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(SumLayout, "new", new)
    trainer._step.kept._free.clear()
    with pytest.raises(ReproError, match="out of memory: cannot run a step on cpu"):
        trainer.step(X, Y)
    assert trainer.state_hash() == before and trainer.steps == 1


def test_unsigned_batches() -> None:
    images = torch.arange(144, dtype=torch.uint8).reshape(24, 6)

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return LOSS(output, target.long())

    class Scaled(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x.float() / 255)

    hashes = []
    for target in TARGETS:
        torch.manual_seed(0)
        model = Scaled(6, 3)
        trainer = repro_mlir.Trainer(model, loss, torch.optim.SGD(model.parameters()), target=target, microbatches=4)
        trainer.step(images, Y.to(torch.uint8))
        hashes.append(trainer.state_hash())
    assert len({*hashes}) == 1


def test_random_numbers_of_microbatches_are_of_steps_of_their_own() -> None:
    trainer, _ = trained(steps=2, microbatches=4)
    assert trainer.state["step"] == 8
    # All microbatches have the same rows, so only different dropout masks make their results differ.
    rows = X[:6].repeat(4, 1), Y[:6].repeat(4)
    model, optimizer = make(norm=False)
    same = repro_mlir.Trainer(model, LOSS, optimizer, microbatches=4)
    program = same.prepare(*rows)
    part = repro_mlir.compile(program.part)
    numbers = [value.numpy() for value in same._step.captured.hyper_parameters()]
    found = []
    for p in range(2):
        state = program.initial_state()
        state["step"] += p
        _, sums = part({}, *state.values(), *numbers, X[:6].numpy(), Y[:6].numpy())
        found.append(b"".join(value.tobytes() for value in sums.values()))
    assert found[0] != found[1]


def test_a_failed_check_of_a_microbatch_leaves_the_state() -> None:
    trainer, _ = trained(steps=1, microbatches=4)
    before, wrong = trainer.state_hash(), Y.clone()
    wrong[-1] = 7
    with pytest.raises(StepFailed):
        trainer.step(X, wrong)
    assert trainer.state_hash() == before and trainer.steps == 1
    trainer.step(X, Y)
    want, _ = trained(steps=2, microbatches=4)
    assert trainer.state_hash() == want.state_hash()


class Counting(torch.nn.Linear):
    def __init__(self) -> None:
        super().__init__(6, 3)
        self.register_buffer("classes", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.classes += (x.sum() > 0).long()
        return super().forward(x)


def test_integers_that_differ_between_microbatches_have_no_result() -> None:
    model = Counting()
    trainer = repro_mlir.Trainer(model, LOSS, torch.optim.SGD(model.parameters()), microbatches=2)
    trainer.step(torch.cat([X.abs(), X.abs()]), torch.cat([Y, Y]))
    with pytest.raises(StepFailed, match=r"\(B3\)"):
        trainer.step(torch.cat([X.abs(), -X.abs()]), torch.cat([Y, Y]))
    assert model.classes == 1 and trainer.steps == 1


def test_identities() -> None:
    chosen: list[dict[str, Any]] = [
        dict(microbatches=2),
        dict(microbatches=4),
        dict(microbatches=4, accumulate=2),
        dict(microbatches=4, accumulate=2, dropout=0.5),
    ]
    found = [trained(steps=0, **each)[0].prepare(X, Y).hash for each in chosen]
    assert len({*found}) == len(chosen)
    assert trained(steps=0, **chosen[0])[0].prepare(X, Y).hash == found[0]


def test_batches_of_other_sizes_have_programs_of_their_own() -> None:
    trainer, _ = trained(microbatches=2)
    first = trainer.program
    trainer.step(X[:8], Y[:8])
    assert trainer.program.hash != first.hash
    assert trainer.step(X, Y) and trainer.program is first
    assert trainer.evaluate(X, Y) > 0


class Weighted(torch.nn.Linear):
    def forward(self, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * weights


def weighted(weights: torch.Tensor, **options: Any) -> float:
    torch.manual_seed(0)
    model = Weighted(6, 3)
    trainer = repro_mlir.Trainer(model, LOSS, torch.optim.SGD(model.parameters(), lr=0.1), microbatches=3, **options)
    return trainer.step(X, weights, Y)


def test_inputs_that_all_microbatches_share() -> None:
    scalar = weighted(torch.tensor(2.0))
    named = weighted(torch.full([3], 2.0), microbatch_inputs=["batch[0]", "batch[2]"])
    assert scalar == named
    with pytest.raises(ReproError, match=r"batch\[1\] of shape \[3\].*: name the tensors to cut in microbatch_inputs"):
        weighted(torch.full([3], 2.0))


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "rows": ("has 24 rows, expected a multiple of 5, the number of microbatches", dict(microbatches=5)),
    "none": ("expected microbatches as a whole number from 1", dict(microbatches=0)),
    "float": ("expected microbatches as a whole number from 1", dict(microbatches=2.0)),
    "accumulate": ("expected accumulate to divide 4 microbatches, got 3", dict(microbatches=4, accumulate=3)),
    "alone": ("expected microbatches with accumulate or microbatch_inputs", dict(accumulate=2)),
    "name": (
        r"expected microbatch_inputs among batch\[0\], batch\[1\], got 'x'",
        dict(microbatches=2, microbatch_inputs=["x"]),
    ),
    "outputs": ("returns has 'outputs'", dict(microbatches=2, returns=["outputs"])),
    "ranks": ("expected ranks that connect", dict(microbatches=2, ranks="all")),
    "inputs": ("expected microbatch_inputs as a list", dict(microbatches=2, microbatch_inputs="batch[0]")),
    "many": ("expected microbatches as a whole number from 1 to 16777216", dict(microbatches=2**24 + 1)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_options_that_microbatches_refuse(case: str) -> None:
    message, options = REFUSED[case]
    with pytest.raises(ReproError, match=message):
        trained(**options)
