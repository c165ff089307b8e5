# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Finds where the members of a zip file are, so that they can be read without the zip directory."""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Callable
from typing import BinaryIO, cast

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.archive import open_archive
from repro_mlir.base.printing import foreign
from repro_mlir.tensor_dumps.stored_tensors import Span

_LOCAL_HEADER = struct.Struct("<4s22xHH")


def member_spans(path: str, known: Callable[[str], bool], what: str, follow: bool) -> dict[str, Span]:
    """Returns the bytes of each member by name, in the order of the directory.

    Args:
      path, known, what, follow: as for `open_archive`.
    Raises:
      ReproError: as `open_archive`; also if a member lies outside of the file or overlaps another member.
    """
    with open_archive(path, known, what, follow=follow, streamed=True) as archive:
        file = cast(BinaryIO, archive.fp)
        size = os.fstat(file.fileno()).st_size
        found = {member.filename: _span(path, follow, file, member) for member in archive.infolist()}
    end = 0
    for name, span in sorted(found.items(), key=lambda each: each[1].offset):
        if span.offset < end:
            raise ReproError(f"{path}: expected {what}, got member {foreign(name)}, which overlaps another member")
        end = span.offset + (span.size if span.deflated is None else span.deflated)
        if end > size:
            raise ReproError(f"{path}: expected {what}, got member {foreign(name)}, which lies outside of the file")
    return found


def _span(path: str, follow: bool, file: BinaryIO, member: zipfile.ZipInfo) -> Span:
    file.seek(member.header_offset)
    header = file.read(_LOCAL_HEADER.size)
    if len(header) < _LOCAL_HEADER.size or header[:4] != b"PK\3\4":
        raise zipfile.BadZipFile("a member has no local header")
    _, name, extra = _LOCAL_HEADER.unpack(header)
    offset = member.header_offset + _LOCAL_HEADER.size + name + extra
    if member.compress_type == zipfile.ZIP_STORED:
        if member.compress_size != member.file_size:
            raise zipfile.BadZipFile("a member without compression has two sizes")
        return Span(path, follow, offset, member.file_size)
    return Span(path, follow, offset, member.file_size, member.compress_size)
