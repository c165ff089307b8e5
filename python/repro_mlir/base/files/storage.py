# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Files that are whole or absent, whenever the process or the machine stops."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.regular import open_descriptor

PARTIAL = ".partial"
"""The end of a name while its file is written."""


def write_whole(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Writes a file under another name, has it stored, and then gives it its own: what had the name is there until all
    of the new one is. ReproError where the other name is a link or no regular file."""
    partial = path.with_name(path.name + PARTIAL)
    with os.fdopen(open_descriptor(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    sync_directory(path.parent)


def check_can_write(path: str | Path) -> None:
    """ReproError where no file or new folder can be made at a path: raised before its contents are computed."""
    target = Path(os.path.realpath(path))
    folder = target.parent
    reason = None
    if not folder.is_dir():
        reason = "Not a directory" if folder.exists() else "No such file or directory"
    elif target.is_dir():
        reason = "Is a directory"
    elif target.is_file() and not os.access(target, os.W_OK):
        reason = "Permission denied"
    else:
        try:
            _try_to_write(target)
        except OSError as error:
            reason = error.strerror
    if reason is not None:
        raise ReproError(f"cannot write {path}: {reason}")


def _try_to_write(target: Path) -> None:
    """Writes a byte to a new file beside a path and removes it; writes nothing to a device. OSError where it cannot."""
    if target.is_char_device():
        descriptor = os.open(target, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(descriptor, b"")
        finally:
            os.close(descriptor)
    elif target.is_file() or not target.exists():
        partial = _own_partial(target)
        try:
            partial.write_bytes(b"0")
        finally:
            partial.unlink(missing_ok=True)


def _own_partial(path: Path) -> Path:
    """The name of this process while it writes a file: another one may write the same file."""
    return path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")


def write_file(path: str | Path, data: bytes) -> None:
    """Writes a file that the user named: what had the name stays as it is until all of the new file is stored. A link
    is followed; a device or FIFO is written as it is. ReproError where the file cannot be written."""
    try:
        target = Path(os.path.realpath(path))
        try:
            mode = os.stat(target).st_mode
        except FileNotFoundError:
            mode = None
        if mode is not None and not stat.S_ISREG(mode):
            target.write_bytes(data)
        else:
            _replace(target, data, mode)
    except OSError as error:
        raise ReproError(f"cannot write {path}: {error.strerror}") from None


def _replace(path: Path, data: bytes, mode: int | None) -> None:
    """`mode`: that of the file which has the name now."""
    partial = _own_partial(path)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.chmod(partial, stat.S_IMODE(mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Has the names in a directory stored."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def begin_directory(path: Path) -> Path:
    """A new directory that becomes `path` by `finish_directory`; what an earlier attempt left is removed."""
    partial = path.with_name(path.name + PARTIAL)
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir(parents=True)
    return partial


def finish_directory(partial: Path, path: Path) -> None:
    """Gives a directory of `begin_directory` its name."""
    sync_directory(partial)
    os.rename(partial, path)
    sync_directory(path.parent)


class AppendOnly:
    """A file that grows record by record.

    A record is written by one call: when the process ends, whole records and at most one part of a record are there.
    """

    def __init__(self, path: Path, size: int) -> None:
        """Opens the file and cuts it to `size` bytes."""
        self._descriptor = open_descriptor(path, os.O_WRONLY | os.O_CREAT)
        os.ftruncate(self._descriptor, size)
        os.lseek(self._descriptor, size, os.SEEK_SET)

    def rewind(self, size: int) -> None:
        """The next record follows `size` bytes: one that was cut short is written again over its part."""
        os.lseek(self._descriptor, size, os.SEEK_SET)

    def append(self, record: bytes) -> None:
        """Writes a record."""
        rest = memoryview(record)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def sync(self) -> None:
        """Has all records stored."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)


class Lock:
    """Keeps a second process from writing the same receipt; it ends with the process."""

    def __init__(self, path: Path) -> None:
        """Takes the lock of a directory. ReproError where another process has it."""
        self._descriptor: int | None = None
        try:
            import fcntl
        except ImportError:
            # No such locks on this system.
            return
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise ReproError(f"{path}: another process writes this receipt") from None

    def release(self) -> None:
        """Gives the lock back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
