# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Zip files from outside: a small file takes little memory, and each member must have its declared name and size."""

import os
import struct
import tracemalloc
import warnings
import zipfile
import zlib
from pathlib import Path

import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.archive import member_names, read_archive

WHAT = "a box"


def known(name: str) -> bool:
    return name in ("a", "b")


def write(path: Path, members: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(path, "w", method) as archive:
            for name, data in members:
                archive.writestr(name, data)
    return path


def refused(path: Path, message: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ReproError, match=message):
            read_archive(path, known, WHAT)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_members_survive_a_round_trip(tmp_path: Path) -> None:
    path = write(tmp_path / "z", [("b", b"1" * 3_000_000), ("a", b"")])
    assert read_archive(path, known, WHAT) == {"b": b"1" * 3_000_000, "a": b""}
    assert member_names(path) == {"a", "b"}


def test_a_declared_bomb(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "z", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a", "w") as stream:
        for _ in range(300):
            stream.write(bytes(1 << 20))
    refused(tmp_path / "z", r"314,572,800 bytes of members in a file of .* bytes \(at most 268,435,456\)")


def test_a_bomb_that_declares_little(tmp_path: Path) -> None:
    """A member declares ten bytes, but its data would inflate to 300 MB. Only ten bytes are inflated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = b"".join(packer.compress(bytes(1 << 20)) for _ in range(300)) + packer.flush()
    crc = zlib.crc32(bytes(10))
    fields = (20, 0, 8, 0, 0, crc, len(data), 10, 1)
    local = struct.pack("<4sHHHHHIIIHH", b"PK\3\4", *fields, 0) + b"a" + data
    entry = struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 20, *fields, 0, 0, 0, 0, 0, 0) + b"a"
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, len(entry), len(local), 0)
    (tmp_path / "z").write_bytes(local + entry + end)
    tracemalloc.start()
    try:
        found = read_archive(tmp_path / "z", known, WHAT)
        assert found == {"a": bytes(10)} and tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("c", b"")], "expected a box, got an unknown member 'c'"),
        ([("../a", b"")], "unknown member '../a'"),
        ([("/a", b"")], "unknown member"),
        ([("a\x1b[2J", b"")], r"unknown member 'a\\x1b\[2J'"),
        ([("a" * 300, b"")], "unknown member"),
        ([("a", b"1"), ("a", b"2")], "got two members named a"),
        ([(f"n{i}", b"") for i in range(5000)], r"5,000 members \(at most 4,096\)"),
    ],
)
def test_members(tmp_path: Path, members: list[tuple[str, bytes]], message: str) -> None:
    refused(write(tmp_path / "z", members), message)


def test_methods(tmp_path: Path) -> None:
    refused(
        write(tmp_path / "z", [("a", b"1")], zipfile.ZIP_BZIP2), "member a encrypted or compressed by another method"
    )
    refused(
        write(tmp_path / "z", [("a", b"1")], zipfile.ZIP_LZMA), "member a encrypted or compressed by another method"
    )


@pytest.mark.parametrize("wide", [False, True])
def test_a_directory_without_bounds(tmp_path: Path, wide: bool) -> None:
    """The zip's central directory is huge. The file is refused before zipfile reads the whole directory into memory."""
    size = 1 << 30
    end64 = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, size, 0)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, size, 1)
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, 46 if wide else size, 0, 0)
    with open(tmp_path / "z", "wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write((end64 + locator if wide else b"") + end)
    refused(tmp_path / "z", "expected a zip directory of at most 4,194,304 bytes, got 1,073,741,824")
    assert member_names(tmp_path / "z") == set()


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\5\6", b"PK\5\6" + bytes(18), os.urandom(1000), b"x" * 100_000])
def test_no_zip(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "z").write_bytes(data)
    if data == b"PK\5\6" + bytes(18):
        assert read_archive(tmp_path / "z", known, WHAT) == {}
    else:
        refused(tmp_path / "z", "expected a box, got a damaged or different file")


def test_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero"), tmp_path / "none"):
        refused(path, "expected a regular file|No such file")


def test_damage_of_every_byte(tmp_path: Path) -> None:
    """Changing any byte either leaves the members unchanged or causes one clear error."""
    data = write(tmp_path / "z", [("a", b"some text, some text"), ("b", b"more")]).read_bytes()
    for at in range(len(data)):
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[at] ^= change
            (tmp_path / "z").write_bytes(damaged)
            try:
                found = read_archive(tmp_path / "z", known, WHAT)
            except ReproError:
                continue
            assert set(found.values()) <= {b"some text, some text", b"more"}
