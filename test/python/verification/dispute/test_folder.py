# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Disputes through files in a folder: a party reads only regular files of the right size, and follows no links."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from pathlib import Path

import pytest
from adversary import cheats, honest
from repro_mlir.base.errors import ReproError
from repro_mlir.verification.dispute import FileChannel, LocalChannel, Prover, serve_files, settle


def place(path: Path, kind: str) -> None:
    """Creates a FIFO, link, socket or other object that is not a regular file at a path."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "zero":
        path.symlink_to("/dev/zero")
    elif kind == "link":
        path.with_name("other").write_bytes(b"{}")
        path.symlink_to(path.with_name("other"))
    elif kind == "nowhere":
        path.symlink_to(path.with_name("nowhere"))
    elif kind == "directory":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    elif kind == "huge":
        with open(path, "wb") as file:
            file.truncate(1 << 40)


KINDS = ("fifo", "zero", "link", "nowhere", "directory", "socket", "huge")


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_is_not_a_file(tmp_path: Path, kind: str) -> None:
    channel = FileChannel(tmp_path)
    place(tmp_path / "answer-1.json", kind)
    begin = time.monotonic()
    verdict = settle(LocalChannel(Prover(honest())), channel, timeout=5)
    assert (verdict.outcome, verdict.wrong) == ("conduct", ("B",)) and time.monotonic() - begin < 4
    assert "answer-1.json: expected" in verdict.reasons["B"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_question_that_is_not_a_file(tmp_path: Path, kind: str) -> None:
    place(tmp_path / "question-1.json", kind)
    with pytest.raises(ReproError, match=r"question-1.json: expected"):
        serve_files(honest(), tmp_path, 1)


def test_names_that_are_taken(tmp_path: Path) -> None:
    """A link with the name of the next message's file must not make a party write to the link's target."""
    channel = FileChannel(tmp_path)
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    for name in ("question-1.partial", "answer-1.partial"):
        (tmp_path / name).symlink_to(victim)
    prover = threading.Thread(target=serve_files, args=(cheats()[0], tmp_path, 0.5), daemon=True)
    prover.start()
    assert settle(LocalChannel(Prover(honest())), channel, timeout=20).outcome == "operator"
    prover.join(10)
    assert not prover.is_alive() and victim.read_bytes() == b"precious"


def test_a_prover_ends_with_the_dispute(tmp_path: Path) -> None:
    channel = FileChannel(tmp_path)
    prover = threading.Thread(target=serve_files, args=(cheats()[0], tmp_path, 600), daemon=True)
    prover.start()
    assert settle(LocalChannel(Prover(honest())), channel, timeout=20).outcome == "operator"
    prover.join(10)
    assert not prover.is_alive() and (tmp_path / "ended").read_bytes() == b""


@pytest.mark.parametrize("name", ["answer-1.json", "ended"])
def test_messages_of_another_dispute(tmp_path: Path, name: str) -> None:
    """A folder with messages of an earlier dispute is refused by referee and prover."""
    (tmp_path / name).write_bytes(b'{"error":"an old one"}')
    with pytest.raises(ReproError, match="messages of another dispute"):
        FileChannel(tmp_path)
    with pytest.raises(ReproError, match="messages of another dispute"):
        serve_files(honest(), tmp_path, 1)


def test_a_folder_that_others_can_write_to(tmp_path: Path) -> None:
    for mode in (0o777, 0o770, 0o702):
        os.chmod(tmp_path, mode)
        with pytest.raises(ReproError, match="you own and only you can write to"):
            FileChannel(tmp_path)
        with pytest.raises(ReproError, match="you own and only you can write to"):
            serve_files(honest(), tmp_path, 1)
    with pytest.raises(ReproError, match="expected a folder"):
        FileChannel(tmp_path / "none")


def test_a_shortage_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the referee has no file descriptors left, it raises an error and blames neither party."""
    channel = FileChannel(tmp_path)
    (tmp_path / "answer-1.json").write_bytes(b"{}")
    opened = os.open

    def refuse(path: str | Path, *arguments: int, **named: int) -> int:
        if str(path).endswith("answer-1.json"):
            raise OSError(errno.EMFILE, "Too many open files", str(path))
        return opened(path, *arguments, **named)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ReproError, match=r"no verdict: cannot judge B's answer .*Too many open files"):
        settle(LocalChannel(Prover(honest())), channel, timeout=5)
