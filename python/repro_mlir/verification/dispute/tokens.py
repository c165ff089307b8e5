# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tokens: secrets that a prover and its referee share to authenticate each other."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.regular import open_regular

NO_TOKEN = b""
"""The token of a prover that accepts as the referee any process that can connect."""

_SHORTEST, _LONGEST = 16, 1024
_SPACE = b" \t\r\n"


def read_token(path: str | Path) -> bytes:
    """Reads a token from a file and strips the white space around it.

    Raises:
      ReproError: if the file is not regular, other users can access it, or the token is not of 16 to 1024 bytes.
    """
    with open_regular(path, follow=True) as file:
        status = os.fstat(file.fileno())
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise ReproError(f"{path}: expected a token that only its owner can read (chmod 600)")
        # The 64 extra bytes leave room for white space, which `_checked` strips.
        data = file.read(_LONGEST + 64)
    return _checked(data, str(path))


def token_of_environment(name: str) -> bytes | None:
    """Returns the token in an environment variable; None if it is not set. Raises ReproError as `read_token` does."""
    value = os.environ.get(name)
    return None if value is None else _checked(os.fsencode(value), name)


def _checked(data: bytes, where: str) -> bytes:
    token = data.strip(_SPACE)
    if not _SHORTEST <= len(token) <= _LONGEST:
        # The message must not contain any part of the token.
        raise ReproError(f"{where}: expected a token of {_SHORTEST} to {_LONGEST} bytes, got {len(token)}")
    return token
