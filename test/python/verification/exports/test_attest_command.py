# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""`repro attest` refuses receipts and options that it cannot export, and repeats its bytes."""

import dataclasses
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
from repro_mlir.base.files.regular import open_regular
from repro_mlir.cli.main import main
from repro_mlir.verification.exports.facts import facts_of
from repro_mlir.verification.receipts.file_list import describe_file
from repro_mlir.verification.receipts.form import SEAL
from repro_mlir.verification.receipts.receipt import Receipt
from repro_mlir.verification.receipts.step_log import StoredInputs

FORMATS = ("in-toto", "slsa", "oms", "spdx", "cyclonedx", "page")
SIGNED = {"in-toto": "ed25519.pem", "slsa": "ed25519.pem", "oms": "P-256.pem"}


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Returns a function that runs `repro attest`, which must fail with one line, or state that the receipt is wrong,
    and write nothing. Returns the first line."""

    def run(receipt: Path, *options: object, status: int = 2) -> str:
        output = tmp_path / "refused"
        capsys.readouterr()
        assert main(["attest", str(receipt), *map(str, options), "-o", str(output)]) == status
        assert not output.exists()
        told = capsys.readouterr()
        if status == 1:
            assert told.out.startswith("WRONG    ") and not told.err
            return told.out.splitlines()[0]
        assert told.err.count("\n") == 1 and not told.out
        return told.err

    return run


def signing(keys: Path, name: str) -> list[object]:
    return ["--sign", keys / SIGNED[name]] if name in SIGNED else []


@pytest.mark.parametrize("name", FORMATS)
def test_equal_receipts_have_equal_exports(
    export: Callable[..., bytes], signed: Path, copied: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = export(signed, name)
    assert export(copied, name) == data
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000001")
    # Only formats that contain a time depend on the variable; the page contains it as well.
    assert (export(signed, name) == data) == (name in SIGNED)


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_and_unfinished_receipts(refused: Callable[..., str], copied: Path, keys: Path, name: str) -> None:
    options = ["--format", name, *signing(keys, name)]
    checkpoint = copied / "checkpoints" / "6.safetensors"
    data = checkpoint.read_bytes()
    checkpoint.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert "checkpoints/6.safetensors" in refused(copied, *options, status=1)
    checkpoint.write_bytes(data)
    (copied / "seal.json").unlink()
    assert "expected a run that has ended" in refused(copied, *options)


def resealed(receipt: Path, name: str, data: bytes) -> None:
    """Writes a file of a receipt, and describes it in the seal, which then has no signature."""
    (receipt / name).write_bytes(data)
    seal = Receipt(receipt).seal
    assert seal is not None
    files = seal.files | {name: describe_file(receipt / name)}
    (receipt / SEAL).write_bytes(dataclasses.replace(seal, files=files, signature=None).dump())


@pytest.mark.parametrize("name", FORMATS)
def test_kept_states_that_contradict_their_records(
    refused: Callable[..., str], copied: Path, keys: Path, name: str
) -> None:
    options = ["--format", name, *signing(keys, name)]
    last = f"checkpoints/{Receipt(copied).log.records}.safetensors"
    data = (copied / last).read_bytes()
    resealed(copied, last, data[:-1] + bytes([data[-1] ^ 1]))
    assert f"{last}: tensor" in refused(copied, *options, status=1)
    resealed(copied, last, data)
    extra = "checkpoints/1.safetensors"
    assert not (copied / extra).exists()
    resealed(copied, extra, data)
    assert f"{extra}: tensor" in refused(copied, *options, status=1)
    for content in (b"", b"hello world"):
        resealed(copied, extra, content)
        assert f"{extra}: expected {len(data):,} bytes" in refused(copied, *options)


def test_the_signature_of_the_receipt(
    refused: Callable[..., str], export: Callable[..., bytes], signed: Path, unsigned: Path, keys: Path
) -> None:
    assert export(signed, "cyclonedx", "--key", str(signed.parent / "public.pem"))
    for receipt, message in ((signed, "signed by another key"), (unsigned, "expected a signature by")):
        assert message in refused(receipt, "--format", "page", "--key", keys / "ed25519.pub", status=1)


def test_signature_and_changes_are_said(
    signed: Path, unsigned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--format", "cyclonedx", "-o", str(tmp_path / "export")]
    assert main(["attest", str(signed), *command]) == 0
    told = capsys.readouterr().out
    key = json.loads((signed / "seal.json").read_bytes())["signature"]["key"]
    assert f"receipt  signed by {key}\n" in told and "changes  1 change of the state by the user\n" in told
    assert main(["attest", str(unsigned), *command]) == 0
    told = capsys.readouterr().out
    assert "receipt  not signed\n" in told and "changes  " not in told
    assert main(["attest", str(signed), *command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["receipt_signed_by"] == key and report["changes"] == 1 and report["format"] == "cyclonedx"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--format in-toto: expected --sign KEY"),
        (["--format", "oms"], "--format oms: expected --sign KEY"),
        (["--format", "spdx", "--sign", "KEY"], "--sign: expected --format in-toto or slsa or oms"),
        (["--sign", "KEY", "--declare", "name=x"], "--declare: expected --format spdx or cyclonedx or page"),
        (["--format", "spdx", "--machine", "h100"], "--machine: expected --format page, got spdx"),
        (["--format", "page", "--declare", "nam=x"], "did you mean name?"),
        (["--format", "page", "--declare", "name=x", "--declare", "name=y"], "got two"),
        (["--format", "page", "--declare", "name= "], "expected 1 to 1000 printable characters"),
        (["--format", "page", "--declare", "name=a\nb"], "expected 1 to 1000 printable characters"),
        (["--format", "page", "--declare", "location=here"], "expected a URI"),
        (["--format", "spdx", "--declare", "license=all rights reserved"], "expected an SPDX license expression"),
        (["--format", "spdx", "--declare", "license=(MIT OR Apache-2.0"], "expected an SPDX license expression"),
        (["--format", "page", "--declare", "license=Apache-2"], "Unknown license: 'apache-2': spdx.org/licenses"),
        (["--format", "page", "--declare", "license=MIT WITH MIT"], "expected an SPDX license expression"),
        (["--format", "page", "--declare", f"license={'(' * 400}MIT"], "expected an SPDX license expression"),
        (["--format", "page", "--declare", "released=2026-1-1T00:00:00Z"], "expected a time in UTC"),
        (["--format", "page", "--declare", "released=2026-02-30T00:00:00Z"], "expected a time in UTC"),
        (["--format", "page", "--declare", "name"], "expected NAME=TEXT"),
        (["--format", "cdx"], "or page, got cdx"),
    ],
)
def test_options_that_do_not_fit(
    refused: Callable[..., str], signed: Path, keys: Path, options: list[str], message: str
) -> None:
    assert message in refused(signed, *(keys / "ed25519.pem" if each == "KEY" else each for each in options))


def test_wrong_keys(refused: Callable[..., str], signed: Path, keys: Path) -> None:
    for name in ("in-toto", "slsa"):
        assert "expected an ed25519 private key" in refused(signed, "--format", name, "--sign", keys / "P-256.pem")


@pytest.mark.parametrize("value", ["yesterday", "-1", "1.5", "253402300800", "9" * 40])
def test_wrong_times(refused: Callable[..., str], signed: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", value)
    for name in ("spdx", "cyclonedx", "page"):
        assert "SOURCE_DATE_EPOCH: expected seconds since 1970" in refused(signed, "--format", name)


def test_spdx_requires_a_time(refused: Callable[..., str], signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert "set SOURCE_DATE_EPOCH" in refused(signed, "--format", "spdx")


def test_changing_and_missing_hyper_parameters(signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule is stated by its first, last, least and greatest value; a NaN does not hide the other values."""
    schedule = iter([0.5, 0.75, float("nan"), 0.25, 0.5])
    read = StoredInputs.read

    def changed(self: StoredInputs, file: BinaryIO, path: Path, begin: int, where: str) -> list[np.ndarray]:
        arrays = read(self, file, path, begin, where)
        if len(arrays) in (2, 3) and not arrays[1].shape:
            arrays[0] = np.float32(next(schedule)).reshape(())
        return arrays

    monkeypatch.setattr("repro_mlir.verification.exports.facts.StoredInputs.read", changed)
    monkeypatch.setattr("repro_mlir.verification.exports.facts.check_consistency", lambda *_, **__: None)
    rate = facts_of(Receipt(signed)).hyper_parameters[0]
    assert str(rate) == "0.5 at first, 0.5 at last, from 0.25 to 0.75"


@pytest.mark.parametrize("scalars", [True, False])
def test_the_inputs_are_opened_once_or_not_at_all(signed: Path, monkeypatch: pytest.MonkeyPatch, scalars: bool) -> None:
    receipt = Receipt(signed)
    opened = []

    def opens(path: Path) -> BinaryIO:
        opened.append(path)
        return open_regular(path)

    monkeypatch.setattr("repro_mlir.verification.exports.facts.open_regular", opens)
    monkeypatch.setattr("repro_mlir.verification.exports.facts.check_consistency", lambda *_, **__: None)
    monkeypatch.setattr("repro_mlir.verification.exports.facts._file", lambda *_: None)
    if not scalars:
        # The signature of a program without hyper-parameters has only tensors of the batch.
        programs = [
            dataclasses.replace(each, signature=dataclasses.replace(each.signature, num_hyper_parameters=0))
            for each in receipt.header.programs
        ]
        assert receipt.log.records
        receipt.__dict__["header"] = dataclasses.replace(receipt.header, programs=tuple(programs))
    found = facts_of(receipt).hyper_parameters
    assert opened == ([receipt.inputs_path] if scalars else []) and bool(found) == scalars


def without_batches(path: Path) -> Path:
    """Changes a receipt that stores its batches into an unsigned one that stores only the hyper-parameters."""
    receipt = Receipt(path)
    kept = b""
    for number in (number for number in range(1, receipt.log.records + 1) if receipt.log[number].program is not None):
        program = receipt.log[number].program
        assert program is not None
        signature = receipt.header.programs[program].signature
        count = signature.num_hyper_parameters
        kept += StoredInputs(signature.inputs[:count]).encode(receipt.inputs(number)[:count])
    (path / "inputs.bin").write_bytes(kept)
    (path / "receipt.json").write_bytes(dataclasses.replace(receipt.header, stored=False).dump())
    assert receipt.seal is not None
    files = {name: describe_file(path / name) for name in receipt.seal.files}
    (path / "seal.json").write_bytes(dataclasses.replace(receipt.seal, files=files, signature=None).dump())
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_batches_that_are_not_stored(export: Callable[..., bytes], signed: Path, copied: Path, name: str) -> None:
    with_batches = facts_of(Receipt(signed))
    facts = facts_of(Receipt(without_batches(copied)))
    assert (facts.data_hash, facts.batches) == (with_batches.data_hash, with_batches.batches)
    assert facts.hyper_parameters == with_batches.hyper_parameters and not facts.header.stored
    data = export(copied, name)
    if name == "page":
        assert b"not in the receipt; their hashes are" in data
    if name == "cyclonedx":
        assert b'{"name":"repro-mlir:stored","value":"false"}' in data


def test_the_commands_of_the_page(tmp_path: Path, signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines for bills of materials work as they are pasted."""
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    page = Path(__file__).resolve().parents[4] / "docs" / "verification" / "exports.md"
    lines = re.findall(r"^    (.*repro attest run\.receipt --format (?:spdx|cyclonedx) .*)$", page.read_text(), re.M)
    assert len(lines) == 2
    (tmp_path / "run.receipt").symlink_to(signed)
    function = f'repro() {{ {shlex.quote(sys.executable)} -m repro_mlir "$@"; }}'
    subprocess.run(["bash", "-ec", "\n".join([function, *lines])], cwd=tmp_path, check=True, capture_output=True)
    for name in ("run.spdx.json", "run.cdx.json"):
        assert json.loads((tmp_path / name).read_text())
