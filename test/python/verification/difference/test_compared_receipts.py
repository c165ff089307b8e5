# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Answers of `repro diff`, `dispute` and `verify` about receipts name what was compared, and with what."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from repro_mlir.cli import main as cli
from repro_mlir.verification.receipts.form import HEADER, INPUTS, SEAL, STEPS

FULL = Path(__file__).resolve().parents[3] / "data" / "compatibility" / "signed.receipt"

Told = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    def run(*arguments: object) -> tuple[int, list[str]]:
        status = cli.main([*map(str, arguments)])
        return status, capsys.readouterr().out.splitlines()

    return run


def cut(path: Path, records: Sequence[int]) -> Path:
    """Copies the receipt of five steps, with a change after the third, without the end of its run: only with the
    records of the numbers `records`."""
    shutil.copytree(FULL, path)
    lines = (path / STEPS).read_bytes().splitlines(keepends=True)
    (path / STEPS).write_bytes(b"".join(lines[number - 1] for number in records))
    (path / SEAL).unlink()
    return path


def test_a_run_and_its_beginning(tmp_path: Path, told: Told) -> None:
    short = cut(tmp_path / "short", range(1, 6))
    for pair, steps, note in (
        ((FULL, short), [5, 4], f"the first 4 steps are equal; {FULL} has 5 steps, {short} has 4 steps"),
        ((short, FULL), [4, 5], f"the first 4 steps are equal; {short} has 4 steps, {FULL} has 5 steps"),
    ):
        assert told("diff", *pair) == (
            1,
            [f"first    {pair[0]}", f"second   {pair[1]}", "step     5", f"note     {note}"],
        )
        status, (line,) = told("diff", *pair, "--json")
        found = json.loads(line)
        assert status == 1 and found["equal"] is False and found["note"] == note
        assert (found["step"], found["steps"], found["changes"]) == (5, steps, [1, 1])


def test_a_change_after_the_last_step(tmp_path: Path, told: Told) -> None:
    pair = cut(tmp_path / "changed", range(1, 5)), cut(tmp_path / "unchanged", range(1, 4))
    status, lines = told("diff", *pair)
    counts = f"{pair[0]} has 3 steps and 1 change of the state, {pair[1]} has 3 steps and 0 changes of the state"
    assert (status, lines[2:]) == (1, ["after    step 3", f"note     the first 3 steps are equal; {counts}"])
    status, lines = told("dispute", *pair)
    assert (status, lines[1]) == (3, "about    only A changes the state after step 3, which is the last one of both")
    assert "about    the first 3 steps agree; B has more" in told("dispute", pair[0], FULL)[1]


def test_what_is_not_compared_is_named(tmp_path: Path, told: Told) -> None:
    status, lines = told("diff", FULL, FULL)
    assert (status, lines[0]) == (0, "no difference") and len(lines) == 2
    assert "run repro verify on each receipt, too" in lines[1] and "differ in" not in lines[1]
    open_end = cut(tmp_path / "open", range(1, 7))
    header = json.loads((open_end / HEADER).read_text())
    header["environment"] = header["environment"] | {"threads": "77"}
    header["checkpoint_every"] += 1
    (open_end / HEADER).write_text(json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
    for pair in ((FULL, open_end), (open_end, FULL)):
        status, (line,) = told("diff", *pair, "--json")
        found = json.loads(line)
        assert status == 0 and found["equal"] is True
        for place in ("environment", "checkpoint_every", "the end of the run", "the signature"):
            assert place in found["note"].partition("the receipts differ in")[2], found


def test_differing_files_are_not_called_equal(tmp_path: Path, told: Told) -> None:
    """The note says plainly that files and the seal were not compared, whichever of them differs."""
    program = next((FULL / "programs").iterdir())
    for number, name in enumerate((Path("checkpoints/6.safetensors"), program.relative_to(FULL), Path(SEAL))):
        other = tmp_path / str(number)
        shutil.copytree(FULL, other)
        if name == Path(SEAL):
            seal = json.loads((other / SEAL).read_text()) | {"steps": 300}
            (other / SEAL).write_text(json.dumps(seal, sort_keys=True, separators=(",", ":")))
        else:
            data = (other / name).read_bytes()
            (other / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        status, lines = told("diff", FULL, other)
        assert (status, lines[0]) == (0, "no difference")
        assert "not compared: the files with kept states, programs, changes and inputs, and seal.json" in lines[1]
        assert ("the receipts differ in steps, chain or state_hash of seal.json;" in lines[1]) == (name == Path(SEAL))
        assert told("verify", other, "--target", "reference")[0] == 1


def test_other_signatures_and_missing_files(tmp_path: Path, told: Told, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    shutil.copytree(FULL, other)
    header = json.loads((other / HEADER).read_text())
    count = header["programs"][0]["num_hyper_parameters"]
    header["programs"][0]["num_hyper_parameters"] = count + 1
    (other / HEADER).write_text(json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
    note = f"num_hyper_parameters of step 1 is {count} in {FULL}, and {count + 1} in {other}"
    assert told("diff", FULL, other) == (1, [f"first    {FULL}", f"second   {other}", "step     1", f"note     {note}"])
    (change,) = (other / "changes").iterdir()
    change.unlink()
    assert cli.main(["diff", str(FULL), str(other)]) == 2
    assert f"{other}: changes/{change.name}: the receipt does not have this file" in capsys.readouterr().err


def test_an_error_names_the_wrong_receipt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    shutil.copytree(FULL, other)
    data = (other / "checkpoints/0.safetensors").read_bytes()
    (other / "checkpoints/0.safetensors").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    lines = (other / STEPS).read_text().splitlines(keepends=True)
    loss = json.loads(lines[0])["outputs"][0]
    (other / STEPS).write_text("".join([lines[0].replace(loss, "0" * 64), *lines[1:]]))
    assert cli.main(["diff", str(FULL), str(other), "--targets", "reference"]) == 2
    assert f"{other}: checkpoints/0.safetensors: not the initial state" in capsys.readouterr().err


def test_seals_of_different_files(tmp_path: Path, told: Told) -> None:
    other = tmp_path / "other"
    shutil.copytree(FULL, other)
    seal = json.loads((other / SEAL).read_text())
    seal["files"]["checkpoints/6.safetensors"]["blake3"] = "ab" * 32
    (other / SEAL).write_text(json.dumps(seal, sort_keys=True, separators=(",", ":")))
    assert "the receipts differ in the hashes of files in seal.json; run" in told("diff", FULL, other)[1][1]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown(tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows the steps that are run again, and the operators of the step that differs."""
    other = tmp_path / "other"
    shutil.copytree(FULL, other)
    lines = (other / STEPS).read_text().splitlines(keepends=True)
    loss = json.loads(lines[4])["outputs"][0]
    (other / STEPS).write_text("".join([*lines[:4], lines[4].replace(loss, "0" * 64), lines[5]]))
    monkeypatch.setattr(sys, "stderr", _Terminal())
    assert told("diff", FULL, other, "--targets", "reference")[0] == 1
    shown = sys.stderr.getvalue()
    for label in (f"{FULL}: running on reference", f"{other}: running on reference", "operators on reference"):
        assert f"{label} [" in shown, shown
    # Both receipts are run operator by operator at the same time, with one line.
    assert shown.count("\n") == 5 and "change after step 3" in shown, shown


def test_one_receipt_is_not_enough(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diff", str(FULL)]) == 2
    message = f"repro: error: {FULL}: expected two receipts or one Python script, got one receipt: name another\n"
    assert capsys.readouterr().err == message


def test_disputes_say_that_files_are_unchecked(tmp_path: Path, told: Told) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(FULL, damaged)
    data = bytearray((damaged / INPUTS).read_bytes())
    data[-1] ^= 1
    (damaged / INPUTS).write_bytes(data)
    note = "only the commitments were compared; run repro verify on each receipt, too"
    short = cut(tmp_path / "short", range(1, 6))
    for other, status, outcome in ((damaged, 0, "agreement"), (short, 3, "length")):
        found, lines = told("dispute", FULL, other, "--evidence", tmp_path / "evidence")
        assert found == status and f"note     {note}" in lines
        assert lines[-1] == "evidence none: no operator is disputed, so nothing was written"
        assert not (tmp_path / "evidence").exists()
        found, (line,) = told("dispute", FULL, other, "--json")
        verdict = json.loads(line)
        assert (found, verdict["outcome"], verdict["note"], verdict["evidence"]) == (status, outcome, note, None)


def test_what_was_given_and_what_the_receipt_has(tmp_path: Path, told: Told) -> None:
    key = tmp_path / "key.pem"
    public = Ed25519PrivateKey.from_private_bytes(b"k" * 32).public_key()
    key.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    seal = json.loads((FULL / SEAL).read_text())
    for arguments, given, receipt in (
        (("--key", key), public.public_bytes_raw().hex(), seal["signature"]["key"]),
        (("--chain", "ab" * 32), "ab" * 32, seal["chain"]),
    ):
        status, lines = told("verify", FULL, *arguments)
        assert (status, lines[1:]) == (1, [f"given    {given}", f"receipt  {receipt}"])
        status, (line,) = told("verify", FULL, *arguments, "--json")
        found = json.loads(line)
        assert (status, found["expected"], found["actual"]) == (1, given, receipt)


def test_other_declarations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    shutil.copytree(FULL, other)
    header = json.loads((other / HEADER).read_text())
    header["run"]["nonfinite_loss"] = "stop"
    (other / HEADER).write_text(json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
    assert cli.main(["diff", str(FULL), str(other)]) == 2
    message = capsys.readouterr().err
    assert "runs with equal declarations, got run.nonfinite_loss warn and stop: choose" in message, message
