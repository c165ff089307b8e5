# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Receipts whose programs or sizes would crash or stall a verifier: each command prints one clear line in bounded
time."""

import os
import shutil
import time
from pathlib import Path

import blake3
import numpy as np
import pytest
from forgery import edit, program_path, reseal
from repro_mlir import Receipt, ReceiptOptions, compile
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.cli.main import main
from repro_mlir.program import Program
from repro_mlir.program.canonical import to_bytes
from repro_mlir.verification.receipts.recorder import Recorder
from support import hostile

pytestmark = pytest.mark.timeout(120)


def write(path: Path, text: bytes, initial: float = 1) -> Path:
    """Writes a finished receipt of two steps of the program `text`, which has one state tensor and no inputs."""
    state = np.full(4, initial, np.float32)
    program = Program(to_bytes(text.decode()), (TensorType("a", "f32", (4,)),), (), (), 0, (state,))
    recorder = Recorder(ReceiptOptions(path), program, "reference", 1)
    executable = compile(program, "reference", 1)
    for _ in range(2):
        executable(recorder.state, *recorder.take(program, []))
        recorder.commit([], [])
    recorder.seal()
    recorder.close()
    return path


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write(tmp_path_factory.mktemp("hostile") / "right", hostile.program())
    assert main(["verify", str(path), "--target", "reference"]) == 0
    return path


def with_program(right: Path, path: Path, data: bytes) -> Path:
    """Copies a receipt and replaces its program by `data`. All hashes match, except the program's identity."""
    shutil.copytree(right, path)
    program_path(path).write_bytes(data)
    edit(path / "receipt.json", lambda value: value["programs"][0].update(blake3=blake3.blake3(data).hexdigest()))
    reseal(path)
    return path


@pytest.mark.parametrize("name", hostile.NOT_STORED)
def test_hostile_data(right: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    path = with_program(right, tmp_path / "hostile", hostile.NOT_STORED[name][0])
    status, said = answer(capsys, "verify", path, "--target", "reference")
    assert status == 1 and said.count("\n") == 1
    assert said.startswith(f"WRONG    {program_path(path).relative_to(path)}: expected a canonical program: ")


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Runs a command, which must end within a minute and print one line. Returns its status and the line."""
    capsys.readouterr()
    start = time.monotonic()
    status = main([str(argument) for argument in arguments])
    assert time.monotonic() - start < 60
    captured = capsys.readouterr()
    said = captured.err if status == 2 else captured.out
    said = "".join(line for line in said.splitlines(keepends=True) if not line.startswith("listening on "))
    assert (captured.out == "") == (status == 2) and len(said.splitlines()) == 1, captured
    return status, said


@pytest.mark.parametrize("name", hostile.TOO_LARGE)
def test_large_programs(right: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    path = with_program(right, tmp_path / "hostile", hostile.TOO_LARGE[name][0])
    status, said = answer(capsys, "verify", path, "--target", "reference")
    assert status == 2 and said.startswith(f"repro: error: {program_path(path)}: "), said


@pytest.mark.parametrize("command", ["dispute", "diff", "serve"])
@pytest.mark.parametrize("name", hostile.TOO_LARGE)
def test_every_command(
    right: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, name: str
) -> None:
    path = with_program(right, tmp_path / "hostile", hostile.TOO_LARGE[name][0])
    # The receipts get different initial states, because `repro diff` reads no program of equal receipts.
    edit(path / "receipt.json", lambda value: value["run"].update(initial="0" * 64))
    arguments = {
        "dispute": ["dispute", path, right, "--target", "reference"],
        "diff": ["diff", path, right, "--targets", "reference"],
        "serve": ["dispute", "--serve", path, "--listen", f"unix:{tmp_path / 'socket'}"],
    }
    status, said = answer(capsys, *arguments[command])
    assert status == 2 and f"{program_path(path)}: " in said


@pytest.mark.exhaustive
def test_endless_compile_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "slow", hostile.slow_to_compile())
    monkeypatch.setenv("REPRO_MLIR_CACHE", "off")
    monkeypatch.setenv("REPRO_MLIR_LIMITS", "compile_seconds=1")
    status, said = answer(capsys, "verify", path, "--target", "cpu:x86-64-v2")
    assert status == 2 and "could not be compiled for x86-64-v2 within 1 s (see REPRO_MLIR_LIMITS" in said


def test_text_of_more_than_the_limit(
    right: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    size = program_path(right).stat().st_size
    monkeypatch.setenv("REPRO_MLIR_LIMITS", f"text_bytes={size - 1}")
    status, said = answer(capsys, "verify", right, "--target", "reference")
    assert status == 2 and f"{program_path(right)}: expected at most {size - 1:,} bytes, got {size:,}" in said
    monkeypatch.setenv("REPRO_MLIR_LIMITS", f"text_bytes={size}")
    assert main(["verify", str(right), "--target", "reference"]) == 0


@pytest.mark.parametrize("role", ["state", "inputs"])
def test_tensors_of_more_than_the_memory(
    right: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], role: str
) -> None:
    """The header's sizes are compared with the memory limit before a file is read: files can be sparse, so they may
    have any size."""
    path = Path(shutil.copytree(right, tmp_path / "large"))
    large = {"name": "a", "element": "f64", "shape": [1 << 40]}
    edit(
        path / "receipt.json",
        lambda value: (value["run"] if role == "state" else value["programs"][0]).update({role: [large]}),
    )
    os.truncate(path / "checkpoints" / "0.safetensors", 1 << 43)
    status, said = answer(capsys, "verify", path)
    assert status == 2 and "receipt.json: " in said and "bytes, got 8,796,093,022,208" in said


def test_lines_that_are_no_records(right: Path, tmp_path: Path) -> None:
    """The reader computes a maximum size of the records' file from the number of records that it expects, and reads no
    more bytes than that."""
    path = Path(shutil.copytree(right, tmp_path / "lines"))
    with open(path / "steps.jsonl", "ab") as file:
        file.write(b"\n" * (1 << 25))
    log = Receipt(path).log
    assert log.records < 1 << 22 and len(Receipt(path).log[2].commitment.state) == 1
    assert main(["verify", str(path), "--target", "reference"]) == 2
