# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests CPUs and GPUs in one command: `--threads` is for CPUs only, the first machine is measured, and code is read
once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.cli.main import main
from repro_mlir.compilation import cpu
from repro_mlir.roofline import Accelerator, CpuMachine, predict, read_code, sweep, write_cpu_machine
from repro_mlir.roofline.traffic import Reuse, Touch, reuse
from support.predicted import GPU, MACHINE, SOURCES, doubled, product, program_of, write_gpu


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Creates a folder with a program and with files of the machines cpu, gpu and same_gpu, and makes it the current
    folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "product.mlir").write_text(product(32))
    write_cpu_machine("cpu.json", replace(MACHINE, level=cpu.runnable_levels()[0]), SOURCES)
    for name in ("gpu", "same_gpu"):
        write_gpu(tmp_path / f"{name}.json", "sm_90")
    facts = {"device": "a GPU", "architecture": "sm_90"}
    results = {"facts": facts, "parts": {"speed": [{"name": "product", "ours_ms": 1.0}]}}
    (tmp_path / "r.json").write_text(json.dumps(results))
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, object]]:
    assert main(["roofline", "predict", "product.mlir", "--json", *options]) == 0
    said: dict[str, list[dict[str, object]]] = json.loads(capsys.readouterr().out)
    return said["predictions"]


@pytest.mark.usefixtures("here")
def test_threads_are_those_of_cpus(capsys: pytest.CaptureFixture[str]) -> None:
    machines = ("--machine", "cpu.json", "--machine", "gpu.json", "--threads", "2")
    first, second = found(capsys, *machines, "--measure")
    assert (first["threads"], "threads" in second) == (2, False)
    assert "measured" in first and "measured" not in second
    points = sweep({"": program_of(product(32))}, [(GPU, {}), (MACHINE, {})], 2)
    expected = [predict(read_code(program_of(product(32)), each), each, n) for each, n in ((GPU, 1), (MACHINE, 2))]
    assert [each.seconds for each in points] == [each.seconds for each in expected]


@pytest.mark.usefixtures("here")
def test_threads_of_cores_that_are_set(capsys: pytest.CaptureFixture[str]) -> None:
    """If `--set` changes the number of cores, the table also has a row for the unchanged machine with all of its
    cores."""
    options = ("--machine", "cpu.json", "--set", "cores=16", "--threads", "16")
    assert main(["roofline", "predict", "product.mlir", "--json", *options]) == 0
    step = json.loads(capsys.readouterr().out)
    assert (step["threads"], step["given"]["threads"]) == (16, 8)
    assert main(["roofline", "predict", "product.mlir", *options]) == 0
    said = capsys.readouterr().out
    assert "cpu, 8 threads" in said and "cpu cores=16" in said and "16 threads" in said


@pytest.mark.usefixtures("here")
def test_the_first_machine_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = found(capsys, "--machine", "gpu.json", "--machine", "cpu.json", "--measured", "r.json")
    assert first["measured_on"] == "a GPU" and "measured" not in second


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--machine", "gpu.json", "--threads", "2"], "expected a CPU with threads, got gpu"),
        (
            ["--machine", "gpu.json", "--machine", "cpu.json", "--measure"],
            "--measure: expected a CPU as the first --machine, got gpu",
        ),
        (
            ["--machine", "cpu.json", "--measured", "r.json"],
            "--measured: expected a GPU as the first --machine, got cpu",
        ),
        (["--machine", "cpu.json", "--measured", ""], "--measured: expected a GPU as the first --machine, got cpu"),
        (["--machine", "cpu.json", "--threads", "9"], "expected threads from 1 to the 8 cores of cpu, got 9"),
    ],
)
def test_options_are_refused_before_the_program_is_read(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("product.mlir").write_text("this is no program")
    assert main(["roofline", "predict", "product.mlir", *options]) == 2
    assert message in capsys.readouterr().err


def test_refusals_of_a_sweep() -> None:
    with pytest.raises(ReproError, match="expected a CPU with threads, got made-up-gpu, made-up-gpu"):
        sweep({"": program_of(product(32))}, [(GPU, {"clock_hz": ["1x", "2x"]})], 2)


@pytest.mark.usefixtures("here")
def test_code_is_read_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """All machines of one architecture, with or without changed numbers, use one reading of the code."""
    read = []

    def reading(*arguments: object) -> object:
        read.append(arguments)
        return read_code(*arguments)  # type: ignore[call-overload]

    monkeypatch.setattr("repro_mlir.roofline.prediction.read_code", reading)
    machines = ("--machine", "gpu.json", "--machine", "same_gpu.json", "--machine", "cpu.json")
    assert len(found(capsys, *machines, "--set", "launch_seconds=2x")) == 3
    assert len(read) == 2


@pytest.mark.parametrize(("machine", "where"), [(GPU, "gpu"), (MACHINE, "cpu")])
def test_touches_are_followed_once(
    machine: Accelerator | CpuMachine, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reuse of data does not depend on cache sizes, so it is analysed once for all points of a sweep."""
    followed = []

    def following(launches: Sequence[Sequence[Touch]]) -> Reuse:
        followed.append(launches)
        return reuse(launches)

    monkeypatch.setattr(f"repro_mlir.roofline.{where}.prediction.reuse", following)
    points = sweep({"": program_of(doubled(1 << 20))}, [(machine, {"l2_bytes": ["0.01x", "1x", "100x"]})])
    assert len(followed) == 1
    assert points[0].seconds > points[2].seconds
