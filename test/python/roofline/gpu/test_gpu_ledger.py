# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the command that compares predictions of programs and bundles with times measured on a GPU."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.bundle.writer import write_bundle
from repro_mlir.cli.main import main
from repro_mlir.compilation.device_code import compile_for
from repro_mlir.roofline import GpuStepPrediction, predict, read_code, read_measured
from repro_mlir.runner.bundle import Bundle
from support.predicted import GPU, MACHINE, product, program_of, write_gpu

_SM_90 = '{"facts": {"architecture": "sm_90"}, "parts": {%s}}'


def write_results(path: Path, *rows: Any) -> Path:
    facts = {"device": "a GPU that is made up", "architecture": "sm_90"}
    path.write_text(json.dumps({"facts": facts, "parts": {"speed": rows}}))
    return path


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "product.mlir").write_text(product(128))
    write_gpu(tmp_path / "fast.json", "sm_90")
    command = ["roofline", "predict", str(tmp_path / "product.mlir"), "--machine", str(tmp_path / "fast.json")]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["architecture"] == "sm_90"
    assert found["seconds"] == pytest.approx(sum(each["seconds"] for each in found["launches"]))
    assert found["seconds"] == pytest.approx(sum(found["causes"].values()))
    results = write_results(tmp_path / "r.json", {"name": "product", "ours_ms": 1.0}, {"name": "x", "ours_ms": 2.0})
    assert main([*command, "--measured", str(results)]) == 0
    text = capsys.readouterr().out
    assert "machine    fast, sm_90, registers" in text and "kernel_0" in text
    assert "measured   1.00 ms a step, on a GPU that is made up, by code that is not recorded; the predict" in text
    assert "the prediction is off by -9" in text
    assert "unknown" in text and " without signs" in text and " of launches without" not in text
    assert main([*command, "--json", "--measured", str(results), "--set", "launch_seconds=1"]) == 0
    slow = json.loads(capsys.readouterr().out)
    assert slow["measured_on"] == "a GPU that is made up" and slow["measured_code"] == "not recorded"
    assert slow["measured"] == 1e-3 and slow["ledger"]["unknown"] < -0.9
    assert main([*command, "--measure"]) == 2
    assert "--measure: expected a CPU as the first --machine, got fast" in capsys.readouterr().err
    write_gpu(tmp_path / "other.json", None)
    assert main([*command[:-1], str(tmp_path / "other.json")]) == 2
    assert "other: expected a machine of an architecture that the compiler supports" in capsys.readouterr().err


def test_a_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = program_of(product(64)).with_initial([])
    path = tmp_path / "product_64.rmb"
    write_bundle(path, program, compile_for(program, ["sm_75", "sm_80"], assembled=False))
    own, of_bundle = (read_code(each, replace(GPU, architecture="sm_80")) for each in (program, Bundle(path)))
    assert of_bundle.work == own.work
    # A machine of sm_90 can use the bundle's PTX for sm_80, because the driver assembles PTX.
    later = predict(read_code(Bundle(path), GPU), GPU)
    assert (later.facts["registers"], len(later.launches)) == ("estimated", len(own.plan.launches))
    with pytest.raises(
        ReproError, match=r"expected a GPU for product_64\.rmb, which has code for GPUs, got the CPU made-up"
    ):
        read_code(Bundle(path), MACHINE)
    write_bundle(path, program, compile_for(program, ["sm_100"], assembled=False))
    write_gpu(tmp_path / "fast.json", "sm_90")
    assert main(["roofline", "predict", str(path), "--machine", str(tmp_path / "fast.json")]) == 2
    assert "product_64.rmb has code for sm_100, which this GPU (sm_90) cannot run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "expected results of benchmarks/gpu/run.py"),
        ('{"facts": {}, "parts": []}', "expected results of benchmarks/gpu/run.py"),
        ('{"parts": {}}', "expected results of benchmarks/gpu/run.py"),
        ('{"facts": {}, "parts": {}}', "expected results of sm_90, got None"),
        ('{"facts": {"architecture": "sm_80"}, "parts": {}}', "expected results of sm_90, got 'sm_80'"),
        (_SM_90 % '"speed": {}', "expected one row named 'a', got 0 among none"),
        (_SM_90 % '"speed": [1, {"name": "b"}]', "expected one row named 'a', got 0 among b"),
        (_SM_90 % '"speed": [{"name": "a"}, {"name": "a"}]', "expected one row named 'a', got 2 among a"),
        (_SM_90 % '"speed": [{"name": "a"}]', "r.json: a: expected a time, got None"),
        (_SM_90 % '"speed": [{"name": "a", "ours_ms": true}]', "expected a time, got True"),
        (_SM_90 % '"speed": [{"name": "a", "ours_ms": 0}]', "expected a time, got 0"),
        (_SM_90 % '"speed": [{"name": "a", "ours_ms": 1e300}]', "expected a time, got 1e"),
        (_SM_90 % '"speed": [{"name": "a", "ours_ms": 1e-320}]', "expected a time, got 1e-320"),
        (_SM_90 % f'"speed": [{{"name": "a", "ours_ms": 1{"0" * 400}}}]', "expected a time, got a number of 1329 bits"),
        (_SM_90 % '"launches": [{"name": "a", "kernels": ["other"]}]', "got those of other code"),
        (_SM_90 % '"launches": [{"name": "a", "kernels": ["kernel_0"], "us": [1, 2]}]', "expected a time for each"),
        (_SM_90 % '"launches": [{"name": "a", "kernels": ["kernel_0"], "us": [1]}]', "a: expected a time, got None"),
        (
            _SM_90 % '"launches": [{"name": "a", "kernels": ["kernel_0"], "us": [-1], "step_ms": 1}]',
            "expected a time, got -1",
        ),
        ("{", "JSON"),
    ],
)
def test_results_that_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(text)
    step = predict(read_code(program_of(product(32)), GPU), GPU)
    with pytest.raises(ReproError, match=message):
        read_measured(tmp_path / "r.json", "a", step)


def test_rows_are_found_by_the_names_of_bundles(tmp_path: Path) -> None:
    step = predict(read_code(program_of(product(32)), GPU), GPU)
    results = write_results(tmp_path / "r.json", {"name": "matmul 32x32x8 NT, 2 digits", "ours_ms": 3})
    ledger = read_measured(results, "matmul_32x32x8_NT__2_digits", step)
    assert ledger.seconds == 3e-3
    assert sum(ledger.causes.values()) == pytest.approx(3e-3)
    assert ledger.median_error == pytest.approx(1 - step.seconds / 3e-3)


def test_launches_that_were_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The time between launches is divided among the launches, so that their times add up to that of the step."""
    (tmp_path / "product.mlir").write_text(product(1024))
    write_gpu(tmp_path / "fast.json", "sm_90")
    command = ["roofline", "predict", str(tmp_path / "product.mlir"), "--machine", str(tmp_path / "fast.json")]
    assert main([*command, "--json"]) == 0
    launches = json.loads(capsys.readouterr().out)["launches"]
    count = len(launches)
    assert count > 1
    row = {"name": "product", "kernels": [each["kernel"] for each in launches], "us": [100.0] * count}
    facts = {"device": "a GPU", "architecture": "sm_90"}
    parts = {"launches": [{**row, "step_ms": 0.11 * count}], "speed": [{"name": "product", "ours_ms": 9.0}]}
    (tmp_path / "r.json").write_text(json.dumps({"facts": facts, "parts": parts}))
    assert main([*command, "--json", "--measured", str(tmp_path / "r.json")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["measured"] for each in found["launches"]] == pytest.approx([110e-6] * count)
    assert found["measured"] == pytest.approx(110e-6 * count)
    off = [abs(110e-6 - each["seconds"]) for each in launches]
    assert found["unsigned_unknown"] == pytest.approx(sum(off))
    assert main([*command, "--measured", str(tmp_path / "r.json")]) == 0
    assert "of launches without signs" in capsys.readouterr().out


def _launches(step: GpuStepPrediction, **row: Any) -> dict[str, Any]:
    kernels = [launch.kernel for launch in step.launches]
    return {"name": "a", "kernels": kernels, "us": [100.0] * len(kernels), "step_ms": 9.0, **row}


@pytest.mark.parametrize("part", ["launches", "speed"])
def test_code_is_identified_by_its_digest(part: str, tmp_path: Path) -> None:
    """Results are matched with code by its digest, because kernels of other sizes have the same names."""
    step = predict(read_code(program_of(product(1024)), GPU), GPU)
    other = predict(read_code(program_of(product(2048)), GPU), GPU)
    assert len({step.digest, other.digest, predict(read_code(program_of(product(1024)), GPU), GPU).digest}) == 2
    facts = {"device": "a GPU", "architecture": "sm_90"}
    row = _launches(step, ours_ms=9.0, digest=step.digest)
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"facts": facts, "parts": {part: [row]}}))
    ledger = read_measured(path, "a", step)
    assert ledger.is_same_code and ledger.how == "on a GPU"
    path.write_text(json.dumps({"facts": facts, "parts": {part: [{**row, "digest": other.digest}]}}))
    with pytest.raises(
        ReproError, match=r"r\.json: a: expected a measurement of the predicted code, got one of other PTX"
    ):
        read_measured(path, "a", step)
    del row["digest"]
    path.write_text(json.dumps({"facts": facts, "parts": {part: [row]}}))
    assert not read_measured(path, "a", step).is_same_code


def test_launches_that_take_longer_than_the_step(tmp_path: Path) -> None:
    """If the measured launches take longer than the step, no launch gets a negative time."""
    step = predict(read_code(program_of(product(1024)), GPU), GPU)
    count = len(step.launches)
    times = [1.0, *[300.0] * (count - 1)]
    row = _launches(step, us=times, step_ms=0.25 * (count - 1))
    facts = {"device": "a GPU", "architecture": "sm_90"}
    (tmp_path / "r.json").write_text(json.dumps({"facts": facts, "parts": {"launches": [row]}}))
    ledger = read_measured(tmp_path / "r.json", "a", step)
    share = 0.25 * (count - 1) / (1e-3 * sum(times))
    assert [each.seconds for each in ledger.entries] == pytest.approx([1e-6 * each * share for each in times])
    assert sum(each.seconds for each in ledger.entries) == pytest.approx(ledger.seconds)
