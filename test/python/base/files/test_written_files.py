# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Output files replace old ones only when they are complete, and never overwrite an input."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest
from repro_mlir import ReproError
from repro_mlir.base.command_line import run_command
from repro_mlir.base.files.storage import check_can_write, write_file


def test_a_former_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    write_file(path, b"first")
    path.chmod(0o640)
    link.symlink_to(path)
    write_file(link, b"second")
    assert link.is_symlink() and path.read_bytes() == b"second" and path.stat().st_mode & 0o777 == 0o640
    write_file(os.devnull, b"gone")
    with pytest.raises(ReproError, match=r"cannot write .*: Is a directory"):
        write_file(tmp_path, b"")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "link"]


def test_writability_is_checked_before_the_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "new")
    for path in (tmp_path / "file", tmp_path / "new", tmp_path / "link", os.devnull):
        check_can_write(path)
        write_file(path, b"x")
    (tmp_path / "nowhere").symlink_to(tmp_path / "none" / "file")
    for name, reason in (
        ("none/file", "No such file or directory"),
        ("nowhere", "No such file or directory"),
        ("file/file", "Not a directory"),
        (".", "Is a directory"),
    ):
        with pytest.raises(ReproError, match=f"cannot write .*: {reason}"):
            check_can_write(tmp_path / name)
        with pytest.raises(ReproError, match="cannot write"):
            write_file(tmp_path / name, b"x")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "link", "new", "nowhere"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such files on this system")
def test_files_that_look_as_if_they_could_be_written() -> None:
    for path in ("/dev/full", "/proc/new"):
        with pytest.raises(ReproError, match=f"cannot write {path}: No "):
            check_can_write(path)


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of the shell")
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """Limits the size of files, so that writing fails as on a full disk."""
    path = tmp_path / "file"
    path.write_bytes(b"precious")
    program = f"""
import resource
from repro_mlir.base.files.storage import write_file
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
write_file({str(path)!r}, bytes(5000))
"""
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    assert "ReproError: cannot write" in done.stderr and path.read_bytes() == b"precious"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_an_output_that_is_an_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key, receipt, link = tmp_path / "key.pem", tmp_path / "run.receipt", tmp_path / "link"
    receipt.mkdir()
    link.symlink_to(receipt)
    for path in (key, receipt / "receipt.json", receipt / "steps.jsonl"):
        path.write_bytes(b"{}")
    cases = [
        ({"sign": key, "output": key}, True),
        ({"sign": key, "output": receipt / ".." / "key.pem"}, True),
        ({"receipt": receipt, "output": receipt / "envelope.json"}, True),
        ({"receipt": link, "output": receipt / "checkpoints" / "0.safetensors"}, True),
        ({"receipt": receipt, "output": link / "envelope.json"}, True),
        ({"runs": [receipt, key], "html": key}, True),
        ({"state": key, "save": key}, False),
        ({"state": key, "output": key}, True),
        ({"receipt": receipt, "sign": key, "output": tmp_path / "envelope.json"}, False),
        ({"target": f"cores:{key}", "save": key}, True),
        ({"target_of": f"0=cpu,1=cores:{key}", "save": key}, True),
        ({"recipes": f"bf16,{key}", "html": key}, True),
        ({"target": f"cores:{key}", "save": tmp_path / "cores"}, False),
        ({"output": receipt, "receipt": key}, True),
        ({"folder": tmp_path, "output": tmp_path / "other"}, False),
        ({"save": "/dev/null", "outputs": "/dev/null"}, False),
    ]
    for given, is_refused in cases:
        options = argparse.Namespace(
            **{name: [*map(str, value)] if isinstance(value, list) else str(value) for name, value in given.items()}
        )
        status = run_command("repro", lambda options=options: options, lambda _: 0)
        assert status == (2 if is_refused else 0), given
        said = capsys.readouterr().err
        assert ("but this overwrites" in said or "is a receipt, which another file" in said) == is_refused
    both = argparse.Namespace(save=str(tmp_path / "both"), outputs=str(link / ".." / "both"))
    assert run_command("repro", lambda: both, lambda _: 0) == 2
    assert "both: expected one output in this file, got 2" in capsys.readouterr().err
