# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Zip files: writing is deterministic, and reading an untrusted file uses memory in proportion to its size."""

from __future__ import annotations

import contextlib
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.regular import open_regular
from repro_mlir.base.limits import limits
from repro_mlir.base.printing import foreign

_FREE_BYTES = 256 << 20
"""The total size of members that is allowed regardless of the size of the file."""

_PART_BYTES = 1 << 20
_MEMBERS = 4096
_STREAMED_MEMBERS = 1 << 16
_DIRECTORY_BYTES = 4 << 20
_NAME_CHARACTERS = 1024
_ENCRYPTED = 1

_END = struct.Struct("<4sHHHHIIH")
_END64 = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR_BYTES = 20


def archive_of(members: dict[str, bytes], stored: Collection[str] = ()) -> bytes:
    """Returns a zip file with these members in this order; equal members result in equal bytes.

    Args:
      members: contents by name.
      stored: names of members that are stored without compression, because they would not shrink.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            # A ZipInfo constructed without a date has a fixed default date, so equal members result in equal bytes.
            method = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return buffer.getvalue()


def read_archive(path: str | Path, known: Callable[[str], bool], what: str) -> dict[str, bytes]:
    """Returns the members of a zip file, in their order.

    Args:
      path: a regular file.
      known: a function that returns whether the file may contain a member of the given name.
      what: the expected type of file for messages, such as "a bundle of repro-mlir".
    Raises:
      ReproError: the file cannot be read or is not a zip file; a member is unknown, occurs twice or is damaged; or the
        members exceed the limits in number or in bytes.
    """
    with open_archive(path, known, what) as archive:
        return {member.filename: _inflated(archive, member) for member in archive.infolist()}


@contextlib.contextmanager
def open_archive(
    path: str | Path, known: Callable[[str], bool], what: str, *, follow: bool = True, streamed: bool = False
) -> Iterator[zipfile.ZipFile]:
    """Opens a zip file for reading, after checks of its members.

    Args:
      path, known, what: as for `read_archive`.
      follow: whether the path may be a symbolic link.
      streamed: whether the caller reads the members in parts. The limits then are 65,536 members, and the ratio of
        `Limits.archive_ratio` for compressed members; members without compression are not limited.
    Raises:
      ReproError: as `read_archive`; also for such errors that occur while the caller uses the archive.
    """
    try:
        with open_regular(path, follow=follow) as file:
            size = os.fstat(file.fileno()).st_size
            _check_directory(file, size, str(path))
            with zipfile.ZipFile(file) as archive:
                _check_members(archive.infolist(), size, known, f"{path}: expected {what}, got", streamed)
                yield archive
    except OSError as error:
        raise ReproError(f"cannot read {path}: {error.strerror or error}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise ReproError(f"{path}: expected {what}, got a damaged or different file ({foreign(str(error))})") from None


def _inflated(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Decompresses at most as many bytes of a member as it declares; `ZipFile.read` would decompress all of them and
    then truncate the result."""
    parts = bytearray()
    with archive.open(member) as stream:
        while part := stream.read(_PART_BYTES):
            parts += part
    return bytes(parts)


def member_names(path: str | Path) -> set[str]:
    """Returns the names of the members of a zip file; the set is empty if the file is unreadable or not a zip file."""
    try:
        with open_regular(path, follow=True) as file:
            _check_directory(file, os.fstat(file.fileno()).st_size, str(path))
            with zipfile.ZipFile(file) as archive:
                return set(archive.namelist())
    except (OSError, ReproError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError):
        return set()


def _check_directory(file: BinaryIO, size: int, where: str) -> None:
    """Checks the size of the zip directory, because zipfile reads the whole directory at once.

    Raises:
      BadZipFile: the file has no end-of-directory record.
      ReproError: the directory is too large.
    """
    file.seek(max(0, size - _END.size - 0xFFFF))
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or at + _END.size > len(tail):
        raise zipfile.BadZipFile("it has no end-of-directory record, so it is cut off or not a zip file")
    sizes = [_END.unpack_from(tail, at)[5]]
    at64 = size - len(tail) + at - _LOCATOR_BYTES - _END64.size
    if at64 >= 0:
        file.seek(at64)
        end64 = file.read(_END64.size)
        if end64[:4] == b"PK\6\6":
            sizes.append(_END64.unpack(end64)[8])
    if max(sizes) > _DIRECTORY_BYTES:
        raise ReproError(f"{where}: expected a zip directory of at most {_DIRECTORY_BYTES:,} bytes, got {max(sizes):,}")
    file.seek(0)


def _check_members(
    members: list[zipfile.ZipInfo], size: int, known: Callable[[str], bool], where: str, streamed: bool
) -> None:
    allowed = _STREAMED_MEMBERS if streamed else _MEMBERS
    if len(members) > allowed:
        raise ReproError(f"{where} {len(members):,} members (at most {allowed:,})")
    seen = set()
    for member in members:
        name = member.filename
        if len(name) > _NAME_CHARACTERS or not known(name):
            raise ReproError(f"{where} an unknown member {foreign(repr(name))}")
        if name in seen:
            raise ReproError(f"{where} two members named {foreign(name)}")
        seen.add(name)
        if member.flag_bits & _ENCRYPTED or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ReproError(f"{where} member {foreign(name)} encrypted or compressed by another method than deflate")
    counted = [each for each in members if not streamed or each.compress_type != zipfile.ZIP_STORED]
    total = sum(member.file_size for member in counted)
    bounds = limits()
    most = max(_FREE_BYTES, size * bounds.archive_ratio)
    if not streamed:
        most = min(bounds.archive_bytes, most)
    if total > most:
        raise ReproError(f"{where} {total:,} bytes of members in a file of {size:,} bytes (at most {most:,})")
