# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Opens untrusted files safely: rejects special files, which may block or be endless, and unexpected symbolic links."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from repro_mlir.base.errors import SHORTAGES, ReproError

# A flag is 0 on systems that do not define it.
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
    """Raised when a file is larger than the limit."""


def open_descriptor(path: str | Path, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """Opens a regular file and returns its descriptor.

    Args:
      flags: as for os.open; a created file is readable by all users.
      follow: whether the last component of the path may be a symbolic link. Pass True for a path that the user named,
        False for a file in an untrusted directory.
    Raises:
      ReproError: the file cannot be opened, or is a FIFO, device, directory, socket or (unless `follow`) symbolic link.
      OSError: the machine has a resource shortage (`SHORTAGES`), such as too many open files.
    """
    verb = "write" if flags & os.O_WRONLY else "read"
    try:
        descriptor = os.open(path, flags | _FLAGS | (0 if follow else _NO_LINK), 0o644)
    except OSError as error:
        if error.errno in SHORTAGES:
            raise
        # Linux reports ELOOP for a symbolic link, and ENXIO for a socket or a FIFO without a reader.
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
    """Opens a regular file for reading, with the arguments and errors of `open_descriptor`."""
    return os.fdopen(open_descriptor(path, follow=follow), "rb")


def read_regular(path: str | Path, limit: int, *, follow: bool = False) -> bytes:
    """Returns the bytes of a regular file.

    Args:
      limit: the maximum size of the file in bytes.
      follow: as for `open_descriptor`.
    Raises:
      TooLarge: the file is larger than `limit`.
      ReproError: as `open_descriptor`; also if the file grows during the read.
    """
    with open_regular(path, follow=follow) as file:
        size = os.fstat(file.fileno()).st_size
        check_size(path, size, limit)
        try:
            # One byte more than `size` detects growth. `limit + 1` would detect it too, but read() would allocate that
            # many bytes.
            data = file.read(size + 1)
        except OSError as error:
            if error.errno in SHORTAGES:
                raise
            raise ReproError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > size:
        raise ReproError(f"cannot read {path}: another process writes to it")
    return data


def check_size(path: str | Path, size: int, limit: int) -> None:
    """Raises TooLarge if `size` exceeds `limit` bytes."""
    if size > limit:
        raise TooLarge(f"{path}: expected at most {limit:,} bytes, got {size:,}")


def _not_regular(path: str | Path, kind: str) -> ReproError:
    return ReproError(f"{path}: expected a regular file, got a {kind}")
