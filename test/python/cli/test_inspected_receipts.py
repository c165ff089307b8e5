# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""`repro inspect` of receipts and of the programs in receipts: what an auditor compares with other sources."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from repro_mlir.base import compiler
from repro_mlir.base.files import canonical_json
from repro_mlir.cli.main import main
from repro_mlir.program.inspection import count_operations
from repro_mlir.verification.receipts.form import HEADER, SEAL, STEPS
from repro_mlir.verification.receipts.receipt import Receipt

ROOT = Path(__file__).resolve().parents[3]
RECEIPTS = ROOT / "test" / "data" / "compatibility"
SIGNED, MICROBATCHES = RECEIPTS / "signed.receipt", RECEIPTS / "microbatches.receipt"

Told = Callable[..., tuple[list[str], dict]]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """Returns a function that returns the output of `repro inspect` as lines and as JSON."""

    def run(path: Path, status: int = 0) -> tuple[list[str], dict]:
        assert main(["inspect", str(path)]) == status
        lines = capsys.readouterr().out.splitlines()
        assert main(["inspect", str(path), "--json"]) == status
        return lines, json.loads(capsys.readouterr().out)

    return run


def edited(tmp_path: Path, name: str, edit: Callable[[dict], object]) -> Path:
    """Returns a copy of a receipt in which `edit` has changed the JSON of a file."""
    path = tmp_path / "edited.receipt"
    shutil.copytree(SIGNED, path)
    value = json.loads((path / name).read_text())
    edit(value)
    (path / name).write_bytes(canonical_json.dump(value))
    return path


def test_the_program_of_a_receipt(told: Told) -> None:
    program = Receipt(SIGNED).program
    lines, report = told(SIGNED / "programs" / f"{program.hash}.repro")
    assert lines[0] == f"program  {program.hash}"
    assert lines[1] == "state    6 tensors, 18 elements, 80 bytes"
    assert report["program"] == program.hash and report["state_bytes"] == 80
    assert report["operations"] == count_operations(program.data)
    assert report["inputs"] == [str(kind) for kind in program.inputs]


def test_the_program_of_a_receipt_in_microbatches(told: Told) -> None:
    program = Receipt(MICROBATCHES).program
    (path,) = (MICROBATCHES / "programs").iterdir()
    lines, report = told(path)
    assert lines[0] == f"program  {program.hash}" and report["program"] == program.hash
    assert lines[1].startswith(f"step     in {program.microbatches.count} microbatches;")
    assert report["operations"]["func.return"] == 2


def test_without_the_compiler_only_the_text_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    monkeypatch.setattr(compiler, "has_compiler", lambda: False)
    path = next((SIGNED / "programs").iterdir())
    assert told(path)[1]["operations"]
    assert main(["inspect", str(path), "--text"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("repro: error: --text needs the compiler: install") and len(error.splitlines()) == 1


@pytest.mark.parametrize("receipt", [SIGNED, MICROBATCHES])
def test_damaged_programs(capsys: pytest.CaptureFixture[str], tmp_path: Path, receipt: Path) -> None:
    path = tmp_path / "damaged.repro"
    data = next((receipt / "programs").iterdir()).read_bytes()
    for size in (24, 300, len(data) - 1):
        path.write_bytes(data[:size])
        assert main(["inspect", str(path)]) == 2
        captured = capsys.readouterr()
        assert captured.out == "" and str(path) in captured.err and len(captured.err.splitlines()) == 1


def test_a_program_takes_no_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    path = next((SIGNED / "programs").iterdir())
    assert main(["inspect", str(path), "--size", "batch=2"]) == 2
    assert "others have fixed sizes" in capsys.readouterr().err


def test_the_initial_state(told: Told) -> None:
    initial = json.loads((SIGNED / HEADER).read_text())["run"]["initial"]
    lines, report = told(SIGNED)
    assert f"initial  {initial}" in lines and report["initial"] == initial


def test_the_seal_and_the_records_conflict(tmp_path: Path, told: Told) -> None:
    assert told(SIGNED)[1]["conflicts"] == []

    def edit(seal: dict) -> None:
        seal |= {"steps": 300, "chain": "ab" * 32, "state_hash": "cd" * 32}
        del seal["signature"]

    lines, report = told(edited(tmp_path, SEAL, edit), 1)
    right = json.loads((SIGNED / SEAL).read_text())
    expected = [
        "step 6: steps.jsonl: expected 300 steps, as in seal.json, got 5",
        f"seal.json: not the last link of the chain: expected {'ab' * 32}, got {right['chain']}",
        f"seal.json: the hash of the state is not that of the last record: expected {'cd' * 32}, "
        f"got {right['state_hash']}",
    ]
    assert report["conflicts"] == expected
    assert [line for line in lines if line.startswith("CONFLICT")] == [
        f"CONFLICT {each}: run repro verify" for each in expected
    ]


def test_names_of_files_and_bytes_after_the_records(tmp_path: Path, told: Told) -> None:
    path = edited(tmp_path, SEAL, lambda seal: seal["files"].pop("checkpoints/0.safetensors") and seal.pop("signature"))
    expected = "checkpoints/0.safetensors: only in the receipt, expected in the receipt and in seal.json"
    assert told(path, 1)[1]["conflicts"] == [expected]
    shutil.copy(SIGNED / SEAL, path / SEAL)
    (path / "extra").touch()
    with (path / STEPS).open("ab") as file:
        file.write(b"rubbish")
    assert told(path, 1)[1]["conflicts"] == [
        "steps.jsonl: expected the end of the file after the last record",
        "extra: not a part of the receipt",
    ]


def test_a_loss_that_is_not_recorded(tmp_path: Path, told: Told) -> None:
    path = tmp_path / "copy.receipt"
    shutil.copytree(SIGNED, path)
    first, rest = (path / STEPS).read_bytes().split(b"\n", 1)
    value = json.loads(first)
    del value["loss"]
    (path / STEPS).write_bytes(canonical_json.dump(value) + b"\n" + rest)
    last = told(SIGNED)[1]["losses"][1]
    lines, report = told(path)
    assert report["losses"] == [None, last]
    assert f"loss     not recorded at first, {last:.6f} at last" in lines


def test_target_and_threads_are_shown_before_other_entries(tmp_path: Path, told: Told) -> None:
    others = {f"a{number}": "x" for number in range(20)}
    path = edited(tmp_path, HEADER, lambda header: header["environment"].update(others))
    lines = told(path)[0]
    at = lines.index("run on   as the author states, and nothing checks:")
    assert [line.strip()[:8] for line in lines[at + 1 : at + 3]] == ["target: ", "threads:"]
    assert told(MICROBATCHES)[1]["microbatches_every"] == Receipt(MICROBATCHES).header.microbatches_every


def test_the_hash_of_the_script(tmp_path: Path, told: Told) -> None:
    script = tmp_path / "script.py"
    script.write_text("x = 1\n")
    page = (ROOT / "docs" / "guides" / "verifier.md").read_text()
    (code,) = re.findall(r'^python3 -c "(.*)" SCRIPT$', page, re.M)
    done = subprocess.run([sys.executable, "-c", code, script], capture_output=True, text=True, check=True)
    digest = done.stdout.strip()
    named = {"name": "script.py", "blake3": digest}
    lines, report = told(edited(tmp_path, HEADER, lambda header: header["data"].update(script=named)))
    assert f"script   {digest} (BLAKE3)" in lines
    assert (report["script"], report["script_blake3"]) == ("script.py", digest)
    assert told(SIGNED)[1]["script_blake3"] is None
