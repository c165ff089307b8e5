# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs benchmarks/gpu at small sizes on a simulated driver, so that its scripts can be tested without a GPU."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.bundle.stub_driver import LIBRARY
from repro_mlir.compilation.assembler import assemble, find_assembler
from repro_mlir.runner import Bundle, Device
from repro_mlir.runner.driver import LIBRARY_VARIABLE
from repro_mlir.runner.execution import TargetCode
from repro_mlir.runner.plan import read_plan

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
    "tf32 40x70",
    "f8E4M3FN 40x70",
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs prepare.py and returns the folder with its bundles."""
    folder = tmp_path_factory.mktemp("gpu") / "prepared"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(_FOLDER / "prepare.py"), str(folder), "--tiny", "--only", *_PART]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    assert "without a check" not in result.stdout
    return folder


def measure(folder: Path, *arguments: str, **variables: str) -> tuple[int, dict]:
    """Runs run.py in a process that can import NumPy and torch but not this package. Returns its exit status and its
    results."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {LIBRARY_VARIABLE: str(LIBRARY), "PYTHONPATH": str(Path(np.__file__).parent.parent), **variables}
    command = [sys.executable, str(_FOLDER / "run.py"), str(folder), *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert "Traceback" not in result.stderr, result.stderr
    return result.returncode, json.loads((folder / "results.json").read_text())


@pytest.mark.exhaustive
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
    assert sorted(row["bits"] for row in speed) == ["equal"] * 11 + ["see programs"] * 2
    assert all(len(row["digest"]) == 64 for row in speed)
    matrices = report["parts"]["tensor cores"]
    certified = "equal (1,048,576 results of hopper)"
    assert [row["bits"] for row in matrices] == [certified] * 12 + ["equal"] * 10
    assert [row["code"] for row in matrices[12:]] == ["mma.sync, PTX", "integers, PTX"] * 5
    text = (prepared / "results.md").read_text()
    assert "## operations" in text and "| GPT tiny 2x8 | PTX sm_90 |" in text


def test_differing_operations_are_named(prepared: Path, tmp_path: Path) -> None:
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


def test_a_failure_is_noted_and_the_rest_continues(prepared: Path) -> None:
    path = prepared / "bundles" / "AdamW_160.rmb"
    kept = path.read_bytes()
    path.write_bytes(kept[: len(kept) // 2])
    try:
        status, report = measure(prepared, "--only", "programs")
    finally:
        path.write_bytes(kept)
    assert status == 1 and len(report["errors"]["programs"]) == 1
    assert "open AdamW 160: " in report["errors"]["programs"][0] and "damaged or different file" in str(
        report["errors"]
    )
    assert {row["program"] for row in report["parts"]["programs"]} == {"GPT tiny 2x8"}


@pytest.mark.exhaustive
def test_a_lost_context_ends_a_process_and_not_the_run(prepared: Path, tmp_path: Path) -> None:
    """In each process, every launch from the third one on fails. After a row has failed, the next row runs in a new
    process."""
    folder = tmp_path / "prepared"
    (folder / "bundles").mkdir(parents=True)
    shutil.copy(prepared / "runner.pyz", folder)
    # Two steps and two functions are enough to test this. More would be slow: each row starts a process, which imports
    # PyTorch.
    for name in ("AdamW_160", "GPT_tiny_2x8", "softmax_4x40__gradient", "conv_3x3_3_8_to_4_weight_gradient"):
        for suffix in (".json", ".rmb"):
            shutil.copy(prepared / "bundles" / f"{name}{suffix}", folder / "bundles")
    status, report = measure(folder, "--only", "speed", REPRO_STUB_FAIL="cuGraphLaunch=700@3")
    assert status == 1
    begun = report["begun"]["speed"]
    assert len(begun) == len(set(begun)) == 5
    assert "speed" not in report["parts"] and len(report["errors"]["speed"]) == 4
    assert all("an illegal memory access" in error for error in report["errors"]["speed"])


@pytest.mark.exhaustive
def test_another_class_gets_no_certificate(prepared: Path) -> None:
    """Tensor cores of another class get no certificate, so code with matrix instructions does not run. Code that
    computes products with integers still runs."""
    status, report = measure(prepared, "--only", "tensor cores", REPRO_STUB_MATRIX_UNIT="ada")
    errors = report["errors"]["tensor cores"]
    assert status == 1 and len(errors) == 12 + 5
    assert all("are not those of hopper" in error for error in errors[:12])
    assert all("need a certificate" in error for error in errors[12:])
    assert [row["bits"] for row in report["parts"]["tensor cores"]] == ["equal"] * 5
    assert not list((prepared / "certificates").glob("*"))


def _flip_a_bit(arrays: dict[str, np.ndarray]) -> str:
    arrays["result_3"][5] ^= 1
    return r"result 3: 1 of .*first at \[5\]"


def _leave_one_out(arrays: dict[str, np.ndarray]) -> str:
    count = sum(key.startswith("result_") for key in arrays)
    del arrays[f"result_{count - 1}"]
    return f"{count} results, expected {count - 1}"


@pytest.mark.parametrize("change", [_flip_a_bit, _leave_one_out])
def test_other_results_of_a_program_are_named(change: Callable[[dict[str, np.ndarray]], str], prepared: Path) -> None:
    path = prepared / "catalogue.zip"
    kept = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    facts = [json.loads(members[f"{number}.json"]) for number in range(4)]
    (number,) = [i for i, each in enumerate(facts) if each["name"] == "unary-f32"]
    with np.load(io.BytesIO(members[f"{number}.npz"])) as arrays:
        changed = dict(arrays)
    message = change(changed)
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
    assert status == 1 and re.search(f"unary-f32: run 0: {message}", row["bits"])


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the modules of benchmarks/gpu importable."""
    monkeypatch.syspath_prepend(str(_FOLDER))


@pytest.mark.skipif(find_assembler() is None, reason="no ptxas")
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_100"])
@pytest.mark.diagonal(architecture=["sm_75", "sm_100"])
def test_kernels_of_rates_assemble(architecture: str, scripts: None, tmp_path: Path) -> None:
    """The kernels are only assembled, not run, because they read the clock, which the emulator does not support."""
    import rates

    rates.save_rates(tmp_path / "rates", architecture, assemble)
    text = (tmp_path / "rates" / "rates.ptx").read_text()
    plan = read_plan(rates.rate_plan(architecture, 132), "gpu", "rates")
    known = rates.rates_of(architecture)
    assert (len(known) < len(rates.RATES)) == (architecture == "sm_75")
    assert len(plan.kernels) == 2 * len(known) + len(rates.CHASES) + 1
    assert all(f".entry {kernel.name}(" in text for kernel in plan.kernels)


def test_a_failed_preparation_is_retried(
    scripts: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import prepare

    def refuse(text: str, architecture: str) -> bytes:
        raise ReproError(f"no code for {architecture}")

    monkeypatch.setattr(prepare, "find_assembler", lambda: "made up")
    monkeypatch.setattr(prepare, "assemble", refuse)
    monkeypatch.setattr(sys, "argv", ["prepare.py", str(tmp_path), "--only", "rates"])
    assert prepare.main() == 1
    assert "rates: no code for sm_90" in capsys.readouterr().err
    assert not (tmp_path / "rates").exists()
    monkeypatch.setattr(prepare, "assemble", lambda text, architecture: b"code")
    assert prepare.main() == 0
    assert sorted(path.name for path in (tmp_path / "rates").iterdir()) == ["rates.cubin", "rates.json", "rates.ptx"]


def test_architectures_are_compared_as_numbers(scripts: None) -> None:
    from run_programs import runnable

    assert runnable(["sm_75", "sm_90", "sm_100"], (9, 0)) == ["sm_75", "sm_90"]
    assert runnable(["sm_75", "sm_90", "sm_90a", "sm_100"], (10, 0)) == ["sm_75", "sm_90", "sm_100"]


def test_training_steps_are_compared_elsewhere(scripts: None, tmp_path: Path) -> None:
    from results import Results
    from run_speed import compared

    results = Results(tmp_path / "r")
    results.parts["programs"] = [
        {"program": "a", "bits": "equal"},
        {"program": "a", "bits": "equal"},
        {"program": "b", "bits": "equal"},
        {"program": "b", "bits": "DIFFERENT: loss of step 1"},
    ]
    assert [compared(name, results) for name in "abc"] == ["see programs", "DIFFERENT: see programs", "not compared"]


def test_predictions_next_to_results(
    scripts: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If a row was measured with other code than the code for which the time is predicted, the row is reported, and its
    cells in the table stay empty."""
    import predict

    results, table = tmp_path / "r.json", tmp_path / "table.md"
    given = ["--machine", "h100", "--tiny", "--only", "matmul 32 NN", "--measured", str(results), "-o", str(table)]
    monkeypatch.setattr(sys, "argv", ["predict.py", *given, "--launches"])
    row: dict[str, object] = {"name": "matmul 32 NN", "ours_ms": 0.5}
    for digest, status in ((None, 0), ("0" * 64, 1)):
        row |= {"digest": digest}
        results.write_text(json.dumps({"facts": {"architecture": "sm_90"}, "parts": {"speed": [row]}}))
        assert predict.main() == status
        assert ("matmul 32 NN: expected a measurement of the predicted code" in capsys.readouterr().err) == bool(digest)
        (line,) = [line for line in table.read_text().splitlines() if line.startswith("| matmul 32 NN |")]
        assert (" | 0.5 | -" in line) == (digest is None) and (" |  |  | " in line) == bool(digest)
    assert f"    python benchmarks/gpu/predict.py {' '.join(given[:4])} 'matmul 32 NN'" in table.read_text()
    launches = json.loads(table.with_suffix(".json").read_text())
    assert launches["commit"] and list(launches["programs"]) == ["matmul 32 NN"]


def test_a_commit_with_changes_is_dirty(scripts: None, tmp_path: Path) -> None:
    from predict import commit_of

    def git(*arguments: str) -> None:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / "file").write_text("a")
    git("add", "file")
    git("commit", "-m", "a")
    assert re.fullmatch("[0-9a-f]{12}", commit_of(tmp_path))
    (tmp_path / "file").write_text("b")
    assert re.fullmatch("[0-9a-f]{12}-dirty", commit_of(tmp_path))


class _Clock:
    """A fake device with a clock of its own; its events are times in nanoseconds."""

    processors = 3
    capability = (9, 0)

    def __init__(self) -> None:
        self.now = 0

    def event(self) -> int:
        self.now += 7_000_000
        return self.now

    def elapsed(self, start: int, end: int) -> float:
        return 1e-9 * (end - start)


class _Counted:
    """A fake `Execution` of kernels that measure cycles; the number of cycles of each kernel is derived from the
    kernel's name."""

    def __init__(self, device: _Clock, code: TargetCode, certifying: bool) -> None:
        self._plan = code.plan
        self._started = 0

    def __enter__(self) -> _Counted:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def start(self) -> None:
        self._started += 1

    def finish(self) -> None:
        assert self._started

    def read(self, space: str, index: int) -> np.ndarray:
        name = self._plan.kernels[self._plan.launches[index].kernel].name
        return np.full(self._plan.outputs[index].shape, _cycles(name))


def _cycles(name: str) -> int:
    return 1000 + zlib.crc32(name.encode()) % 1000


def test_rates(scripts: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row of the results contains the cycles of its own kernel."""
    import rates
    import run_rates
    from results import Results

    rates.save_rates(tmp_path / "rates", "sm_75", None)
    monkeypatch.setattr(run_rates, "Execution", _Counted)
    results = Results(tmp_path / "r")
    run_rates.run_rates(tmp_path, _Clock(), results, np.inf)
    assert not results.errors
    found = {row["name"]: row for row in results.parts["rates"]}
    for rate in rates.rates_of("sm_75"):
        asked = rate.iterations * 32 * rate.instructions
        row = found.pop(rate.name)
        assert row["per_cycle"] == 1024 * asked / _cycles(rates.kernel_name(rate.name, "throughput"))
        assert row["latency"] == _cycles(rates.kernel_name(rate.name, "latency")) / asked
    for chase in rates.CHASES:
        assert found.pop(chase.name)["latency"] == _cycles(rates.kernel_name(chase.name, "latency")) / 512
    for stream in rates.STREAMS:
        assert found.pop(stream.name)["GB/s"] == pytest.approx(rates.stream_bytes(stream) / 7e6)
    assert [row["us"] for row in found.values()] == pytest.approx([7000 / 200] * 3)


class _Launch:
    """A fake of a profiler's event for one launch."""

    def __init__(self, name: str, start: int, duration: int) -> None:
        self.name, self.start_ns, self.duration_ns = (lambda value=value: value for value in (name, start, duration))


def _profiler(events: list[_Launch]) -> Any:
    """Returns a fake of the parts of torch that run_launches.py uses; its profiler has recorded `events`."""
    seen = SimpleNamespace(profiler=SimpleNamespace(kineto_results=SimpleNamespace(events=lambda: events)))
    profiler = SimpleNamespace(
        ProfilerActivity=SimpleNamespace(CUDA="CUDA"), profile=lambda activities: contextlib.nullcontext(seen)
    )
    return SimpleNamespace(zeros=lambda *_, **__: None, profiler=profiler)


def test_launches(scripts: None, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script reports the median of five steps after a warm-up step, and an error if the profiler has not recorded
    all launches."""
    import run_launches
    from results import Results

    monkeypatch.setenv(LIBRARY_VARIABLE, str(LIBRARY))
    monkeypatch.setattr(run_launches, "facts_of", lambda *_: [json.loads(facts.read_text())])
    facts = prepared / "bundles" / "softmax_4x40__gradient.json"
    bundle = Bundle(facts.with_suffix(".rmb"))
    code = bundle.code("sm_90")
    names = [code.plan.kernels[launch.kernel].name for launch in code.plan.launches]
    assert len(names) > 1
    events = [_Launch("another", 0, 1)]
    for step in range(6):
        for number, name in enumerate(names):
            # In step 0, the warm-up, launches take longest. One launch begins every 20 us.
            duration = 1000 * (number + 1) + [9000, 2, 5, 3, 1, 4][step]
            events.append(_Launch(name, 20_000 * (step * len(names) + number), duration))
    with contextlib.closing(Device()) as device:
        for missing in (False, True):
            given = events[:-1] if missing else events[::-1]
            monkeypatch.setattr(run_launches, "torch_on_gpu", lambda given=given: _profiler(given))
            results = Results(tmp_path / f"r{missing}")
            run_launches.run_launches(prepared, device, results, np.inf)
            if missing:
                assert f"expected {len(names)} launches of 6 steps, the profiler saw" in results.errors["launches"][0]
                continue
            assert not results.errors
            (row,) = results.parts["launches"]
            assert row["kernels"] == names and row["digest"] == code.digest
            assert row["us"] == [number + 1.003 for number in range(len(names))]
            assert row["kernels_ms"] == pytest.approx(1e-3 * sum(row["us"]))
            assert row["step_ms"] > 0
