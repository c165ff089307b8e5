# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs that are killed at any moment and then resumed have the receipt of an uninterrupted run."""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import recorded_run
from receipt_runs import same_files
from repro_mlir import Receipt, ReproError, compile
from repro_mlir.base.files import storage

KILLS = 15
STEPS, LONG = 16, 150


class Killed(BaseException):
    """Raised instead of killing the process."""


class Fuse:
    """Counts the moments at which the recorder changes files, and raises `Killed` after `moments` of them."""

    def __init__(self, moments: int) -> None:
        self._left = moments

    def burn(self) -> None:
        """Counts a moment; raises `Killed` if `moments` of them have passed."""
        self._left -= 1
        if self._left < 0:
            raise Killed


def install(monkeypatch: pytest.MonkeyPatch, fuse: Fuse) -> None:
    """Makes the recorder call `fuse.burn` before, in the middle of and after each write, and before and after each
    renaming."""
    append, replace, rename = storage.AppendOnly.append, os.replace, os.rename

    def burning_append(self: storage.AppendOnly, record: bytes) -> None:
        fuse.burn()
        try:
            fuse.burn()
        except Killed:
            append(self, record[: len(record) // 2])
            raise
        append(self, record)
        fuse.burn()

    def burning(function: Callable[..., None]) -> Callable[..., None]:
        def call(source: Path, target: Path) -> None:
            fuse.burn()
            try:
                fuse.burn()
            except Killed:
                if Path(source).is_file():
                    Path(source).write_bytes(Path(source).read_bytes()[:-5])
                raise
            function(source, target)
            fuse.burn()

        return call

    monkeypatch.setattr(storage.AppendOnly, "append", burning_append)
    monkeypatch.setattr(storage.os, "replace", burning(replace))
    monkeypatch.setattr(storage.os, "rename", burning(rename))


def test_every_moment(finished: Path, tmp_path: Path) -> None:
    source = Receipt(finished)
    executable = compile(source.program, "cpu", 1)
    recorded_run.run(source, executable, tmp_path / "whole", STEPS)
    moments = 0
    while True:
        path = tmp_path / str(moments)
        with pytest.MonkeyPatch.context() as monkeypatch:
            install(monkeypatch, Fuse(moments))
            try:
                recorded_run.run(source, executable, path, STEPS)
                killed = False
            except Killed:
                killed = True
        if not killed:
            break
        recorded_run.run(source, executable, path, STEPS)
        assert same_files(tmp_path / "whole", path), moments
        moments += 1
    assert moments >= 3 * (2 * STEPS + STEPS // recorded_run.EVERY)


def test_kill_9(finished: Path, tmp_path: Path) -> None:
    command = [sys.executable, recorded_run.__file__, str(finished), str(LONG)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None and writer.stdout is not None

        def ends(path: Path, after: float | None = None) -> bool:
            """Makes the other process write the receipt `path`, and kills it after `after` seconds. Returns whether the
            run ended before that."""
            writer.stdin.write(json.dumps([str(path), after]) + "\n")
            writer.stdin.flush()
            return writer.stdout.readline() == "ended\n"

        begin = time.perf_counter()
        assert ends(tmp_path / "whole")
        seconds = time.perf_counter() - begin
        draw = random.Random(3)
        number = kills = 0
        while kills < KILLS:
            # The run is killed and resumed until it ends.
            if ends(tmp_path / str(number), draw.uniform(0, 0.6 * seconds)):
                assert same_files(tmp_path / "whole", tmp_path / str(number))
                number += 1
            else:
                kills += 1
        assert ends(tmp_path / str(number))
        assert same_files(tmp_path / "whole", tmp_path / str(number))
        writer.stdin.close()


def test_records_are_stored_before_the_state_that_follows_them(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks the order of writes that survives a power failure: a file is synced before it gets its name."""
    source = Receipt(finished)
    events: list[str] = []
    path = tmp_path / "run"
    append, sync, replace = storage.AppendOnly.append, storage.AppendOnly.sync, os.replace

    def log(name: str, function: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            function(*arguments)
            target = Path(str(arguments[-1])).name
            events.append(f"replace {target}" if name == "replace" else name)

        return call

    monkeypatch.setattr(storage.AppendOnly, "append", log("append", append))
    monkeypatch.setattr(storage.AppendOnly, "sync", log("sync", sync))
    monkeypatch.setattr(storage.os, "fsync", lambda descriptor: events.append("fsync"))
    monkeypatch.setattr(storage.os, "replace", log("replace", replace))
    recorded_run.run(source, compile(source.program, "cpu", 1), path, STEPS)
    for name in ("7.safetensors", "14.safetensors", "16.safetensors", "seal.json"):
        before = events[: events.index(f"replace {name}")]
        last = len(before) - before[::-1].index("append") if "append" in before else 0
        assert before[last:].count("sync") >= 2 or name == "seal.json"
        assert before[-1] == "fsync", "the file itself is stored before it gets its name"
        assert events[len(before) + 1] == "fsync", "and then the name"


@contextmanager
def torn(finished: Path, folder: Path) -> Iterator[Path]:
    """Yields the receipt of a run that was cut off. After the test has changed it, resumes the run and compares the
    receipt with that of an uninterrupted run."""
    source = Receipt(finished)
    executable = compile(source.program, "cpu", 1)
    recorded_run.run(source, executable, folder / "whole", STEPS)
    path = folder / "torn"
    with pytest.MonkeyPatch.context() as monkeypatch:
        install(monkeypatch, Fuse(80))
        with pytest.raises(Killed):
            recorded_run.run(source, executable, path, STEPS)
    yield path
    recorded_run.run(source, executable, path, STEPS)
    assert same_files(folder / "whole", path)


@pytest.mark.parametrize("garbage", [b"\0" * 300, b'{"step":1}\n', b"half a rec"])
def test_garbage_after_the_last_kept_state(finished: Path, tmp_path: Path, garbage: bytes) -> None:
    with torn(finished, tmp_path) as path, open(path / "steps.jsonl", "ab") as file:
        file.write(garbage)


def test_inputs_that_were_not_stored(finished: Path, tmp_path: Path) -> None:
    """Imitates a power failure, after which a file can have its full size, but zeros instead of its last blocks."""
    with torn(finished, tmp_path) as path:
        inputs = path / "inputs.bin"
        size = inputs.stat().st_size
        assert size > 8
        with open(inputs, "r+b") as file:
            file.seek(size - 8)
            assert file.read() != bytes(8)
            file.seek(size - 8)
            file.write(bytes(8))


def test_a_directory_that_is_not_a_receipt(finished: Path, tmp_path: Path) -> None:
    source = Receipt(finished)
    (tmp_path / "folder").mkdir()
    with pytest.raises(ReproError, match="folder: expected a receipt, which is a directory"):
        recorded_run.run(source, compile(source.program, "cpu", 1), tmp_path / "folder", 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(ReproError, match="cannot write "):
        recorded_run.run(source, compile(source.program, "cpu", 1), tmp_path / "file" / "x", 1)
