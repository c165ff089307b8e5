# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K4) chosen for whole programs and for single contractions."""

from __future__ import annotations

import numpy as np
import pytest
import repro_mlir
import torch
from repro_mlir import ReproError
from repro_mlir.hashing import state_hash


def mlp() -> repro_mlir.Program:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(40, 24), torch.nn.Tanh(), torch.nn.Linear(24, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = (torch.randn(16, 40), torch.randint(5, (16,)))
    return repro_mlir.capture(model, torch.nn.functional.cross_entropy, optimizer, batch)


@pytest.fixture(scope="module")
def program() -> repro_mlir.Program:
    return mlp()


def run(program: repro_mlir.Program, target: str) -> tuple[str, float]:
    rng = np.random.default_rng(1)
    executable = repro_mlir.compile(program, target)
    state = program.initial_state()
    inputs = [np.float32(0.1), rng.standard_normal((16, 40)).astype(np.float32), rng.integers(0, 5, 16)]
    for _ in range(3):
        state, outputs = executable(state, *inputs)
    return state_hash([(state[kind.name], kind.element) for kind in program.state]), float(outputs["loss"])


@pytest.mark.parametrize("digits", [2, 3])
def test_a_program_of_exact_contractions_has_the_same_bits_everywhere_K4(
    program: repro_mlir.Program, digits: int
) -> None:
    exact = repro_mlir.exact_contractions(program, digits)
    assert exact.hash != program.hash
    assert all(c.order == f"#repro.exact<digits = {digits}>" for c in repro_mlir.contractions(exact))
    assert len(repro_mlir.contractions(exact)) == len(repro_mlir.contractions(program)) == 5
    expected, loss = run(exact, "reference")
    assert run(exact, "cpu")[0] == expected
    plain, plain_loss = run(program, "cpu")
    assert plain != expected
    assert loss == pytest.approx(plain_loss, rel=1e-2 if digits == 2 else 1e-5)


def test_one_contraction_by_its_place_K4(program: repro_mlir.Program) -> None:
    exact = repro_mlir.exact_contractions(program, 3, select=lambda contraction: contraction.index == 1)
    orders = [contraction.order for contraction in repro_mlir.contractions(exact)]
    assert [order.startswith("#repro.exact") for order in orders] == [False, True, False, False, False]
    assert exact.hash not in (program.hash, repro_mlir.exact_contractions(program, 3).hash)
    assert run(exact, "cpu")[0] == run(exact, "reference")[0]


def test_an_exact_program_is_saved_with_its_contractions_K4(program: repro_mlir.Program, tmp_path) -> None:  # type: ignore[no-untyped-def]
    exact = repro_mlir.exact_contractions(program, 2)
    exact.save(tmp_path / "exact.repro")
    assert repro_mlir.Program.load(tmp_path / "exact.repro").hash == exact.hash


@pytest.mark.parametrize("digits", [1, 4, 2.5, "2"])
def test_digits_are_checked(program: repro_mlir.Program, digits: object) -> None:
    with pytest.raises(ReproError, match="expected 2 or 3 digits"):
        repro_mlir.exact_contractions(program, digits)  # type: ignore[arg-type]


def test_too_many_products_are_refused_K4() -> None:
    program = repro_mlir.capture(torch.nn.Linear(300_000, 1, bias=False), torch.zeros(1, 300_000))
    with pytest.raises(ReproError, match=r"contraction 0 cannot be exact: .*at most 262144 reduction elements"):
        repro_mlir.exact_contractions(program, 2)
