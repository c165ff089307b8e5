# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Crash-safe file writes: after a crash of the process or the machine, a file is either complete or absent."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.regular import open_descriptor
from repro_mlir.base.output_paths import refuse_inside_receipt, refuse_other_format
from repro_mlir.base.printing import is_standard_output

PARTIAL = ".partial"
"""The suffix of the name of a file that is being written."""


def write_whole(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Writes a file under a temporary name, syncs it to disk and renames it, which replaces an old file atomically.

    Raises:
      ReproError: the temporary name is taken by a symbolic link or a special file.
    """
    partial = path.with_name(path.name + PARTIAL)
    with os.fdopen(open_descriptor(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    sync_directory(path.parent)


def check_can_write(path: str | Path, ending: str | None = None) -> None:
    """Raises ReproError if no file or new folder can be created at a path, the path is within a receipt, or its name
    ends as those of another format than `ending`. Callers check this before they compute the contents."""
    if is_standard_output(path):
        return
    if ending is not None:
        refuse_other_format(path, ending)
    refuse_inside_receipt(path)
    target = Path(os.path.realpath(path))
    folder = target.parent
    reason = None
    if not (is_special := _is_special(path)) and not folder.is_dir():
        reason = "Not a directory" if folder.exists() else "No such file or directory"
    elif target.is_dir():
        reason = "Is a directory"
    elif target.is_file() and not os.access(target, os.W_OK):
        reason = "Permission denied"
    else:
        try:
            _try_device(Path(path)) if is_special else _try_to_write(target)
        except OSError as error:
            reason = error.strerror
    if reason is not None:
        raise ReproError(f"cannot write {path}: {reason}")


def _try_to_write(target: Path) -> None:
    """Creates and removes a one-byte file next to `target`. Raises OSError if the write fails."""
    partial = _own_partial(target)
    try:
        partial.write_bytes(b"0")
    finally:
        partial.unlink(missing_ok=True)


def _try_device(path: Path) -> None:
    """Writes zero bytes to a device; does nothing for a pipe, whose other end would see the end of the data. Raises
    OSError if the write fails."""
    if path.is_char_device():
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(descriptor, b"")
        finally:
            os.close(descriptor)


def _is_special(path: str | Path) -> bool:
    """Whether a path is that of a device, a pipe or a socket, also if it has no name in a folder, as in /dev/fd/3."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _own_partial(path: Path) -> Path:
    """Returns a temporary name that is specific to this process, since another process may write the same file."""
    return path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")


def write_file(path: str | Path, data: bytes) -> None:
    """Writes a file at a path that the user gave; an old file is replaced only when the new file is completely on disk.

    Follows a symbolic link, and writes directly to standard output, a device or a pipe. Raises ReproError if the file
    cannot be written, or the path is within a receipt.
    """
    if not is_standard_output(path):
        refuse_inside_receipt(path)
    try:
        if is_standard_output(path):
            # A path would open the file again, at its beginning.
            with open(1, "wb", closefd=False) as file:
                file.write(data)
        elif _is_special(path):
            Path(path).write_bytes(data)
        else:
            target = Path(os.path.realpath(path))
            _replace(target, data, os.stat(target).st_mode if target.exists() else None)
    except OSError as error:
        raise ReproError(f"cannot write {path}: {error.strerror}") from None


def _replace(path: Path, data: bytes, mode: int | None) -> None:
    """Replaces a file atomically; `mode` is the mode of the existing file, None if there is none."""
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
    """Syncs the entries of a directory to disk; does nothing on Windows, which opens no directories."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: str | Path) -> Path:
    """Creates a folder with its parents, unless it exists. Raises ReproError if that fails, or the path is within a
    receipt."""
    refuse_inside_receipt(path)
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReproError(f"cannot write {folder}: {error.strerror}") from None
    return folder


def check_empty_folder(path: str | Path) -> None:
    """Raises ReproError if a folder has files, the path is that of a file or within a receipt, or the folder cannot be
    read or created. Callers check this before they compute the contents."""
    refuse_inside_receipt(path)
    folder = Path(path)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            found = "a folder with files" if folder.is_dir() else "a file"
            raise ReproError(f"{folder}: expected a new or empty folder, got {found}: name another")
    except OSError as error:
        raise ReproError(f"cannot write {folder}: {error.strerror}") from None
    target = Path(os.path.realpath(folder))
    present = next(each for each in (target, *target.parents) if each.exists())
    if not present.is_dir() or not os.access(present, os.W_OK):
        reason = "Permission denied" if present.is_dir() else "Not a directory"
        raise ReproError(f"cannot write {folder}: {reason}")


def make_empty_folder(path: str | Path) -> Path:
    """Creates a folder, or accepts one that is empty, so that no older files mix with the new ones. Raises ReproError
    as `check_empty_folder`."""
    check_empty_folder(path)
    return make_folder(path)


def begin_directory(path: Path) -> Path:
    """Creates a temporary directory that `finish_directory` renames to `path`; first removes one that an earlier
    attempt left."""
    partial = path.with_name(path.name + PARTIAL)
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir(parents=True)
    return partial


def finish_directory(partial: Path, path: Path) -> None:
    """Syncs a directory that `begin_directory` has created, and renames it to `path`."""
    sync_directory(partial)
    os.rename(partial, path)
    sync_directory(path.parent)


class AppendOnly:
    """A file to which records are appended one after the other, so that a process which is killed leaves complete
    records and at most one partial record at the end.
    """

    def __init__(self, path: Path, size: int) -> None:
        """Opens the file and truncates it to `size` bytes."""
        self._descriptor = open_descriptor(path, os.O_WRONLY | os.O_CREAT)
        os.ftruncate(self._descriptor, size)
        os.lseek(self._descriptor, size, os.SEEK_SET)

    def rewind(self, size: int) -> None:
        """Moves the write position to `size` bytes, so that the next record overwrites a partial one."""
        os.lseek(self._descriptor, size, os.SEEK_SET)

    def append(self, record: bytes) -> None:
        """Appends a record."""
        rest = memoryview(record)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def sync(self) -> None:
        """Syncs all records to disk."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)


class Lock:
    """A lock that prevents a second process from writing the same receipt; the end of the process releases it."""

    def __init__(self, path: Path) -> None:
        """Acquires the lock of a directory. Raises ReproError if another process has the lock."""
        self._descriptor: int | None = None
        try:
            import fcntl
        except ImportError:
            # This system does not support such locks.
            return
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise ReproError(
                f"{path}: another process or trainer is writing this receipt: wait for it, or end it"
            ) from None

    def release(self) -> None:
        """Releases the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
