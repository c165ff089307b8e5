# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""benchmarks/gpu at small sizes on the stand-in for the driver, so that it works when there is a GPU."""

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from repro_mlir.bundle.runner.driver import LIBRARY_VARIABLE
from repro_mlir.bundle.runner.plan import read_plan
from repro_mlir.bundle.stub_driver import LIBRARY
from repro_mlir.compilation.assembler import assemble, find_assembler

pytest.importorskip("torch")
_FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "gpu"
_PART = [
    "conformance",
    "AdamW 160",
    "GPT tiny",
    "matmul 32 NT",
    "softmax 4x40, gradient",
    "to 4 weight gradient",
    "catalogue",
    "tensor cores",
    "bf16 70x40",
    "f16 40x70",
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What prepare.py makes."""
    folder = tmp_path_factory.mktemp("gpu") / "prepared"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(_FOLDER / "prepare.py"), str(folder), "--tiny", "--only", *_PART]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    assert "without a check" not in result.stdout
    return folder


def measure(folder: Path, *arguments: str, **variables: str) -> tuple[int, dict]:
    """Exit status and results of run.py in a process that has NumPy and torch and nothing of ours."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {LIBRARY_VARIABLE: str(LIBRARY), "PYTHONPATH": str(Path(np.__file__).parent.parent), **variables}
    command = [sys.executable, str(_FOLDER / "run.py"), str(folder), *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert "Traceback" not in result.stderr, result.stderr
    return result.returncode, json.loads((folder / "results.json").read_text())


def test_everything_is_equal(prepared: Path) -> None:
    status, report = measure(prepared)
    assert status == 0 and report["errors"] == {}, report["errors"]
    assert report["facts"]["device"] == "PTX emulator" and set(report["parts"]) == {
        *("operations", "tensor cores", "programs", "catalogue", "speed")
    }
    rows = report["parts"]["operations"]
    assert sorted({row["code"] for row in rows}) == ["PTX sm_75", "PTX sm_90"]
    assert all(row["bits"] == "equal" and row["operations"] > 130 for row in rows)
    programs = report["parts"]["programs"]
    assert {(row["program"], row["code"]) for row in programs} == {
        (name, code) for name in ("AdamW 160", "GPT tiny 2x8") for code in ("PTX sm_75", "PTX sm_90")
    }
    assert all(row["bits"] == "equal" for row in programs)
    (tested,) = report["parts"]["catalogue"]
    assert tested["bits"] == "equal" and tested["failing_steps"] == 1 and tested["by_PTX"] == 4
    speed = report["parts"]["speed"]
    assert len(speed) == 13 and all(row["ours_ms"] > 0 for row in speed)
    assert [row["bits"] for row in speed].count("equal") == 11
    matrices = report["parts"]["tensor cores"]
    certified = "equal (1,048,576 results of hopper)"
    assert [row["bits"] for row in matrices] == [certified] * 4 + ["equal"] * 4
    assert [row["code"] for row in matrices[4:]] == ["mma.sync, PTX", "integers, PTX"] * 2
    text = (prepared / "results.md").read_text()
    assert "## operations" in text and "| GPT tiny 2x8 | PTX sm_90 |" in text


def test_what_differs_is_named(prepared: Path, tmp_path: Path) -> None:
    path = prepared / "conformance" / "expected.json"
    kept = path.read_text()
    expected = json.loads(kept)
    expected["sums"]["fma.rn.f32"][3] ^= 1
    path.write_text(json.dumps(expected))
    try:
        status, report = measure(prepared, "--only", "operations")
    finally:
        path.write_text(kept)
    assert status == 1
    assert all(row["bits"] == "DIFFERENT: fma.rn.f32 (1 of 64 parts)" for row in report["parts"]["operations"])


def test_what_fails_is_noted_and_the_rest_goes_on(prepared: Path) -> None:
    path = prepared / "bundles" / "AdamW_160.rmb"
    kept = path.read_bytes()
    path.write_bytes(kept[: len(kept) // 2])
    try:
        status, report = measure(prepared, "--only", "programs")
    finally:
        path.write_bytes(kept)
    assert status == 1 and len(report["errors"]["programs"]) == 1
    assert "open AdamW 160: " in report["errors"]["programs"][0] and "damaged or another file" in str(report["errors"])
    assert {row["program"] for row in report["parts"]["programs"]} == {"GPT tiny 2x8"}


def test_a_lost_context_ends_a_process_and_not_the_run(prepared: Path) -> None:
    """From the third launch on every launch of a process fails: another process goes on behind that row."""
    status, report = measure(prepared, "--only", "speed", REPRO_STUB_FAIL="cuGraphLaunch=700@3")
    assert status == 1
    begun = report["begun"]["speed"]
    assert len(begun) == len(set(begun)) == 14
    assert "speed" not in report["parts"] and len(report["errors"]["speed"]) == 13
    assert all("an illegal memory access" in error for error in report["errors"]["speed"])


def test_another_class_gets_no_certificate(prepared: Path) -> None:
    """And its tensor cores no code; the products in integers are computed all the same."""
    for path in (prepared / "certificates").glob("*"):
        path.unlink()
    status, report = measure(prepared, "--only", "tensor cores", REPRO_STUB_MATRIX_UNIT="ampere")
    errors = report["errors"]["tensor cores"]
    assert status == 1 and len(errors) == 3
    assert "are not those of hopper" in errors[0] and all("need a certificate" in error for error in errors[1:])
    assert [row["bits"] for row in report["parts"]["tensor cores"]] == ["equal"] * 2
    assert not list((prepared / "certificates").glob("*"))


def test_another_result_of_a_program_is_named(prepared: Path) -> None:
    path = prepared / "catalogue.zip"
    kept = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    facts = [json.loads(members[f"{number}.json"]) for number in range(4)]
    (number,) = [i for i, each in enumerate(facts) if each["name"] == "unary-f32"]
    with np.load(io.BytesIO(members[f"{number}.npz"])) as arrays:
        changed = dict(arrays)
    changed["result_3"][5] ^= 1
    data = io.BytesIO()
    np.savez(data, **changed)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | {f"{number}.npz": data.getvalue()}).items():
            archive.writestr(name, content)
    try:
        status, report = measure(prepared, "--only", "catalogue")
    finally:
        path.write_bytes(kept)
    (row,) = report["parts"]["catalogue"]
    assert status == 1 and "unary-f32: run 0: result 3: 1 of" in row["bits"] and "first at [5]" in row["bits"]


@pytest.mark.skipif(find_assembler() is None, reason="no ptxas")
def test_kernels_of_rates_assemble(tmp_path: Path) -> None:
    """No emulator runs them: they read the clock."""
    sys.path[:0] = [str(_FOLDER)]
    try:
        import rates
    finally:
        del sys.path[0]
    rates.save_rates(tmp_path / "rates", "sm_90", assemble)
    text = (tmp_path / "rates" / "rates.ptx").read_text()
    plan = read_plan(rates.rate_plan(132), "gpu", "rates")
    assert len(plan.kernels) == 2 * len(rates.RATES) + len(rates.CHASES) + 1
    assert all(f".entry {kernel.name}(" in text for kernel in plan.kernels)
