# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""If a path is not a regular file, every command prints one line, returns status 2, and does not wait."""

import os
import socket
from pathlib import Path

import pytest
from repro_mlir import ReproError
from repro_mlir.base.files.regular import open_regular, read_regular
from repro_mlir.cli.main import main

pytestmark = pytest.mark.timeout(20)


def make(kind: str, path: Path) -> None:
    """Creates a FIFO, device, directory, socket or other object that is not a regular file."""
    path.unlink(missing_ok=True)
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "directory":
        path.mkdir()
    elif kind == "socket":
        # Binds by a relative name, because a socket's path must be short.
        before = os.getcwd()
        os.chdir(path.parent)
        try:
            socket.socket(socket.AF_UNIX).bind(path.name)
        finally:
            os.chdir(before)


@pytest.mark.parametrize("kind", ["FIFO", "device", "directory", "socket"])
def test_only_regular_files_are_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    make(kind, path)
    with pytest.raises(ReproError, match=f"file: expected a regular file, got a .*{kind}"):
        open_regular(path, follow=True)


def test_links_are_followed_where_the_user_gave_the_name(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("there")
    assert read_regular(tmp_path / "link", 3, follow=True) == b"abc"
    with pytest.raises(ReproError, match="link: expected a regular file, got a symbolic link"):
        read_regular(tmp_path / "link", 3)
    with pytest.raises(ReproError, match=r"cannot read .*none: No such file"):
        read_regular(tmp_path / "none", 3)
    with pytest.raises(ReproError, match=r"expected a path"):
        read_regular("a\0b", 3)


def test_size_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abcd")
    # Memory is allocated for the size of the file, not for the limit.
    assert read_regular(path, 4) == read_regular(path, 1 << 60) == b"abcd"
    with pytest.raises(ReproError, match="file: expected at most 3 bytes, got 4"):
        read_regular(path, 3)
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ReproError, match="got 1,099,511,627,776"):
        read_regular(path, 3)


@pytest.mark.parametrize("kind", ["FIFO", "device", "directory"])
@pytest.mark.parametrize("command", [["run"], ["inspect"], ["verify"], ["verify", "--key"], ["diff"]])
@pytest.mark.diagonal
def test_commands_refuse_them(capsys, tmp_path: Path, kind: str, command: list[str]) -> None:
    path = tmp_path / "file"
    make(kind, path)
    if "--key" in command:
        pytest.importorskip("cryptography")
        (tmp_path / "receipt").mkdir()
        command = ["verify", str(tmp_path / "receipt"), "--key"]
    assert main([*command, str(path), *([str(path)] if command == ["diff"] else [])]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("repro: error: ") and captured.err.count("\n") == 1
