# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A disk cache of captures, canonical programs and compiled code, keyed by a hash of their sources.

Artifacts are trusted like locally built ones, so each file carries a MAC under a key that only this user can read. The
folder contains at most `cache_bytes` (limits.py): eviction removes the least recently used artifacts until a sixteenth
of the limit is free. Processes share the folder without locks, because a missing artifact is just rebuilt. Listing many
files is slow, so a process lists them again only after it has written a sixteenth of the space that was free at its
last listing; thus 16 concurrent writers stay within the limit.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import blake3

from repro_mlir.base.errors import ReproError
from repro_mlir.base.limits import limits

VARIABLE = "REPRO_MLIR_CACHE"
OFF = "off"
"""The value of the variable that disables the cache."""

_MAGIC = b"repro-cache-2\0\0\0"
_MAC_BYTES = 32
_KEY, _KEY_BYTES = "key", 32
_ENTRY = re.compile(r"[0-9a-f]{64}\.artifact", re.ASCII)
_PART = re.compile(rf"({_ENTRY.pattern}|{_KEY})\.[0-9a-f]{{16}}", re.ASCII)
_ABANDONED = 3600.0
"""The age in seconds after which a temporary file counts as abandoned by a killed writer."""

_PARTS = 16
_rooms: dict[tuple[int, int, int], int] = {}
"""The number of bytes that this process may write before it lists the files again. The key is the device and inode of
the folder, and the limit."""

# A flag is 0 on Windows, which does not define it. There, `directory` returns None.
_NO_LINK, _DIRECTORY = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_DIRECTORY", 0)
_CLOSED_BY_EXEC = getattr(os, "O_CLOEXEC", 0)
_READ = os.O_RDONLY | _NO_LINK | _CLOSED_BY_EXEC | getattr(os, "O_NONBLOCK", 0)


def directory() -> Path | None:
    """Returns the cache folder: REPRO_MLIR_CACHE, else repro-mlir in the user's cache directory; None if disabled, or
    on a system without `dir_fd`, such as Windows."""
    if not _DIRECTORY:
        return None
    if path := os.environ.get(VARIABLE):
        return None if path == OFF else Path(path)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "repro-mlir"
    try:
        return Path.home() / ".cache" / "repro-mlir"
    except RuntimeError:
        return None


def _name_of(sources: Sequence[bytes]) -> str:
    state = hashlib.sha256()
    for source in sources:
        state.update(len(source).to_bytes(8, "little"))
        state.update(source)
    return f"{state.hexdigest()}.artifact"


@dataclass(frozen=True, order=True)
class _Entry:
    """A file of the cache: the time of its last use, its size in bytes and its name."""

    used: float
    size: int
    name: str


class _Store:
    """The cache directory, kept open by descriptor so that replacing the path later has no effect on it."""

    def __init__(self, path: Path) -> None:
        """Opens the directory, or creates it.

        Raises:
          OSError: the directory belongs to another user, is a symbolic link, or cannot be created or opened.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        self._folder = os.open(path, _READ | _DIRECTORY)
        try:
            found = os.fstat(self._folder)
            if found.st_uid != os.geteuid():
                raise PermissionError(f"{path} belongs to another user")
            if stat.S_IMODE(found.st_mode) & 0o077:
                os.fchmod(self._folder, 0o700)
            self._key = self._read_key() or self._make_key()
        except BaseException:
            os.close(self._folder)
            raise

    def close(self) -> None:
        """Closes the directory."""
        os.close(self._folder)

    def read(self, name: str) -> bytes | None:
        """Returns the artifact in a file; None if the file is missing or this user did not write it under that name."""
        content = self._own_file(name)
        start = len(_MAGIC) + _MAC_BYTES
        if content is None or content[: len(_MAGIC)] != _MAGIC:
            return None
        artifact = content[start:]
        if not hmac.compare_digest(content[len(_MAGIC) : start], self._mac(name, artifact)):
            return None
        with contextlib.suppress(OSError):
            os.utime(name, dir_fd=self._folder, follow_symlinks=False)
        return artifact

    def write(self, name: str, artifact: bytes) -> None:
        """Writes a file atomically, so that no reader sees a part of it, and evicts artifacts if space is needed."""
        content, most = _MAGIC + self._mac(name, artifact) + artifact, limits().cache_bytes
        if len(content) > most:
            return
        self._put(name, content, os.replace)
        folder = os.fstat(self._folder)
        key = (folder.st_dev, folder.st_ino, most)
        room = _rooms.get(key, 0) - len(content)
        if room < 0:
            _, left = self.shrink(most, most - most // _PARTS)
            room = (most - left) // _PARTS
        _rooms[key] = room

    def entries(self) -> list[_Entry]:
        """Returns the artifacts, least recently used first."""
        return sorted(entry for entry in self._own_entries() if _ENTRY.fullmatch(entry.name))

    def shrink(self, most: int, wanted: int) -> tuple[int, int]:
        """If the artifacts exceed `most` bytes in total, evicts artifacts until at most `wanted` bytes remain.

        Also removes the temporary files of killed writers.

        Returns:
          The number of artifacts removed and the total size of the remaining ones in bytes.
        """
        for entry in self._own_entries():
            if _PART.fullmatch(entry.name) and entry.used < time.time() - _ABANDONED:
                self._remove(entry.name)
        entries = self.entries()
        size, removed = sum(entry.size for entry in entries), 0
        for entry in entries if size > most else []:
            if size <= wanted:
                break
            self._remove(entry.name)
            size, removed = size - entry.size, removed + 1
        return removed, size

    def _own_entries(self) -> Iterator[_Entry]:
        """Yields the regular files that belong to this user."""
        with os.scandir(self._folder) as found:
            for each in found:
                # Another process may have removed the file in the meantime.
                with contextlib.suppress(FileNotFoundError):
                    status = each.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                        yield _Entry(status.st_mtime, status.st_size, each.name)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._folder)

    def _mac(self, name: str, artifact: bytes) -> bytes:
        return blake3.blake3(name.encode() + b"\0" + artifact, key=self._key).digest()

    def _own_file(self, name: str, shared: int = 0o022) -> bytes | None:
        """Returns the content of a regular file of this user; None if there is no such file, or if its permissions
        include one of those in the mask `shared` (by default, write access for group or others)."""
        try:
            descriptor = os.open(name, _READ, dir_fd=self._folder)
        except OSError:
            return None
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & shared:
            os.close(descriptor)
            return None
        with open(descriptor, "rb") as file:
            return file.read()

    def _read_key(self) -> bytes | None:
        key = self._own_file(_KEY, 0o077)
        return key if key is not None and len(key) == _KEY_BYTES else None

    def _make_key(self) -> bytes:
        """Creates and returns a new key; returns the key of another process if that process created one first."""
        with contextlib.suppress(FileExistsError):
            self._put(_KEY, secrets.token_bytes(_KEY_BYTES), os.link)
        if (key := self._read_key()) is not None:
            return key
        # The existing key is damaged or readable by others. A new key invalidates all artifacts, which are rebuilt.
        self._put(_KEY, secrets.token_bytes(_KEY_BYTES), os.replace)
        if (key := self._read_key()) is None:
            raise PermissionError("cannot make a key that only this user can read")
        return key

    def _put(self, name: str, content: bytes, move: Callable[..., None]) -> None:
        """Writes a temporary file and gives it the name `name` with `move`: `os.replace` overwrites an existing file,
        `os.link` raises FileExistsError if there is one."""
        beside = f"{name}.{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | _CLOSED_BY_EXEC
        descriptor = os.open(beside, flags, 0o600, dir_fd=self._folder)
        try:
            with open(descriptor, "wb") as file:
                file.write(content)
            move(beside, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        finally:
            self._remove(beside)


def cached(sources: Sequence[bytes], make: Callable[[], bytes]) -> bytes:
    """Returns the artifact that `make` computes, or a copy of it from the cache in `directory()`.

    `make` must depend only on `sources`: a name for the type of artifact, the version of the code that makes it, and
    its inputs. A file that is damaged or was not written by this user is rebuilt and replaced. If the directory belongs
    to another user or is not writable, the cache is disabled without an error.
    """
    path = directory()
    try:
        store = None if path is None else _Store(path)
    except OSError:
        store = None
    if store is None:
        return make()
    with contextlib.closing(store):
        name = _name_of(sources)
        if (artifact := store.read(name)) is not None:
            return artifact
        artifact = make()
        with contextlib.suppress(OSError):
            store.write(name, artifact)
        return artifact


@dataclass(frozen=True)
class Usage:
    """The disk usage of the cache.

    Attributes:
      path: the cache folder; None if the cache is disabled.
      entries: the number of artifacts.
      bytes: the total size of the artifacts.
      limit: the maximum total size in bytes.
    """

    path: Path | None
    entries: int
    bytes: int
    limit: int


def usage() -> Usage:
    """Returns the disk usage of this user's cache. Raises ReproError if its folder cannot be used."""
    path, limit = directory(), limits().cache_bytes
    if path is None or not os.path.lexists(path):
        return Usage(path, 0, 0, limit)
    with contextlib.closing(_open(path)) as store:
        entries = store.entries()
    return Usage(path, len(entries), sum(entry.size for entry in entries), limit)


def clear() -> int:
    """Removes every artifact, but no other file in the folder; returns the number removed. Raises ReproError if the
    folder cannot be used."""
    path = directory()
    if path is None or not os.path.lexists(path):
        return 0
    with contextlib.closing(_open(path)) as store:
        removed, _ = store.shrink(0, 0)
        return removed


def _open(path: Path) -> _Store:
    try:
        return _Store(path)
    except OSError as error:
        raise ReproError(f"{path}: cannot use this folder as the cache: {error}") from None
