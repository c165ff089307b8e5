# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Artifacts on disk, found by what they were made from."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from .. import ir
from .._mlir_libs import _repro
from .compilation import compile, native_level

_MAGIC = b"repro-cache-1\0\0\0"
_DIGEST_BYTES = 32


def directory() -> Path:
    """Where artifacts are kept: REPRO_MLIR_CACHE, else repro-mlir in the user's cache directory."""
    if path := os.environ.get("REPRO_MLIR_CACHE"):
        return Path(path)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "repro-mlir"


def _compiler_identity() -> bytes:
    """Changes whenever the compiler library does."""
    library = Path(_repro.__file__).parent
    parts = [
        f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}"
        for path in sorted(library.glob("*.so"))
        if "Repro" in path.name or path.name.startswith("_repro")
    ]
    return "\n".join(parts).encode()


def _key(text: bytes, level: str) -> str:
    state = hashlib.sha256()
    for part in (_compiler_identity(), level.encode(), text):
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.hexdigest()


def _read(path: Path) -> bytes | None:
    """The artifact in a file; None if there is none or the file is damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    artifact = content[len(_MAGIC) + _DIGEST_BYTES :]
    if content[: len(_MAGIC)] != _MAGIC:
        return None
    if hashlib.sha256(artifact).digest() != content[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES]:
        return None
    return artifact


def _write(path: Path, artifact: bytes) -> None:
    """Writes a file in one move, so that no reader sees a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(artifact).digest() + artifact)
        os.replace(name, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def cached(text: str, target: str, make: Callable[[], bytes]) -> bytes:
    """What `make` gives for a program and a target, kept in `directory()` and read from there the next time.

    A damaged file is made anew and replaced; a directory that cannot be written to is no error.
    """
    key = _key(text.encode(), target)
    path = directory() / key[:2] / f"{key}.artifact"
    if (artifact := _read(path)) is not None:
        return artifact
    artifact = make()
    with contextlib.suppress(OSError):
        _write(path, artifact)
    return artifact


def cached_compile(module: ir.Module | str, level: str = "native", *, jobs: int | None = None) -> bytes:
    """`compile` with its artifact `cached`."""
    if level == "native":
        level = native_level()
    text = module if isinstance(module, str) else str(module.operation.get_asm(enable_debug_info=True))
    return cached(text, level, lambda: compile(module, level, jobs=jobs))
