# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tokens: what a prover and its referee share, so that no stranger passes for either."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.regular import open_regular

NO_TOKEN = b""
"""Where whoever can connect counts as the referee."""

_SHORTEST, _LONGEST = 16, 1024
_SPACE = b" \t\r\n"


def read_token(path: str | Path) -> bytes:
    """The token in a file, without white space around it.

    Raises:
      ReproError: no regular file, one that other users can read or write, or less than 16 or more than 1024 bytes.
    """
    with open_regular(path, follow=True) as file:
        status = os.fstat(file.fileno())
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise ReproError(f"{path}: expected a token that only its owner can read (chmod 600)")
        # White space is cut afterwards.
        data = file.read(_LONGEST + 64)
    return _checked(data, str(path))


def token_of_environment(name: str) -> bytes | None:
    """The token in an environment variable; None where it is not set. ReproError as `read_token`."""
    value = os.environ.get(name)
    return None if value is None else _checked(os.fsencode(value), name)


def _checked(data: bytes, where: str) -> bytes:
    token = data.strip(_SPACE)
    if not _SHORTEST <= len(token) <= _LONGEST:
        # Nothing of the token is told.
        raise ReproError(f"{where}: expected a token of {_SHORTEST} to {_LONGEST} bytes, got {len(token)}")
    return token
