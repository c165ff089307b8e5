# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""`repro inspect` of finished, unfinished and hostile receipts."""

import json
import shutil
from pathlib import Path

import pytest
from repro_mlir import Receipt
from repro_mlir.base.errors import ReceiptWrong
from repro_mlir.cli.main import main
from repro_mlir.verification.receipts.form import SEAL
from repro_mlir.verification.receipts.signing import PrivateKey
from repro_mlir.verification.receipts.summary import summarize


@pytest.fixture
def receipt(folder: Path, tmp_path: Path) -> Path:
    """Returns a copy of an honest receipt."""
    shutil.copytree(folder / "honest", tmp_path / "r")
    return tmp_path / "r"


def test_inspect_reports_the_receipt(capsys, receipt: Path) -> None:
    opened = Receipt(receipt)
    assert main(["inspect", str(receipt), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["programs"] == {opened.program.hash: 8}
    assert (report["steps"], report["changes"], report["batches"], report["stored"]) == (8, 0, 8, True)
    assert report["checkpoints"] == [0, 3, 6, 8]
    assert report["finished"] and report["state_hash"] == opened.seal.state_hash
    assert report["chain"] == opened.seal.chain.hex() and report["signed_by"] is None
    assert report["environment"]["target"] == "reference"
    assert report["files"] == len([path for path in receipt.rglob("*") if path.is_file()])
    assert report["bytes"] == sum(path.stat().st_size for path in receipt.rglob("*") if path.is_file())
    assert report["state_elements"] == sum(array.size for array in opened.program.initial)
    assert len(report["losses"]) == 2
    assert main(["inspect", str(receipt)]) == 0
    shown = capsys.readouterr().out
    for part in (f"program  {opened.program.hash} (8 steps)", "ended    yes", "signed   no", "target: reference"):
        assert part in shown
    assert main(["inspect", str(receipt), "--text"]) == 0
    assert "func.func @main" in capsys.readouterr().out


def test_a_run_that_has_not_ended(capsys, receipt: Path) -> None:
    (receipt / SEAL).unlink()
    steps = receipt / "steps.jsonl"
    steps.write_bytes(b"".join(steps.read_bytes().splitlines(keepends=True)[:4]) + b'{"chain":')
    summary = summarize(Receipt(receipt))
    assert (summary.finished, summary.steps, summary.state_hash) == (False, 4, None)
    assert main(["inspect", str(receipt)]) == 0
    assert "ended    no: the run can be resumed" in capsys.readouterr().out
    steps.write_bytes(b"")
    assert summarize(Receipt(receipt)).chain == Receipt(receipt).header.first_link().hex()


def test_signatures_are_checked(capsys, receipt: Path, tmp_path: Path) -> None:
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    from cryptography.hazmat.primitives.asymmetric import ed25519

    def key(name: str) -> ed25519.Ed25519PrivateKey:
        made = ed25519.Ed25519PrivateKey.generate()
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        (tmp_path / name).write_bytes(made.private_bytes(serialization.Encoding.PEM, *form))
        public = made.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (tmp_path / f"{name}.pub").write_bytes(public)
        return made

    signer = key("signer")
    key("other")
    seal = Receipt(receipt).seal
    public, signature = PrivateKey(tmp_path / "signer").sign(seal.signed_bytes())
    object.__setattr__(seal, "signature", (public, signature))
    (receipt / SEAL).write_bytes(seal.dump())
    assert summarize(Receipt(receipt)).signed_by == signer.public_key().public_bytes_raw().hex()
    assert main(["inspect", str(receipt), "--key", str(tmp_path / "signer.pub")]) == 0
    assert f"signed   by {public.hex()}" in capsys.readouterr().out
    assert main(["inspect", str(receipt), "--key", str(tmp_path / "other.pub")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "WRONG    seal.json: signed by another key than the given one: the given key is not the author's" in lines[0]
    assert "give the path" not in lines[0] and [line[:8] for line in lines[1:]] == ["given   ", "receipt "]
    object.__setattr__(seal, "signature", (public, bytes(64)))
    (receipt / SEAL).write_bytes(seal.dump())
    with pytest.raises(ReceiptWrong, match=r"the signature by .* is invalid"):
        summarize(Receipt(receipt))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("receipt.json", b"{}", "receipt.json"),
        ("receipt.json", b"[" * 100_000, "receipt.json"),
        ("seal.json", b"null", "seal.json"),
        ("steps.jsonl", b'{"step":1}\n', "steps.jsonl, line 1"),
    ],
)
def test_damaged_receipts_are_one_error(capsys, receipt: Path, name: str, content: bytes, message: str) -> None:
    (receipt / name).write_bytes(content)
    assert main(["inspect", str(receipt)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and message in captured.err and len(captured.err.splitlines()) == 1


def test_texts_of_strangers_stay_in_their_lines(capsys, receipt: Path) -> None:
    header = receipt / "receipt.json"
    header.write_bytes(header.read_bytes().replace(b'"target":"reference"', b'"target":"\\u001b[2J\\nsigned   by me"'))
    assert main(["inspect", str(receipt)]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "\nsigned   by me" not in shown


def test_a_folder_that_is_not_a_receipt(capsys, tmp_path: Path) -> None:
    assert main(["inspect", str(tmp_path)]) == 2
    assert "a directory with a file receipt.json, got a directory without it" in capsys.readouterr().err
