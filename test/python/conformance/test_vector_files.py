# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The files of conformance vectors: two runs write the same bytes, readers in C and Python read them, and damaged files
are refused."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.cli.main import main
from repro_mlir.conformance.catalogue import catalogue
from repro_mlir.conformance.folder import read_vectors, write_vectors
from repro_mlir.conformance.group import Group

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "vectors"

VERSION_1 = "816b39204c20ac28b79c6e4603d105382fd14e6d8a15fe5ea603cf17c813ef82"
"""The SHA-256 of vectors.json, which has the hashes of all other files. Vectors that change get a new version."""


@pytest.fixture(scope="module")
def groups() -> list[Group]:
    return list(catalogue())


@pytest.fixture(scope="module")
def folder(groups: list[Group], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vectors") / "written"
    write_vectors(path, groups)
    return path


def test_the_bytes_of_version_1(folder: Path) -> None:
    assert hashlib.sha256((folder / "vectors.json").read_bytes()).hexdigest() == VERSION_1
    assert sum(file.stat().st_size for file in folder.iterdir()) < 4 << 20


def test_groups_are_read_as_they_were_written(folder: Path, groups: list[Group]) -> None:
    read = read_vectors(folder)
    assert [each.name for each in read] == [each.name for each in groups] and len({each.name for each in read}) == 255
    for got, want in zip(read, groups, strict=True):
        assert (got.operation, got.parameters, got.kind_names) == (want.operation, want.parameters, want.kind_names)
        for mine, theirs in ((got.inputs, want.inputs), (got.outputs, want.outputs)):
            assert {name: array.format for name, array in mine.items()} == {n: a.format for n, a in theirs.items()}
            for name, array in theirs.items():
                assert mine[name].values.dtype == array.values.dtype
                assert mine[name].values.tobytes() == array.values.tobytes()


def test_the_reader_in_python(folder: Path, groups: list[Group], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import read_vectors as example

    for got, want in zip(example.read_vectors(folder), groups, strict=True):
        for name, array in {**want.inputs, **want.outputs}.items():
            assert got["arrays"][name].astype(array.values.dtype).tobytes() == array.values.tobytes()
    said = subprocess.run([sys.executable, EXAMPLES / "read_vectors.py", folder], capture_output=True, text=True)
    assert said.stdout.endswith("bfloat16: 4286 of 4286 cases right\n"), said.stderr
    assert len((EXAMPLES / "read_vectors.py").read_text().splitlines()) <= 100


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the compiled reader in C."""
    compiler = shutil.which("cc") or shutil.which("clang") or sysconfig.get_config_var("CC")
    source, program = EXAMPLES / "read_vectors.c", tmp_path_factory.mktemp("reader") / "read_vectors"
    subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", source, "-lm", "-o", program], check=True)
    assert len(source.read_text().splitlines()) <= 100
    return program


def test_the_reader_in_c(folder: Path, reader: Path) -> None:
    said = subprocess.run([reader, folder], capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (0, "255 groups; bfloat16: 4286 of 4286 right\n")


def replaced(old: str, new: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        text = (folder / "vectors.json").read_text()
        assert old in text
        (folder / "vectors.json").write_text(text.replace(old, new))

    return damage


def short_operands(folder: Path) -> None:
    """Gives the operands of the conversion to bfloat16 one element, with the right hash."""
    lines = (folder / "vectors.json").read_text().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if '"name": "round/bf16/rne/overflow"' in line) + 1
    at = next(i for i in range(at, len(lines)) if '"name": "x"' in lines[i])
    record = json.loads(lines[at].rstrip(",\n"))
    (folder / "short.bin").write_bytes(bytes(4))
    record |= {"file": "short.bin", "bytes": 4, "sha256": hashlib.sha256(bytes(4)).hexdigest()}
    (folder / "vectors.json").write_text("".join([*lines[:at], f"{json.dumps(record)},\n", *lines[at + 1 :]]))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: change_byte(folder / "fold.sum.8193.x.bin"), "fold.sum.8193.x.bin: the file is missing or dam"),
        (lambda folder: (folder / "vectors.json").unlink(), "expected form version 1"),
        (replaced('"form_version": 1', '"form_version": 2'), "expected form version 1"),
        (replaced('"form": "repro-vectors"', '"form": "other"'), "expected form version 1"),
        (replaced(', "sha256": "', ', "sha255": "'), "an array is damaged"),
        (replaced('"bytes": ', '"bytes": -'), "the file is missing or damaged"),
        (replaced('"bytes": ', '"bytes": 99999999999999999999'), "the file is missing or damaged"),
        (replaced('"file": "', '"file": "../'), "an array is damaged"),
        (replaced('"name": "x"', '"name": "y"'), "expected bfloat16 codes, and an end"),
        (replaced("\n]}\n]}\n", "\n]}"), "expected bfloat16 codes, and an end"),
        (short_operands, "expected bfloat16 codes, and an end"),
    ],
)
def test_the_reader_in_c_refuses_damaged_folders(
    folder: Path, reader: Path, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    damaged = copy(folder, tmp_path / "damaged")
    damage(damaged)
    said = subprocess.run([reader, damaged], capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (1, "") and message in said.stderr, said


def copy(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to))


def change_byte(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def changed(change: Callable[[dict], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        listed = json.loads((folder / "vectors.json").read_text())
        change(listed)
        (folder / "vectors.json").write_text(json.dumps(listed))

    return damage


def of_array(key: str, value: object) -> Callable[[Path], None]:
    return changed(lambda listed: listed["groups"][0]["arrays"][1].__setitem__(key, value))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "vectors.json").unlink(), "cannot read .*vectors.json: No such file"),
        (lambda folder: (folder / "vectors.json").write_text("{"), "expected JSON"),
        (changed(lambda listed: listed.update(form="other")), "expected 'repro-vectors', got 'other'"),
        (changed(lambda listed: listed.update(form_version=2)), "expected a whole number from 1 to 1, got 2"),
        (changed(lambda listed: listed["groups"][0].pop("kinds")), "expected the key 'kinds', which is missing"),
        (changed(lambda listed: listed["groups"][0].update(kinds=[])), "a number below 0 for each case"),
        (changed(lambda listed: listed["groups"][0].update(open_kinds=["x"])), "expected open_kinds among code"),
        (changed(lambda listed: listed["groups"][0].update(cases=0)), "expected a whole number from 1 to"),
        (changed(lambda listed: listed["groups"][0].update(cases=255)), "expected 255 cases in each array"),
        (lambda folder: change_byte(folder / "decode.f8E5M2.values.bin"), "the file was changed"),
        (lambda folder: (folder / "decode.f8E5M2.values.bin").unlink(), "cannot read .*: No such file"),
        (of_array("file", "../secret"), "expected the name of a file in the folder, got '../secret'"),
        (of_array("dtype", "object"), "expected 'uint8' or"),
        (of_array("role", "kinds"), "expected an output and one array of kinds"),
        (of_array("name", "values"), "expected one array values, got two"),
        (changed(lambda listed: listed["groups"][0]["arrays"].pop()), "expected an output and one array of kinds"),
        (of_array("shape", [257]), r"expected uint8 elements of shape \(257,\) in 256 bytes"),
        (of_array("shape", [1 << 40]), "expected a whole number from 1 to 67108864"),
        (of_array("bytes", 1 << 40), "expected a whole number from 1 to 67108864"),
    ],
)
def test_damaged_folders(folder: Path, tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    copied = copy(folder, tmp_path / "damaged")
    damage(copied)
    with pytest.raises(ReproError, match=message):
        read_vectors(copied)


def test_writing_again(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = tmp_path / "again"
    assert main(["vectors", "write", "-o", str(again)]) == 0
    assert "vectors  version 1, 138,364 cases in 255 groups" in capsys.readouterr().out
    assert sorted(each.name for each in again.iterdir()) == sorted(each.name for each in folder.iterdir())
    assert all((folder / each.name).read_bytes() == each.read_bytes() for each in again.iterdir())
    assert main(["vectors", "write", "-o", str(again)]) == 2
    assert "expected a new or empty folder, got a folder with files" in capsys.readouterr().err


def test_without_mlir_and_torch(tmp_path: Path) -> None:
    code = f"""
import sys
for name in ("torch", "torch_mlir", "repro_mlir._mlir_libs", "repro_mlir.ir"):
    sys.modules[name] = None
from repro_mlir.cli.main import main
assert main(["vectors", "write", "-o", {str(tmp_path / "vectors")!r}]) == 0
assert main(["vectors", "check", {str(tmp_path / "vectors")!r}, "--library", "reference", "--groups", "decode"]) == 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_little_endian_elements(folder: Path) -> None:
    (group,) = (each for each in read_vectors(folder) if each.name == "philox4x32_10")
    first = (folder / "philox4x32_10.words.bin").read_bytes()[:4]
    assert int.from_bytes(first, "little") == int(group.outputs["words"].values[0, 0]) == np.uint32(0x6627E8D5)
