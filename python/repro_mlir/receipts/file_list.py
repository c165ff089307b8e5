# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The files of a receipt: which there are, which there must be, and what the seal says of each."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import blake3

from ..errors import ReceiptWrong, ReproError
from ..files import open_regular
from . import checkpoints
from .form import CHECKPOINTS, HEADER, INPUTS, PROGRAM, SEAL, STEPS, FileDigest
from .storage import PARTIAL

_CHUNK = 1 << 23


@dataclass(frozen=True)
class FileList:
    """What lies in a receipt's directory.

    Attributes:
      names: of all files, as paths within the receipt with "/", sorted; whatever is no regular file among them.
      kept: the steps after which the state is kept, ascending.
    """

    names: tuple[str, ...]
    kept: tuple[int, ...]


def list_files(receipt: Path) -> FileList:
    """The files of a receipt.

    Raises:
      ReproError: `checkpoints` is no directory of its own, such as a link to one, or cannot be read.
    """
    names = []
    try:
        for entry in os.scandir(receipt):
            if entry.name != CHECKPOINTS:
                names.append(entry.name)
            elif entry.is_symlink() or not entry.is_dir():
                raise ReproError(f"{entry.path}: expected a directory")
            else:
                names += [f"{CHECKPOINTS}/{inner.name}" for inner in os.scandir(entry.path)]
    except OSError as error:
        raise ReproError(f"cannot read {error.filename or receipt}: {error.strerror}") from None
    steps = (checkpoints.step_of(name) for name in names)
    return FileList(tuple(sorted(names)), tuple(sorted(step for step in steps if step is not None)))


def describe_files(receipt: Path) -> dict[str, FileDigest]:
    """Size and digest of every file but the seal."""
    names = [name for name in list_files(receipt).names if name != SEAL]
    return {name: describe_file(receipt / name) for name in names}


def describe_file(path: Path) -> FileDigest:
    """Size and digest of a file. ReproError for one that is not regular."""
    hasher, size = blake3.blake3(max_threads=blake3.blake3.AUTO), 0
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            hasher.update(chunk)
            size += len(chunk)
    return FileDigest(size, hasher.hexdigest())


def leftovers(found: FileList) -> list[str]:
    """The files that a write left behind when it was cut off; nothing reads them."""
    partial = [name.removesuffix(PARTIAL) for name in found.names if name.endswith(PARTIAL)]
    return [f"{name}{PARTIAL}" for name in partial if name == SEAL or checkpoints.step_of(name) is not None]


def check_names(found: FileList, listed: Iterable[str] | None, steps: int, every: int) -> None:
    """Checks which files there are.

    Args:
      found: those of the receipt.
      listed: the names that the seal has; None without a seal.
      steps: how many steps the receipt has.
      every: how many lie between two kept states at most.
    Raises:
      ReceiptWrong: a file that is missing, or one that belongs to no receipt or is not listed.
    """
    needed = {HEADER, PROGRAM, STEPS, INPUTS, checkpoints.name_of(0)}
    if listed is not None:
        needed |= {SEAL} | {checkpoints.name_of(step) for step in (*range(every, steps + 1, every), steps)}
    allowed = needed | {checkpoints.name_of(step) for step in found.kept if step <= steps}
    if listed is None:
        allowed |= {*leftovers(found)}
    for name in sorted(needed - set(found.names)):
        raise ReceiptWrong(name, "no such file in the receipt")
    for name in found.names:
        if name not in allowed:
            raise ReceiptWrong(name, "a file that is no part of such a receipt")
    if listed is not None:
        for name in sorted({*found.names} - {SEAL} ^ {*listed}):
            there = "in the receipt" if name in found.names else f"in {SEAL}"
            raise ReceiptWrong(name, f"only {there}, expected in the receipt and in {SEAL}")
