# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K4) Selecting exact contractions for whole programs and for single contractions."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repro_mlir
import torch
from repro_mlir import ReproError
from repro_mlir.base.numerics.hashing import state_hash
from repro_mlir.cli import main as cli
from support.small_script import SMALL_SCRIPT, program_of_command


def training() -> tuple[Any, ...]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(40, 24), torch.nn.Tanh(), torch.nn.Linear(24, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = (torch.randn(16, 40), torch.randint(5, (16,)))
    return model, torch.nn.functional.cross_entropy, optimizer, batch


def mlp(exact_digits: int | None = None) -> repro_mlir.Program:
    return repro_mlir.capture(*training(), exact_digits=exact_digits)


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


def test_exact_contractions_by_capture_and_trainer_K4(program: repro_mlir.Program) -> None:
    expected = repro_mlir.exact_contractions(program, 3).hash
    assert mlp(3).hash == expected
    *given, batch = training()
    assert repro_mlir.Trainer(*given, exact_digits=3).prepare(*batch).hash == expected
    inference = repro_mlir.capture(given[0], batch[0], exact_digits=2)
    assert {contraction.order for contraction in repro_mlir.contractions(inference)} == {"#repro.exact<digits = 2>"}
    for digits, shown in ((4, "4"), (10**5000, "a number of 16610 bits")):
        with pytest.raises(ReproError, match=f"expected 2 or 3 digits, got {shown}$"):
            mlp(digits)


def test_exact_contractions_by_command_K4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command-line option replaces the option of the script, in every command that captures a script."""
    plain, exact, receipt = tmp_path / "plain.py", tmp_path / "exact.py", str(tmp_path / "receipt")
    plain.write_text(SMALL_SCRIPT.replace("{options}", "{}"))
    exact.write_text(SMALL_SCRIPT.replace("{options}", "{'exact_digits': 2}"))

    program = functools.partial(program_of_command, capsys)
    output = ["-o", str(tmp_path / "program.repro")]
    hashes = {
        program("compile", str(script), *output, *more)
        for script, more in (
            (plain, ["--exact-digits", "2"]),
            (exact, []),
            (plain, []),
            (exact, ["--exact-digits", "3"]),
        )
    }
    assert len(hashes) == 3
    trained = program("train", str(plain), "--steps", "2", "--receipt", receipt, "--exact-digits", "2")
    assert trained == program("verify", receipt, "--script", str(exact))
    assert trained == program("verify", receipt, "--script", str(plain), "--exact-digits", "2")
    assert cli.main(["verify", receipt, "--script", str(plain)]) == 1
    assert "WRONG    program: differs from that of" in capsys.readouterr().out
    terms = ["--terms", str(plain), "--exact-digits", "2"]
    assert cli.main(["dispute", receipt, receipt, *terms]) == 0
    assert cli.main(["diff", str(plain), "--targets", "eager,cpu", "--ulps", "1000000", "--exact-digits", "2"]) == 0


@pytest.mark.parametrize("digits", [1, 4, 2.5, "2"])
def test_digits_are_checked(program: repro_mlir.Program, digits: object) -> None:
    with pytest.raises(ReproError, match="expected 2 or 3 digits"):
        repro_mlir.exact_contractions(program, digits)  # type: ignore[arg-type]


def test_too_many_products_are_refused_K4() -> None:
    program = repro_mlir.capture(torch.nn.Linear(300_000, 1, bias=False), torch.zeros(1, 300_000))
    with pytest.raises(ReproError, match=r"a contraction cannot be exact: .*at most 262144 reduction elements"):
        repro_mlir.exact_contractions(program, 2)
