# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests that the parts of the difference between a prediction and a measurement add up, and that the command shows
them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from repro_mlir import Program
from repro_mlir.base.errors import ReproError
from repro_mlir.cli.main import main
from repro_mlir.compilation import cpu
from repro_mlir.roofline import (
    CAUSES,
    Ceilings,
    Ledger,
    LedgerEntry,
    StepPrediction,
    measure,
    predict,
    read_code,
    write_cpu_machine,
)
from repro_mlir.roofline.report import as_json, lines_of
from support.predicted import EMPTY, MACHINE, SOURCES, doubled, product, program_of


@pytest.fixture
def program(tmp_path: Path) -> Program:
    (tmp_path / "product.mlir").write_text(product(64))
    return Program.load(tmp_path / "product.mlir")


def test_the_ledger_adds_up(program: Program) -> None:
    machine = replace(MACHINE, level=cpu.runnable_levels()[0])
    prediction = predict(read_code(program, machine), machine)
    ledger = measure(program, prediction, seconds=0.01)
    assert [entry.predicted for entry in ledger.entries] == [*prediction.launches] and ledger.steps >= 2
    assert [*ledger.causes] == [*CAUSES, "unknown"]
    assert sum(ledger.causes.values()) == pytest.approx(ledger.seconds)
    assert ledger.unsigned_unknown == sum(abs(entry.unknown) for entry in ledger.entries)
    assert 0 <= ledger.median_error and 0 < ledger.seconds < 1


def test_errors_of_opposite_signs_do_not_cancel(program: Program) -> None:
    (launch,) = predict(read_code(program, MACHINE), MACHINE).launches
    step = StepPrediction(MACHINE, (launch, launch), {}, Ceilings({}, {}), 1, ())
    ledger = Ledger(tuple(LedgerEntry(launch, launch.seconds * part) for part in (0.5, 1.5)), 2)
    assert ledger.causes["unknown"] == pytest.approx(0, abs=1e-12)
    assert ledger.unsigned_unknown == pytest.approx(launch.seconds)
    assert "(50.0%) of launches without signs" in "\n".join(lines_of(step, ledger, 3))
    assert as_json(step, ledger)["unsigned_unknown"] == ledger.unsigned_unknown


def test_code_that_this_machine_does_not_run_is_not_measured(program: Program) -> None:
    other = next((level for level in cpu.levels() if level not in cpu.runnable_levels()), None)
    if other is None:
        pytest.skip("this machine runs the code of every level")
    machine = replace(MACHINE, level=other, scheduling_model="neoverse-v2" if "aarch64" in other else "znver4")
    prediction = predict(read_code(program, machine), machine)
    assert prediction.seconds > 0
    with pytest.raises(ReproError, match=f"this machine does not run code for {other}"):
        measure(program, prediction)


def test_mismatched_arguments_are_refused(program: Program) -> None:
    machine = replace(MACHINE, level=cpu.runnable_levels()[0])
    prediction = predict(read_code(program, machine), machine)
    other = predict(read_code(program_of(EMPTY), machine), machine)
    with pytest.raises(ReproError, match="expected a prediction for this program, got one for another"):
        measure(program, other)
    with pytest.raises(ReproError, match=r"expected 2 inputs \(.*\), got 1"):
        measure(program, prediction, [np.zeros((64, 64), np.float32)])
    assert "0 launches" in "\n".join(lines_of(other, None, 3))
    free = replace(machine, launch_seconds=0.0)
    empty = program_of(doubled(0))
    prediction = predict(read_code(empty, free), free)
    assert lines_of(prediction, measure(empty.with_initial([np.zeros(0, np.float32)]), prediction, seconds=0.01), 3)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "product.mlir").write_text(product(64))
    write_cpu_machine(tmp_path / "here.json", replace(MACHINE, level=cpu.runnable_levels()[0]), SOURCES)
    command = ["roofline", "predict", str(tmp_path / "product.mlir"), "--machine", str(tmp_path / "here.json")]
    assert main([*command, "--json", "--measure"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["measured"] == pytest.approx(sum(each["measured"] for each in found["launches"]))
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "machine    here, " in text and "kernel_0" in text
    assert main([*command, "--json", "--set", "clock_hz=0.5x", "--set", "launch_seconds=1"]) == 0
    slow = json.loads(capsys.readouterr().out)
    assert slow["seconds"] > found["seconds"] + 0.9
    for wrong, message in (
        (["--set", "speed=2x"], "expected what is set among"),
        (["--threads", "9"], "expected threads from 1 to the 8 cores of here, got 9"),
        (["--precision", ""], "expected a script with --exact-digits or --precision"),
    ):
        assert main([*command, *wrong]) == 2
        assert message in capsys.readouterr().err
    assert main(["roofline", "calibrate", "-o", str(tmp_path / "here")]) == 2
    assert "expected a name that ends with .json" in capsys.readouterr().err
    assert main(["roofline", "calibrate", "-o", str(tmp_path / "a.json"), "--level", "x86-64-v9"]) == 2
    assert "expected a level that this machine runs among" in capsys.readouterr().err
    (tmp_path / "loop").symlink_to("loop")
    for folder in ("none", "loop"):
        assert main(["roofline", "calibrate", "-o", str(tmp_path / folder / "a.json")]) == 2
        assert "the folder of this file does not exist" in capsys.readouterr().err
    (tmp_path / "folder.json").mkdir()
    assert main(["roofline", "calibrate", "-o", str(tmp_path / "folder.json")]) == 2
    assert "expected a name for a file, got a folder" in capsys.readouterr().err


def test_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "small.py"
    script.write_text(
        "import torch\ndef training():\n    model = torch.nn.Linear(8, 4)\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)\n"
        "    batch = torch.ones(4, 8), torch.ones(4, dtype=torch.long)\n"
        "    return model, torch.nn.functional.cross_entropy, optimizer, [batch] * 9\n"
    )
    write_cpu_machine(tmp_path / "here.json", replace(MACHINE, level=cpu.runnable_levels()[0]), SOURCES)
    assert main(["roofline", "predict", str(script), "--machine", str(tmp_path / "here.json"), "--measure"]) == 0
    assert "unknown" in capsys.readouterr().out


def test_a_measurement_leaves_the_program_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "doubled.mlir").write_text(doubled(16))
    program = replace(Program.load(tmp_path / "doubled.mlir"), initial=(np.ones(16, np.float32),))
    machine = replace(MACHINE, level=cpu.runnable_levels()[0])
    measure(program, predict(read_code(program, machine), machine), seconds=0.01)
    assert (program.initial[0] == 1).all()
