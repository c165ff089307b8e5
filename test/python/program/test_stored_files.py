# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Files of earlier versions are read and give the same state as before (test/data/README.md)."""

import json
import runpy
import shutil
from pathlib import Path

import pytest
import repro_mlir
from repro_mlir.base.errors import ReceiptWrong
from repro_mlir.base.numerics.hashing import state_hash
from repro_mlir.bundle.stub_driver import LIBRARY
from repro_mlir.cli.main import main
from repro_mlir.program import Program
from repro_mlir.runner import Bundle
from repro_mlir.runner.driver import LIBRARY_VARIABLE
from repro_mlir.verification.receipts.signing import read_public_key

DATA = Path(__file__).resolve().parents[2] / "data"
EXPECTED = json.loads((DATA / "form-2" / "expected.json").read_text())

RECEIPT = (
    5,
    "1d8006b604eeeb5605f30a58f04b34a2e5b07a54fb0da7cdfd3b599f282f3b07",
    "89a4a4a501acd6850df965d177ab7d2d87731a2c9daae95ed947afcfac5ef744",
)
"""The number of steps, the hash of the last state, and the last link of the chain."""


@pytest.mark.parametrize("file", ["program.repro", "bundle.rmb"])
def test_programs(file: str, tmp_path: Path) -> None:
    program, wanted = Program.load(DATA / "form-2" / file), EXPECTED
    assert program.hash == wanted["program"]
    bundle = Bundle(DATA / "form-2" / "bundle.rmb")
    assert bundle.steps == wanted["steps"]
    state = program.initial_state()
    executable = repro_mlir.compile(program, "cpu")
    for step in range(bundle.steps):
        state, _ = executable(state, *bundle.recorded_inputs(step))
    assert state_hash([(state[kind.name], kind.element) for kind in program.state]) == wanted["state"]
    program.save(tmp_path / "again.repro")
    assert Program.load(tmp_path / "again.repro").data == program.data


def test_bundles(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(LIBRARY_VARIABLE, str(LIBRARY))
    assert main(["run-bundle", str(DATA / "form-2" / "bundle.rmb"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["state_hash"] == EXPECTED["state"] and report["differences"] == []


def test_receipts() -> None:
    path = DATA / "form-2" / "run.receipt"
    header, log = repro_mlir.Receipt(path).header, repro_mlir.Receipt(path).log
    assert (len(header.programs), len(log.change_records)) == (2, 1)
    verified = repro_mlir.verify(path)
    assert (verified.steps, verified.state_hash, verified.chain) == RECEIPT
    assert main(["dispute", str(path), str(path)]) == 0 and repro_mlir.diff(path, path) is None


def test_a_signed_receipt() -> None:
    path = DATA / "receipts-2" / "signed.receipt"
    key = read_public_key(DATA / "receipts-2" / "public.pem")
    verified = repro_mlir.verify(path, key=key)
    assert (verified.steps, verified.state_hash, verified.chain) == RECEIPT
    assert verified.signed_by == key.hex() and verified.sealed
    with pytest.raises(ReceiptWrong, match="signed by another key"):
        repro_mlir.verify(path, key=bytes(reversed(key)))


def test_a_stopped_receipt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = DATA / "receipts-2" / "stopped.receipt"
    assert main(["verify", str(path)]) == 2 and "the run has not ended" in capsys.readouterr().err
    verified = repro_mlir.verify(path, unfinished=True)
    assert (verified.steps, verified.changes, verified.sealed) == (4, 1, False)
    whole = repro_mlir.Receipt(DATA / "receipts-2" / "signed.receipt")
    assert bytes.fromhex(verified.chain) == whole.log[5].chain
    # Resuming the stopped receipt gives the files of the run that did not stop.
    pytest.importorskip("torch_mlir")
    copy = Path(shutil.copytree(path, tmp_path / "copy"))
    write_receipt = runpy.run_path(str(DATA / "write_receipt.py"))["write"]
    write_receipt(copy, resume=True)
    files = {name: file.digest for name, file in repro_mlir.Receipt(copy).seal.files.items()}
    assert files == {name: file.digest for name, file in whole.seal.files.items()}


def test_the_present_form_is_written_as_it_was(tmp_path: Path) -> None:
    Program.load(DATA / "form-2" / "program.repro").save(tmp_path / "p.repro")
    assert (tmp_path / "p.repro").read_bytes() == (DATA / "form-2" / "program.repro").read_bytes()
