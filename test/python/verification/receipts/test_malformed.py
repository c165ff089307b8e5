# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Damaged receipts: each command reports one clear error and prints no traceback."""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forgery import damage, program_path, reseal
from recorded_run import run
from repro_mlir import Receipt, ReproError, compile
from repro_mlir.base.files import canonical_json
from repro_mlir.cli.main import main

FILES = ["receipt.json", "seal.json", "steps.jsonl", "inputs.bin", "checkpoints/0.safetensors"]
VALUES = [None, True, False, 0, -1, 3, 2**53 - 1, "", "x", "0" * 64, "f" * 63, [], {}, [[]], ["a"], {"a": 1}]
# The number of damaged receipts of each type; twice as many of the first type.
COUNT = 250


def damage_bytes(path: Path, draw: random.Random) -> None:
    """Changes, removes, duplicates or inserts a few bytes of a file."""
    file = draw.choice([*(path / name for name in FILES), program_path(path)])
    data = bytearray(file.read_bytes())
    at, size = draw.randrange(len(data)), draw.choice([1, 1, 2, 9, 100])
    kind = draw.randrange(4)
    if kind == 0:
        data[at] ^= draw.randrange(1, 256)
    elif kind == 1:
        del data[at : at + size]
    elif kind == 2:
        data[at:at] = data[at : at + size]
    else:
        data[at:at] = draw.randbytes(size)
    file.write_bytes(bytes(data))


def damage_value(path: Path, draw: random.Random) -> None:
    """Replaces, removes or adds a value in a file that consists of canonical JSON."""
    file = path / draw.choice(FILES[:3])
    lines = file.read_bytes().splitlines()
    index = draw.randrange(len(lines))
    value = json.loads(lines[index])
    damage(value, draw, VALUES)
    lines[index] = canonical_json.dump(value)
    file.write_bytes(b"\n".join(lines) + (b"\n" if file.name == "steps.jsonl" else b""))


def damage_deeply(path: Path, draw: random.Random) -> None:
    """Damages receipt.json as `damage_value` does, and updates the seal, so that verification goes on after comparing
    digests."""
    before = (path / "receipt.json").read_bytes()
    while (path / "receipt.json").read_bytes() == before:
        others = {name: (path / name).read_bytes() for name in FILES[1:3]}
        damage_value(path, draw)
        for name, data in others.items():
            (path / name).write_bytes(data)
    reseal(path)


@pytest.mark.parametrize("harm", [damage_bytes, damage_value, damage_deeply])
def test_damaged_receipts(finished: Path, tmp_path: Path, capsys, harm: Callable[[Path, random.Random], None]) -> None:
    draw = random.Random(7)
    answers: dict[int, int] = {1: 0, 2: 0}
    for number in range(2 * COUNT if harm is damage_bytes else COUNT):
        path = tmp_path / str(number)
        shutil.copytree(finished, path)
        harm(path, draw)
        status = main(["verify", str(path), "--steps", "8", "--threads", "1"])
        captured = capsys.readouterr()
        if status == 0 and harm is damage_deeply:
            # Verification accepts any value in the informational fields: those outside of `run` and `programs`.
            changed, honest = (json.loads((each / "receipt.json").read_bytes()) for each in (path, finished))
            assert changed["run"] == honest["run"] and changed["programs"] == honest["programs"]
            shutil.rmtree(path)
            continue
        assert status in answers, (number, status, captured)
        answers[status] += 1
        if status == 1:
            lines = captured.out.splitlines()
            assert captured.err == "" and lines[0].startswith("WRONG    ") and len(lines) in (1, 3), captured.out
        else:
            assert captured.out == "" and captured.err.startswith("repro: error: ")
            assert captured.err.count("\n") == 1 and len(captured.err) < 600, captured.err
        shutil.rmtree(path)
    assert answers[1] or answers[2]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["FIFO", "device", "directory", "endless file"])
def test_only_regular_files_are_read(finished: Path, tmp_path: Path, capsys, kind: str) -> None:
    for number, name in enumerate([*FILES, "checkpoints/6.safetensors"]):
        path = Path(shutil.copytree(finished, tmp_path / str(number)))
        (path / name).unlink()
        if kind == "FIFO":
            os.mkfifo(path / name)
        elif kind == "device":
            (path / name).symlink_to("/dev/zero")
        elif kind == "directory":
            (path / name).mkdir()
        else:
            with open(path / name, "wb") as file:
                file.truncate(1 << 40)
        if kind != "endless file":
            assert main(["inspect", str(path)]) == 2
            assert f"{name}: expected a regular file, got a " in capsys.readouterr().err
        status = main(["verify", str(path), "--threads", "1"])
        captured = capsys.readouterr()
        if kind == "endless file" and status == 1:
            assert name in captured.out or name == "steps.jsonl", captured
            continue
        assert status == 2 and captured.out == "" and captured.err.count("\n") == 1, (name, captured)
        assert name in captured.err and (kind == "endless file" or "expected a regular file" in captured.err), captured


@pytest.mark.parametrize("name", ["steps.jsonl", "inputs.bin", "receipt.json", "checkpoints/9.safetensors.partial"])
def test_going_on_with_a_receipt_writes_to_no_link(finished: Path, tmp_path: Path, name: str) -> None:
    path, victim = Path(shutil.copytree(finished, tmp_path / "run")), tmp_path / "victim"
    if (path / name).exists():
        os.rename(path / name, victim)
    else:
        victim.write_bytes(b"mine")
    before = victim.read_bytes()
    (path / name).symlink_to(victim)
    source = Receipt(finished)
    if name.endswith(".partial"):
        run(source, compile(source.program, "cpu", 1), path, 9)
    else:
        with pytest.raises(ReproError, match="expected a regular file, got a symbolic link"):
            run(source, compile(source.program, "cpu", 1), path, 9)
    assert victim.read_bytes() == before


def test_a_linked_directory_of_states(finished: Path, tmp_path: Path, capsys) -> None:
    path = Path(shutil.copytree(finished, tmp_path / "run"))
    os.rename(path / "checkpoints", tmp_path / "elsewhere")
    (path / "checkpoints").symlink_to(tmp_path / "elsewhere")
    assert main(["verify", str(path)]) == 2
    assert "checkpoints: expected a directory" in capsys.readouterr().err
    # The path of the receipt itself may be a link, because the user chose it.
    (tmp_path / "link").symlink_to(finished)
    assert main(["verify", str(tmp_path / "link"), "--steps", "8", "--threads", "1"]) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "expected canonical JSON: expecting value at character 1"),
        (b'{"a":[1,{"b":x', r"a\[1\].b: expected canonical JSON: expecting value at character 14"),
        (b'{"a":1.5}', "a: expected canonical JSON: expected a whole number .*, got 1.5"),
        (b'{"a":{"b":1,"b":2}}', "expected canonical JSON: the key 'b' is repeated in one object"),
        (b'{"a":1e3}', "a: expected canonical JSON: expected a whole number .*, got 1e3"),
        (b"[0,NaN]", r"\[1\]: expected canonical JSON: expected a whole number .*, got NaN"),
        (b"9007199254740992", "expected canonical JSON: expected a whole number below 2\\^53"),
        (b'{"a":' + b"9" * 10000 + b"}", "a: expected canonical JSON: expected a whole number below 2\\^53"),
        (b'{"a":"\xff"}', "a: expected canonical JSON: expected UTF-8, got another byte at 7"),
        (b"[" * 100000, "expected JSON nested at most 32 levels deep"),
        (b"[" * 33 + b"]" * 33, "expected JSON nested at most 32 levels deep"),
        (b'["\\\\",' + b'{"a":' * 40, "expected JSON nested at most 32 levels deep"),
        (b'{"a":[' * 16 + b"[]" + b"]}" * 16, "expected JSON nested at most 32 levels deep"),
        (b'"' + b"a" * canonical_json.LIMIT + b'"', "expected at most 16,777,216 bytes of JSON, got 16,777,218"),
        ('{"a":["e\u0301"]}'.encode(), r"a\[0\]: expected canonical JSON: expected text in Unicode"),
        ('{"e\u0301":1}'.encode(), "expected canonical JSON: expected text in Unicode"),
        (b'"\\ud800"', "expected canonical JSON: expected text in Unicode"),
        (b'{"b":1,"a":2}', "expected canonical JSON: expected 'a' at byte 3, got 'b'"),
        (b'{"a":1,"a":1}', "expected canonical JSON: the key 'a' is repeated in one object"),
        (b'{"c":{"a": 1}}', r"c\.a: expected canonical JSON: expected '1' at byte 11, got ' ' \(keys are sorted"),
        (b'{"c]}":[[],{"a": 1}]}', r"c\]}\[1\]\.a: .* at byte 17"),
        (b'"\\u0041"', "expected 'A' at byte 2, got '.*'"),
        (b"1\n", "expected the end at byte 2, got '.*n'"),
    ],
)
def test_canonical_json(text: bytes, message: str) -> None:
    with pytest.raises(ReproError, match=f"here: (.*: )?{message}"):
        canonical_json.load(text, "here")


@pytest.mark.parametrize("value", [1.5, 2**53, {1: 2}, (1,), b"x", {"a": [float("nan")]}, "e\u0301", "\ud800"])
def test_values_without_canonical_json(value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        canonical_json.dump(value)


def test_canonical_json_there_and_back() -> None:
    value = {"b": [None, True, -5, '\u00e9\n"'], "a": {}}
    text = canonical_json.dump(value)
    assert text == b'{"a":{},"b":[null,true,-5,"\xc3\xa9\\n\\""]}'
    assert canonical_json.load(text, "here") == value
    # Brackets within strings do not count as nesting.
    for text in (b"[" * 32 + b"]" * 32, b'["' + b"[{" * 40 + b'"]', b'["\\\\","\\"' + b"[" * 40 + b'"]'):
        assert canonical_json.dump(canonical_json.load(text, "here")) == text
