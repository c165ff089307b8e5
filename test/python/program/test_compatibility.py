# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The files in test/data/compatibility can be read and have the digests that they had when they were written. A file of
an unknown version is refused; the error names the version found and the version that can be read
(docs/verification/compatibility.md)."""

import json
import runpy
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.base.numerics.hashing import state_hash
from repro_mlir.bundle.stub_driver import LIBRARY
from repro_mlir.cli.main import main
from repro_mlir.frontends.torch.objects.checkpoint import load_checkpoint
from repro_mlir.program import Program
from repro_mlir.program.canonical import read_module
from repro_mlir.runner import Bundle
from repro_mlir.runner.certificates import read_certificate
from repro_mlir.runner.driver import LIBRARY_VARIABLE
from repro_mlir.runner.plan import read_plan
from repro_mlir.serving import verification
from repro_mlir.serving.receipt import content_hash, read_receipt
from repro_mlir.verification.receipts.signing import read_public_key

DATA = Path(__file__).resolve().parents[2] / "data" / "compatibility"
EXPECTED = json.loads((DATA / "expected.json").read_text())
SIGNED, MICROBATCHES = DATA / "signed.receipt", DATA / "microbatches.receipt"

# For each stored receipt: the number of steps, the hash of the last state, and the last link of its chain.
RECEIPTS = {
    SIGNED: (
        5,
        "1d8006b604eeeb5605f30a58f04b34a2e5b07a54fb0da7cdfd3b599f282f3b07",
        "89a4a4a501acd6850df965d177ab7d2d87731a2c9daae95ed947afcfac5ef744",
    ),
    MICROBATCHES: (
        2,
        "5b1082653ef0151094ddb2f98a4596d0e396893a97ee3e1f26741c7913ca4bb8",
        "0d05eafd78ea6a5062070111df04c167f2910231e183365e615f054f5d5a0ad9",
    ),
}


def writer() -> dict[str, Any]:
    """Returns the names that the script write.py, which wrote the files, defines."""
    pytest.importorskip("torch_mlir")
    return runpy.run_path(str(DATA / "write.py"))


@pytest.mark.parametrize("file", ["program.repro", "bundle.rmb"])
def test_programs(file: str, tmp_path: Path) -> None:
    program = Program.load(DATA / file)
    assert program.hash == EXPECTED["program"]
    bundle = Bundle(DATA / "bundle.rmb")
    assert bundle.steps == EXPECTED["steps"]
    state = program.initial_state()
    executable = repro_mlir.compile(program, "cpu")
    for step in range(bundle.steps):
        state, _ = executable(state, *bundle.recorded_inputs(step))
    assert state_hash([(state[kind.name], kind.element) for kind in program.state]) == EXPECTED["state"]
    program.save(tmp_path / "again.repro")
    assert Program.load(tmp_path / "again.repro").data == program.data
    assert file == "bundle.rmb" or (tmp_path / "again.repro").read_bytes() == (DATA / file).read_bytes()


def test_bundles(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(LIBRARY_VARIABLE, str(LIBRARY))
    assert main(["run-bundle", str(DATA / "bundle.rmb"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["state_hash"] == EXPECTED["state"] and report["differences"] == []


@pytest.mark.parametrize(("path", "programs", "changes"), [(SIGNED, 2, 1), (MICROBATCHES, 1, 0)])
def test_receipts(path: Path, programs: int, changes: int) -> None:
    receipt = repro_mlir.Receipt(path)
    assert (len(receipt.header.programs), len(receipt.log.change_records)) == (programs, changes)
    verified = repro_mlir.verify(path)
    assert (verified.steps, verified.state_hash, verified.chain) == RECEIPTS[path] and verified.sealed
    assert main(["dispute", str(path), str(path)]) == 0
    assert path == MICROBATCHES or repro_mlir.diff(path, path) is None


def test_a_signed_receipt() -> None:
    key = read_public_key(DATA / "public.pem")
    assert repro_mlir.verify(SIGNED, key=key).signed_by == key.hex()
    with pytest.raises(ReceiptWrong, match="signed by another key"):
        repro_mlir.verify(SIGNED, key=bytes(reversed(key)))


def test_a_stopped_receipt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A receipt of a process that ended before the last step has the records of the steps so far, and no seal."""
    path, whole = Path(shutil.copytree(SIGNED, tmp_path / "stopped.receipt")), repro_mlir.Receipt(SIGNED)
    (path / "seal.json").unlink()
    (path / "checkpoints" / "6.safetensors").unlink()
    for name, size in (("steps.jsonl", whole.log.bytes_of(5)), ("inputs.bin", whole.log.inputs_end(5))):
        (path / name).write_bytes((path / name).read_bytes()[:size])
    assert main(["verify", str(path)]) == 2 and "expected a run that has ended" in capsys.readouterr().err
    verified = repro_mlir.verify(path, unfinished=True)
    assert (verified.steps, verified.changes, verified.sealed) == (4, 1, False)
    assert bytes.fromhex(verified.chain) == whole.log[5].chain
    writer()["write_receipt"](path, resume=True)
    files = {name: file.digest for name, file in repro_mlir.Receipt(path).seal.files.items()}
    assert files == {name: file.digest for name, file in whole.seal.files.items()}


def test_checkpoints(tmp_path: Path) -> None:
    functions = writer()
    trainer = functions["small_trainer"]()
    trainer.load_checkpoint(DATA / "checkpoint.safetensors")
    trainer.save_checkpoint(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (DATA / "checkpoint.safetensors").read_bytes()
    functions["train"](trainer, 3)
    assert (trainer.steps, trainer.state_hash()) == (3, EXPECTED["checkpoint"])


def test_answers() -> None:
    answer = json.loads((DATA / "answer.json").read_text())
    verification.check_itself(*verification.find_receipt(answer, "answer.json"))
    assert answer["hash"] == content_hash(answer)


def test_certificates() -> None:
    stored = json.loads((DATA / "certificate.json").read_text())
    assert json.loads(json.dumps(read_certificate(DATA / "certificate.json").as_json())) == stored


# Unknown versions -----------------------------------------------------------------------------------------------------


def with_member(file: str, member: str, change: dict[str, Any], path: Path) -> Path:
    """Writes a copy of a zip in which the JSON of one member has the fields `change`, and which has an unknown
    member."""
    with zipfile.ZipFile(DATA / file) as archive, zipfile.ZipFile(path, "w") as copy:
        for name in archive.namelist():
            data = archive.read(name)
            copy.writestr(name, json.dumps(json.loads(data) | change) if name == member else data)
        copy.writestr("added", b"")
    return path


def with_fields(file: str, change: dict[str, Any], path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    text = json.dumps(json.loads((DATA / file).read_text()) | change, sort_keys=True, separators=(",", ":"))
    path.write_text(text)
    return path


@pytest.mark.parametrize("version", [1, 3])
def test_unknown_versions_of_files(version: int, tmp_path: Path) -> None:
    said = f"of format 2 and numerics 1, got format {version} and numerics 1"
    with pytest.raises(ReproError, match=said):
        Program.load(with_member("program.repro", "signature.json", {"format": version}, tmp_path / "p"))
    with pytest.raises(ReproError, match=said):
        Bundle(with_member("bundle.rmb", "manifest.json", {"format": version}, tmp_path / "b"))
    with_fields("signed.receipt/receipt.json", {"version": version, "added": 1}, tmp_path / "r" / "receipt.json")
    with pytest.raises(ReproError, match=f"expected version 2 of the receipt format, got {version}"):
        repro_mlir.Receipt(tmp_path / "r")
    path = with_fields("certificate.json", {"format": version, "added": 1}, tmp_path / "c.json")
    with pytest.raises(ReproError, match=f"expected a certificate of format 2, got {version}"):
        read_certificate(path)
    answer = json.loads((DATA / "answer.json").read_text()) | {"version": version + 1, "added": 1}
    with pytest.raises(ReproError, match=f"expected a receipt of version 1, got one of version {version + 1}"):
        read_receipt(answer, "here")


def test_unknown_versions_of_bytes() -> None:
    program = Program.load(DATA / "program.repro").data
    with repro_mlir.ir.Context(), pytest.raises(ReproError, match="expected version 1 of the format, got 2"):
        read_module(program[:16] + b"\2" + program[17:])
    with zipfile.ZipFile(DATA / "bundle.rmb") as archive:
        plan = archive.read("sm_75.plan")
    with pytest.raises(ReproError, match="expected version 1, got 2"):
        read_plan(plan[:12] + b"\2" + plan[13:], "gpu", "here")


def test_unknown_versions_of_states() -> None:
    state = load_checkpoint(DATA / "checkpoint.safetensors") | {"format": 2}
    del state["cursor"]
    with pytest.raises(ReproError, match="expected format 1 of a trainer's state, got 2"):
        writer()["small_trainer"]().load_state_dict(state)
