# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Receipts, verification, disputes and comparison of runs with contractions in blocks (Q4) and in accumulators (M4),
(M5)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import repro_mlir
import torch
from repro_mlir.precision import Format, Recipe, RolePrecision, by_blocks, nvfp4
from repro_mlir.verification.difference.sides import TargetSide, find_difference
from repro_mlir.verification.dispute import LocalChannel, Prover, RecordedRun, settle
from repro_mlir.verification.operators import Operator, OperatorGraph, Tracer
from support.dispute_runs import faulty_tracer

STEPS, WRONG = 3, 2
BF16 = Format("bf16")
HOPPER = Recipe(
    "hopper",
    {
        "fprop": RolePrecision({"activation": BF16, "weight": BF16}, accumulator="hopper"),
        "wgrad": RolePrecision({"activation": BF16, "gradient": BF16}, accumulator="hopper"),
    },
)
IN_UNITS = "repro.accumulated_block_contraction"
RECIPES = {
    "blocks": ("blocks_mxfp4", "repro.block_contraction"),
    "accumulators": (HOPPER, "Accumulated"),
    "scaled": (by_blocks(nvfp4(skip_last=0), "blackwell_nvfp4"), IN_UNITS),
    "promoted": ("deepseek_v3_promoted", IN_UNITS),
}


def trainer_of(recipe: str | Recipe, **options: object) -> repro_mlir.Trainer:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.ReLU(), torch.nn.Linear(48, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return repro_mlir.Trainer(model, torch.nn.functional.cross_entropy, optimizer, precision=recipe, **options)


def batch(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(number)
    return torch.randn(32, 32, generator=generator), torch.randint(16, (32,), generator=generator)


@pytest.fixture(scope="module", params=list(RECIPES))
def recipe(request: pytest.FixtureRequest) -> tuple[str | Recipe, str]:
    return RECIPES[request.param]


@pytest.fixture(scope="module")
def program(recipe: tuple[str | Recipe, str]) -> repro_mlir.Program:
    trainer = trainer_of(recipe[0])
    trainer.step(*batch(0))
    assert isinstance(trainer.program, repro_mlir.Program)
    return trainer.program


@pytest.fixture(scope="module")
def graph(program: repro_mlir.Program) -> OperatorGraph:
    return OperatorGraph(program)


def last_contraction(graph: OperatorGraph, kind: str) -> Operator:
    """Returns the last operator whose name is `kind`, or whose attribute `order` has the type named `kind`."""

    def kinds(operator: Operator) -> tuple[str, str]:
        return operator.name, type(graph.operations[operator.index].attributes.get("order")).__name__

    return [each for each in graph.operators if kind in kinds(each)][-1]


def given() -> list[list[np.ndarray]]:
    return [[np.array(0.1, np.float32), *(tensor.numpy() for tensor in batch(i))] for i in range(STEPS)]


def test_receipts_are_verified_on_other_targets(recipe: tuple[str | Recipe, str], tmp_path: Path) -> None:
    path = tmp_path / "run.receipt"
    with trainer_of(recipe[0], receipt=path) as trainer:
        trainer.fit([batch(i) for i in range(STEPS)], STEPS)
    for target in ("reference", "cpu:x86-64-v2", "ptx-emulator"):
        assert repro_mlir.verify(path, target=target).steps == STEPS


def test_a_dispute_ends_at_the_contraction(
    recipe: tuple[str | Recipe, str], program: repro_mlir.Program, graph: OperatorGraph
) -> None:
    operator = last_contraction(graph, recipe[1])
    right, wrong = Tracer(graph), faulty_tracer(graph, operator.index, 29)

    def run(second: Tracer) -> RecordedRun:
        def tracer(now: int) -> Tracer:
            return second if now == WRONG else right

        return RecordedRun(
            program, given(), lambda now, arrays: tracer(now).results(arrays), graph=graph, tracer=tracer
        )

    verdict = settle(*(LocalChannel(Prover(each)) for each in (run(right), run(wrong))))
    assert (verdict.wrong, verdict.step) == (("B",), WRONG)
    assert verdict.operator is not None and verdict.operator.index == operator.index


def test_targets_are_compared(recipe: tuple[str | Recipe, str], graph: OperatorGraph) -> None:
    operator = last_contraction(graph, recipe[1])

    class Faulty(TargetSide):
        """Runs each step with one flipped bit in the contraction's result."""

        def results(self, arrays):
            return faulty_tracer(graph, operator.index, 29).results(arrays)

        def values(self, arrays):
            yield from faulty_tracer(graph, operator.index, 29).run(arrays)

    sides = TargetSide(graph, "cpu"), TargetSide(graph, "reference")
    taken = iter(given())
    assert find_difference(graph, sides, lambda: next(taken), STEPS) is None
    taken = iter(given())
    found = find_difference(graph, (sides[1], Faulty(graph, "reference")), lambda: next(taken), STEPS)
    assert found is not None and found.step == 1 and found.operators[0].operator == operator
