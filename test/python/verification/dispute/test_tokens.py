# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reading the token of a dispute from files and environment variables; tokens that are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.verification.dispute import read_token, token_of_environment


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_bytes(b" \t0123456789abcdef \r\n")
    assert read_token(path) == b"0123456789abcdef"
    for content in (b"", b"short\n", b"x" * 1025, b" " * 5000):
        path.write_bytes(content)
        with pytest.raises(ReproError, match="expected a token of 16 to 1024 bytes"):
            read_token(path)
    path.write_bytes(b"x" * 1024)
    assert len(read_token(path)) == 1024
    for mode in (0o644, 0o640, 0o602):
        os.chmod(path, mode)
        with pytest.raises(ReproError, match="only its owner can read"):
            read_token(path)


def test_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, tmp_path / "none", Path("/dev/zero")):
        with pytest.raises(ReproError):
            read_token(path)


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_TOKEN", raising=False)
    assert token_of_environment("SOME_TOKEN") is None
    monkeypatch.setenv("SOME_TOKEN", "größe" * 4)
    assert token_of_environment("SOME_TOKEN") == ("größe" * 4).encode()
    monkeypatch.setenv("SOME_TOKEN", "short")
    with pytest.raises(ReproError, match="SOME_TOKEN: expected a token of") as error:
        token_of_environment("SOME_TOKEN")
    # The error message must not reveal the refused token, "short".
    assert "short" not in str(error.value)
