# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Files that somebody else may have made: opening one neither blocks, nor leads elsewhere, nor is without an end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from repro_mlir.base.errors import SHORTAGES, ReproError

# 0 on systems without them.
_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)

_KINDS = (
    (stat.S_ISDIR, "directory"),
    (stat.S_ISFIFO, "FIFO"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
    (stat.S_ISSOCK, "socket"),
)


class TooLarge(ReproError):
    """A file of more bytes than may be read."""


def open_descriptor(path: str | Path, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """The descriptor of a regular file.

    Args:
      flags: as for os.open; a file that it creates is readable for all.
      follow: whether the last part of the path may be a symbolic link: for a name that the user gave; not for a file
        in a directory that comes from somebody else.
    Raises:
      ReproError: no such file, or a link, FIFO, device, directory or socket.
      OSError: this process can open no more files, or the machine is short of something else.
    """
    verb = "write" if flags & os.O_WRONLY else "read"
    try:
        descriptor = os.open(path, flags | _FLAGS | (0 if follow else _NO_LINK), 0o644)
    except OSError as error:
        if error.errno in SHORTAGES:
            raise
        # Linux names a link thus, and a socket, or a FIFO that nobody reads, as the second.
        kind = {errno.ELOOP: "symbolic link", errno.ENXIO: "socket or FIFO"}.get(error.errno or 0)
        raise (_not_regular(path, kind) if kind else ReproError(f"cannot {verb} {path}: {error.strerror}")) from None
    except ValueError:
        raise ReproError(f"cannot {verb} {str(path)!r}: expected a path") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise _not_regular(path, next((name for is_kind, name in _KINDS if is_kind(mode)), "special file"))
    return descriptor


def open_regular(path: str | Path, *, follow: bool = False) -> BinaryIO:
    """Opens a regular file for reading. Arguments and errors are those of `open_descriptor`."""
    return os.fdopen(open_descriptor(path, follow=follow), "rb")


def read_regular(path: str | Path, limit: int, *, follow: bool = False) -> bytes:
    """The bytes of a regular file.

    Args:
      limit: the most bytes that it may have.
      follow: as for `open_descriptor`.
    Raises:
      TooLarge: a longer file.
      ReproError: as `open_descriptor`, and a file that grows while it is read.
    """
    with open_regular(path, follow=follow) as file:
        size = os.fstat(file.fileno()).st_size
        check_size(path, size, limit)
        try:
            # Not limit + 1: as many bytes are allocated as are asked for.
            data = file.read(size + 1)
        except OSError as error:
            if error.errno in SHORTAGES:
                raise
            raise ReproError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > size:
        raise ReproError(f"cannot read {path}: it grows while it is read")
    return data


def check_size(path: str | Path, size: int, limit: int) -> None:
    """TooLarge for a file of more than `limit` bytes."""
    if size > limit:
        raise TooLarge(f"{path}: expected at most {limit:,} bytes, got {size:,}")


def _not_regular(path: str | Path, kind: str) -> ReproError:
    return ReproError(f"{path}: expected a regular file, got a {kind}")
