# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Artifacts in the cache on disk are found again, and are used only if no other user can have written them."""

import json
import multiprocessing
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from repro_mlir.base.files import cache
from repro_mlir.base.files.cache import cached
from repro_mlir.cli.main import main
from repro_mlir.compilation.cache import cached_compile
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.program.canonical import to_bytes

TEXT = """
module { func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> attributes {repro.num_state = 1 : i64} {
  return %a : tensor<4xf32> } }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REPRO_MLIR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def put(content: bytes = b"artifact", target: str = "target") -> bytes:
    """Returns the artifact of a program from the cache. If the cache does not contain it, `content` becomes the
    artifact."""
    return cached([b"program", target.encode()], lambda: content)


def file_of(folder: Path) -> Path:
    (file,) = folder.glob("*.artifact")
    return file


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_found_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = cached_compile(to_bytes(TEXT), "x86-64-v2")
    monkeypatch.setattr("repro_mlir.compilation.cache.compile", lambda *_, **__: pytest.fail("compiled again"))
    assert cached_compile(to_bytes(TEXT), "x86-64-v2") == first
    assert CpuBackend(first)


def test_only_the_user_reads_and_writes(folder: Path) -> None:
    put()
    assert (mode(folder), mode(folder / "key"), mode(file_of(folder))) == (0o700, 0o600, 0o600)
    assert len((folder / "key").read_bytes()) == 32
    assert sorted(path.name for path in folder.iterdir()) == sorted(["key", file_of(folder).name])


def test_a_folder_that_was_open_to_others_is_closed(folder: Path) -> None:
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    put()
    assert mode(folder) == 0o700


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def _unkeyed(file: Path) -> None:
    """Overwrites an artifact like an attacker who knows the format but not the key."""
    import blake3

    file.write_bytes(cache._MAGIC + blake3.blake3(b"other").digest() + b"other")


def _link(file: Path) -> None:
    other = file.with_name("elsewhere")
    file.rename(other)
    file.symlink_to(other)


def _pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def _writable(file: Path) -> None:
    file.chmod(0o666)


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("change", [_cut, _flip, _unkeyed, _link, _pipe, _writable, _folder])
def test_a_file_that_others_could_have_written_is_replaced(folder: Path, change: Callable[[Path], None]) -> None:
    put()
    change(file_of(folder))
    assert put(b"made anew") == b"made anew"
    if change is not _folder:
        assert put(b"unused") == b"made anew"
        assert not file_of(folder).is_symlink()


def test_the_artifact_of_another_program_does_not_count(folder: Path) -> None:
    """The MAC of an artifact covers its name, so an artifact under another name is not used."""
    put(b"first", "a")
    first = file_of(folder)
    put(b"second", "b")
    (second,) = (path for path in folder.glob("*.artifact") if path != first)
    second.write_bytes(first.read_bytes())
    assert put(b"made anew", "b") == b"made anew"


@pytest.mark.parametrize("user", ["file", "key", "folder"])
def test_files_of_another_user(folder: Path, monkeypatch: pytest.MonkeyPatch, user: str) -> None:
    put()
    paths = {"file": file_of(folder), "key": folder / "key", "folder": folder}
    if os.geteuid() == 0:
        os.chown(paths[user], 12345, 12345)
    else:
        monkeypatch.setattr(cache.os, "geteuid", lambda: os.getuid() + 1)
    assert put(b"made anew") == b"made anew"
    if user == "folder" or os.geteuid() != 0:
        # The cache does not use this folder at all, so the program is compiled again.
        assert put(b"and again") == b"and again"
    else:
        assert put(b"unused") == b"made anew"


@pytest.mark.parametrize("content", [b"", b"short", bytes(33)])
def test_a_damaged_key_is_replaced(folder: Path, content: bytes) -> None:
    put()
    (folder / "key").write_bytes(content)
    assert put(b"made anew") == b"made anew"
    assert put(b"unused") == b"made anew"
    assert len((folder / "key").read_bytes()) == 32


def test_a_key_that_others_can_read_is_replaced(folder: Path) -> None:
    put()
    key = (folder / "key").read_bytes()
    (folder / "key").chmod(0o644)
    assert put(b"made anew") == b"made anew"
    assert (folder / "key").read_bytes() != key and mode(folder / "key") == 0o600


def test_a_link_in_place_of_the_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    assert put() == b"artifact" and put(b"again") == b"again"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_no_place_for_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REPRO_MLIR_CACHE", str(tmp_path / "file" / "folder"))
    assert put() == b"artifact" and put(b"again") == b"again"
    # A folder in which not even root can write.
    monkeypatch.setenv("REPRO_MLIR_CACHE", "/proc/repro-mlir")
    assert put() == b"artifact" and put(b"again") == b"again"


def test_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REPRO_MLIR_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", classmethod(lambda _: (_ for _ in ()).throw(RuntimeError("no home"))))
    assert cache.directory() is None
    assert put() == b"artifact" and put(b"again") == b"again"


def test_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(b"kept")
    monkeypatch.setenv("REPRO_MLIR_CACHE", "off")
    assert put() == b"artifact" and put(b"again") == b"again"
    monkeypatch.setenv("REPRO_MLIR_CACHE", str(folder))
    assert put() == b"kept"


@pytest.mark.parametrize("command", ["run", "train", "verify", "dispute", "diff"])
def test_no_cache_is_an_option_of_commands_that_run_steps(
    command: str, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "--no-cache" in capsys.readouterr().out
    # The other arguments are wrong, so the command fails, but only after the option has taken effect.
    arguments = {"run": ["none"], "train": ["none.py", "--steps", "1"], "verify": ["none"]}
    arguments |= {"dispute": ["none", "none"], "diff": ["none", "none"]}
    assert main([command, "--no-cache", *arguments[command]]) == 2
    assert cache.directory() is None


def _limit(monkeypatch: pytest.MonkeyPatch, artifacts: int) -> None:
    """Limits the cache's size, so that it keeps `artifacts` artifacts of 1000 bytes even after a sixteenth of the cache
    was freed."""
    monkeypatch.setenv("REPRO_MLIR_LIMITS", f"cache_bytes={artifacts * 1120}")


def kept(folder: Path) -> int:
    return len(list(folder.glob("*.artifact")))


def test_the_least_recently_used_artifact_is_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _limit(monkeypatch, 3)
    contents = {name: name.encode() * 1000 for name in "abcde"}
    files = {}
    for number, name in enumerate("abc"):
        before = set(folder.glob("*.artifact"))
        put(contents[name], name)
        (files[name],) = {*folder.glob("*.artifact")} - before
        os.utime(files[name], (1000 + number, 1000 + number))
    # Reading an artifact makes it the most recently used artifact.
    assert put(b"unused", "a") == contents["a"]
    put(contents["d"], "d")
    assert not files["b"].exists() and files["a"].exists() and files["c"].exists() and kept(folder) == 3
    put(contents["e"], "e")
    assert not files["c"].exists() and files["a"].exists() and kept(folder) == 3
    assert put(b"made anew", "b") == b"made anew"


def test_few_writes_look_at_all_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache never exceeds its limit. When it is full, one scan of its files frees a sixteenth, so few writes need a
    scan."""
    _limit(monkeypatch, 200)
    looks, shrink = [], cache._Store.shrink
    monkeypatch.setattr(cache._Store, "shrink", lambda *given: looks.append(shrink(*given)) or looks[-1])
    for number in range(300):
        put(bytes(1000), str(number))
        assert number != 10 or len(looks) == 1
        assert cache.usage().bytes <= 200 * 1120
    removed = [artifacts for artifacts, _ in looks if artifacts]
    assert len(looks) < 150 and len(removed) > 5 and min(removed) > 10 and kept(folder) > 180


def test_an_artifact_larger_than_the_limit_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _limit(monkeypatch, 2)
    put(bytes(1000), "small")
    assert put(bytes(3000), "large") == bytes(3000)
    assert kept(folder) == 1 and put(b"made anew", "large") == b"made anew"
    assert put(b"unused", "small") == bytes(1000)


def test_nothing_is_removed_that_is_not_of_the_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(bytes(1000))
    key = (folder / "key").read_bytes()
    name = "0" * 64 + ".artifact"
    for other in ("notes.txt", "x.artifact", f"{name}.orig", f"{name}.{'0' * 15}"):
        (folder / other).write_bytes(bytes(5000))
    (folder / name).symlink_to(folder / "notes.txt")
    (folder / ("1" * 64 + ".artifact")).mkdir()
    others = {path.name for path in folder.iterdir()} - {file.name for file in folder.glob("*.artifact")} | {name}
    _limit(monkeypatch, 1)
    put(bytes(1000), "another")
    assert cache.clear() == 1 and cache.usage().entries == 0
    assert others <= {path.name for path in folder.iterdir()} and (folder / "x.artifact").exists()
    assert (folder / ("1" * 64 + ".artifact")).is_dir() and (folder / "key").read_bytes() == key


def test_leftovers_of_a_killed_writer_are_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _limit(monkeypatch, 3)
    put(bytes(1000))
    old, new = (folder / f"{'0' * 64}.artifact.{digit * 16}" for digit in "ab")
    for path in (old, new):
        path.write_bytes(bytes(100))
    os.utime(old, (1000, 1000))
    put(bytes(1000), "other")
    assert not old.exists() and new.exists()


def test_cache_command(capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["cache", "--json"]) == 0
    empty = {"path": str(folder), "entries": 0, "bytes": 0, "limit": 10 << 30, "removed": 0}
    assert json.loads(capsys.readouterr().out) == empty and not folder.exists()
    put(bytes(1000), "a")
    put(bytes(1000), "b")
    size = sum(file.stat().st_size for file in folder.glob("*.artifact"))
    monkeypatch.setenv("REPRO_MLIR_LIMITS", "cache_bytes=20G")
    assert main(["cache"]) == 0
    shown = capsys.readouterr().out
    assert str(folder) in shown and f"entries  2, {size:,} bytes" in shown and f"{20 << 30:,} bytes" in shown
    assert main(["cache", "--clear", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["removed"], report["entries"], report["bytes"]) == (2, 0, 0) and kept(folder) == 0
    assert put(b"made anew", "a") == b"made anew"


def test_cache_command_without_a_cache(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REPRO_MLIR_CACHE", "off")
    assert main(["cache", "--clear"]) == 0
    assert "none: nothing is kept (REPRO_MLIR_CACHE=off" in capsys.readouterr().out
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / ("0" * 64 + ".artifact")).write_bytes(b"of somebody")
    folder.symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("REPRO_MLIR_CACHE", str(folder))
    for arguments in (["cache"], ["cache", "--clear"]):
        assert main(arguments) == 2
        assert "cannot use this folder as the cache" in capsys.readouterr().err
    assert len(list((tmp_path / "elsewhere").iterdir())) == 1


def _race(path: str, number: int, start: object, results: object) -> None:
    os.environ["REPRO_MLIR_CACHE"] = path
    start.wait()  # type: ignore[attr-defined]
    given = [cached([b"program %d" % i], lambda i=i: b"artifact %d" % i) for i in range(20)]
    results.put((number, given))  # type: ignore[attr-defined]


def race_of_four(folder: Path) -> None:
    """Runs `_race` in four processes at once; each must get its artifacts."""
    context = multiprocessing.get_context("fork")
    start, results = context.Barrier(4), context.Queue()
    processes = [context.Process(target=_race, args=(str(folder), i, start, results)) for i in range(4)]
    for process in processes:
        process.start()
    found = dict(results.get(timeout=60) for _ in processes)
    for process in processes:
        process.join()
    wanted = [b"artifact %d" % i for i in range(20)]
    assert all(given == wanted for given in found.values()) and len(found) == 4


def test_processes_that_have_too_little_room(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is so low that each process removes files that others write and read. All processes get their
    artifacts, and the cache stays below the limit."""
    monkeypatch.setenv("REPRO_MLIR_LIMITS", "cache_bytes=300")
    race_of_four(folder)
    put(b"last")
    assert 0 < cache.usage().bytes <= 300


def test_processes_that_begin_together(folder: Path) -> None:
    """All processes must use the same key, whichever of them creates it, and none may read a partly written file."""
    race_of_four(folder)
    assert len(list(folder.glob("*.artifact"))) == 20
    assert [path.name for path in folder.iterdir() if not path.name.endswith(".artifact")] == ["key"]
    assert cached([b"program 3"], lambda: b"made anew") == b"artifact 3"
