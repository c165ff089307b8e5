# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(M4) Setting accumulators for whole programs and for single contractions; training, receipts and disputes with
them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import repro_mlir
import torch
from repro_mlir import Accumulator, ReproError
from repro_mlir.base.numerics.hashing import state_hash
from repro_mlir.cli import main as cli
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.program.accumulators import CLASSES
from repro_mlir.program_training import ProgramTrainer, mean_squared_error, sgd, training_step
from repro_mlir.reference.low_precision.accumulators import ACCUMULATORS, Fdpa, LateFdpa
from support.accumulated import HOPPER, ordering


@pytest.fixture(scope="module")
def program() -> repro_mlir.Program:
    """Returns a training step in which all matrix products have bf16 operands."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(40, 24), torch.nn.Tanh(), torch.nn.Linear(24, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = (torch.randn(16, 40), torch.randint(5, (16,)))
    return repro_mlir.capture(model, torch.nn.functional.cross_entropy, optimizer, batch, autocast=torch.bfloat16)


def run(program: repro_mlir.Program, target: str) -> str:
    rng = np.random.default_rng(1)
    executable = repro_mlir.compile(program, target)
    state = program.initial_state()
    inputs = [np.float32(0.1), rng.standard_normal((16, 40)).astype(np.float32), rng.integers(0, 5, 16)]
    for _ in range(3):
        state, _ = executable(state, *inputs)
    return state_hash([(state[kind.name], kind.element) for kind in program.state])


NATIVE = ("sm_80", "sm_90")
"""Architectures whose tensor cores are of the classes that these tests use."""

NARROW = Accumulator(32, 10, "rz_e8m13", -132)
"""An accumulator with so few bits that bf16 results differ from those of (K1)."""


@pytest.mark.parametrize("by", ["hopper", "ampere", NARROW], ids=str)
def test_a_program_in_an_accumulator_has_the_same_bits_everywhere_M4(
    program: repro_mlir.Program, by: str | Accumulator
) -> None:
    assert {each.elements for each in repro_mlir.contractions(program)} == {("bf16", "bf16")}
    changed = repro_mlir.set_accumulators(program, by)
    assert changed.hash != program.hash
    orders = {each.order for each in repro_mlir.contractions(changed)}
    assert orders == {ordering(Accumulator.named(by, "bf16") if isinstance(by, str) else by)}
    expected = run(changed, "reference")
    for target in ("cpu", "cpu:x86-64-v2", "ptx-emulator", *(f"ptx-emulator:{name}+tensor-cores" for name in NATIVE)):
        assert run(changed, target) == expected
    assert (run(program, "cpu") != expected) == (by == NARROW)


def test_one_contraction_by_its_place_M4(program: repro_mlir.Program) -> None:
    by = dataclasses.replace(HOPPER, fraction=28, round="rne_f32", chunk=32)
    changed = repro_mlir.set_accumulators(program, by, select=lambda contraction: contraction.index == 1)
    orders = [contraction.order for contraction in repro_mlir.contractions(changed)]
    assert [order == ordering(by) for order in orders] == [False, True, *[False] * (len(orders) - 2)]
    assert run(changed, "cpu") == run(changed, "reference")
    assert repro_mlir.set_accumulators(program, "hopper", select=lambda contraction: False) is program


def test_a_program_is_saved_with_its_accumulators_M4(program: repro_mlir.Program, tmp_path: Path) -> None:
    changed = repro_mlir.set_accumulators(program, "hopper")
    changed.save(tmp_path / "program.repro")
    assert repro_mlir.Program.load(tmp_path / "program.repro").hash == changed.hash


def test_classes_are_those_of_the_rules_M3() -> None:
    """The interpreter's table of accumulator classes has all entries of CLASSES, and some that programs cannot name."""
    assert set(ACCUMULATORS) - set(CLASSES) == {"cdna1", "cdna2", "cdna3"}
    for name, entries in CLASSES.items():
        found = {}
        for (of, result), by in ACCUMULATORS[name].items():
            inner, late = (by.inner, True) if isinstance(by, LateFdpa) else (by, False)
            assert isinstance(inner, Fdpa)
            fields = (inner.terms, inner.fraction, inner.round, inner.floor)
            found["f32" if of == "tf32" else of, result] = Accumulator(*fields, late, group=inner.group)
        assert entries == found
    by = Accumulator.named("ampere", "bf16", chunk=64)
    assert (by.terms, by.chunk, by.start) == (8, 64, "zero")


def test_names_that_are_none_are_refused_in_one_line() -> None:
    for name, element in ((10**5000, "f16"), (["hopper"], "f16"), ("hopper", 10**5000)):
        with pytest.raises(ReproError, match=r"expected .*, got a (number of 16610 bits|list)$"):
            Accumulator.named(name, element)  # type: ignore[arg-type]


def test_a_contraction_that_a_class_does_not_have_is_named_M3(program: repro_mlir.Program) -> None:
    with pytest.raises(ReproError, match=r"contraction 0 at loc\(.*\) of tensor<.*: volta does not multiply bf16"):
        repro_mlir.set_accumulators(program, "volta")
    with pytest.raises(
        ReproError, match=r"expected an accumulator or a name of a class \(volta, turing, .*\), got 'cdna3'"
    ):
        repro_mlir.set_accumulators(program, "cdna3")


def test_accumulators_with_scales_of_blocks_are_refused_M5(program: repro_mlir.Program) -> None:
    with pytest.raises(ReproError, match=r"\(M5\) blackwell_nvfp4 needs scales of blocks: use it in a recipe"):
        repro_mlir.set_accumulators(program, "blackwell_nvfp4")
    with pytest.raises(ReproError, match=r"\(M4\) expected group 1 without scales of blocks, got 16"):
        repro_mlir.set_accumulators(program, Accumulator.named("blackwell_nvfp4", "f4E2M1FN"))


def test_a_class_has_no_products_of_two_types_of_16_bits_M3() -> None:
    class Mixed(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.mm(x.float(), y.float())

    narrow = torch.zeros(4, 4, dtype=torch.bfloat16), torch.zeros(4, 4, dtype=torch.float16)
    with pytest.raises(ReproError, match="hopper does not multiply bf16 by f16"):
        repro_mlir.set_accumulators(repro_mlir.capture(Mixed(), narrow), "hopper")


def test_an_accumulator_that_a_result_does_not_have_M4(program: repro_mlir.Program) -> None:
    by = dataclasses.replace(HOPPER, round="rne_f16", start="init")
    with pytest.raises(
        ReproError, match=r"cannot have the accumulator: .*start = init with rne_f16 needs results of f16"
    ):
        repro_mlir.set_accumulators(program, by)


def test_attention_and_convolutions_M4() -> None:
    """Covers batched products and a convolution, whose kernels read rows in place or pack them."""
    torch.manual_seed(0)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.image = torch.nn.Conv2d(2, 8, 3, padding=1)

        def forward(self, x: torch.Tensor, q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            weights = torch.softmax(q @ q.transpose(-1, -2), -1)
            return torch.relu(self.image(x)), weights @ q

    inputs = torch.randn(2, 2, 9, 9), torch.randn(3, 2, 33, 16)
    bfloat16 = Model().bfloat16(), tuple(x.bfloat16() for x in inputs)
    program = repro_mlir.capture(bfloat16[0], bfloat16[1])
    changed = repro_mlir.set_accumulators(program, "hopper")
    found = [each.elements for each in repro_mlir.contractions(changed)]
    assert len(found) == 3 and set(found) == {("bf16", "bf16")}
    outputs = []
    for target in ("reference", "cpu", "cpu:x86-64-v3", "ptx-emulator"):
        executable = repro_mlir.compile(changed, target)
        _, results = executable(changed.initial_state(), *bfloat16[1])
        outputs.append([torch.as_tensor(value).view(torch.int16) for value in results.values()])
    for other in outputs[1:]:
        assert all(torch.equal(x, y) for x, y in zip(outputs[0], other, strict=True))


def _train(program: repro_mlir.Program, folder: Path, cheats: bool = False) -> None:
    random = np.random.default_rng(0)
    batches = [(random.random((4, 40), np.float32), random.random((4, 2), np.float32)) for _ in range(4)]
    if cheats:
        batches[2][0][1, 3] += np.float32(2**-8)
    options = repro_mlir.ReceiptOptions(folder, checkpoint_every=2)
    with ProgramTrainer(program, {"lr": 0.1}, receipt=options) as trainer:
        for batch in batches:
            trainer.step(*batch)


def test_receipts_disputes_and_differences_M4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from repro_mlir.frontends.torch.capture.inference import capture_inference

    torch.manual_seed(0)
    imported = capture_inference(torch.nn.Linear(40, 2), (torch.zeros(4, 40),), CaptureOptions())
    step = training_step(imported, mean_squared_error(), sgd(), train=["weight", "bias"])
    changed = repro_mlir.set_accumulators(step, "hopper")
    _train(changed, tmp_path / "honest")
    _train(changed, tmp_path / "other", cheats=True)
    for target in ("reference", "cpu:x86-64-v2"):
        repro_mlir.verify(tmp_path / "honest", target=target)
    assert repro_mlir.diff(tmp_path / "honest", tmp_path / "honest") is None
    found = repro_mlir.diff(tmp_path / "honest", tmp_path / "other")
    assert found is not None and found.step == 3
    honest, other = str(tmp_path / "honest"), str(tmp_path / "other")
    assert cli.main(["dispute", honest, honest]) == 0
    assert cli.main(["dispute", honest, other]) != 0
    assert "3" in capsys.readouterr().out
