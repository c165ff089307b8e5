# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The files of a receipt: those present, those required, and the seal's description of each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.base.files.regular import open_regular
from repro_mlir.base.files.storage import PARTIAL
from repro_mlir.base.numerics.digest import blake3_of_chunks
from repro_mlir.verification.receipts.form import (
    CHANGES,
    CHECKPOINTS,
    HEADER,
    INPUTS,
    PROGRAMS,
    SEAL,
    STEPS,
    FileDigest,
    Header,
)
from repro_mlir.verification.receipts.kept_tensors import changes, checkpoints
from repro_mlir.verification.receipts.step_log import StepLog

_CHUNK = 1 << 23
_FOLDERS = (CHECKPOINTS, CHANGES, PROGRAMS)
_PROGRAM = re.compile(PROGRAMS + r"/[0-9a-f]{64}\.repro", re.ASCII)


@dataclass(frozen=True)
class FileList:
    """The contents of a receipt's directory.

    Attributes:
      names: the sorted paths of all files, relative to the receipt, with "/"; entries that are not regular files are
        included.
      kept: the records after which the state is kept, ascending.
      changed: the records that have a file with the tensors that the user changed, ascending.
    """

    names: tuple[str, ...]
    kept: tuple[int, ...]
    changed: tuple[int, ...]

    def require(self, needed: Iterable[str]) -> None:
        """Raises ReceiptWrong for the first name, in sorted order, that has no file."""
        for name in sorted({*needed} - self._there):
            raise ReceiptWrong(name, "the receipt does not have this file")

    @cached_property
    def _there(self) -> frozenset[str]:
        return frozenset(self.names)


def list_files(receipt: Path) -> FileList:
    """Lists the files of a receipt.

    Raises:
      ReproError: `checkpoints`, `changes` or `programs` exists but is not a directory (or is a symbolic link), or a
        directory cannot be read.
    """
    names = []
    try:
        for entry in os.scandir(receipt):
            if entry.name not in _FOLDERS:
                names.append(entry.name)
            elif entry.is_symlink() or not entry.is_dir():
                raise ReproError(f"{entry.path}: expected a directory")
            else:
                names += [f"{entry.name}/{inner.name}" for inner in os.scandir(entry.path)]
    except OSError as error:
        raise ReproError(f"cannot read {error.filename or receipt}: {error.strerror}") from None
    kept, changed = (
        tuple(sorted(record for name in names if (record := files.record_of(name)) is not None))
        for files in (checkpoints, changes)
    )
    return FileList(tuple(sorted(names)), kept, changed)


def describe_files(receipt: Path) -> dict[str, FileDigest]:
    """Returns the size and digest of every file except the seal."""
    names = [name for name in list_files(receipt).names if name != SEAL]
    return {name: describe_file(receipt / name) for name in names}


def describe_file(path: Path) -> FileDigest:
    """Returns the size and digest of a file. Raises ReproError if the file is not regular."""
    size = 0

    def chunks() -> Iterator[bytes]:
        nonlocal size
        size = 0
        with open_regular(path) as file:
            while chunk := file.read(_CHUNK):
                size += len(chunk)
                yield chunk

    digest = blake3_of_chunks(chunks).hex()
    return FileDigest(size, digest)


def always_needed(header: Header) -> set[str]:
    """Returns the files that every receipt with this header must have, regardless of its records."""
    programs = {header.program_file(i) for i in range(len(header.programs))}
    return {HEADER, STEPS, INPUTS, checkpoints.name_of(0), *programs}


def leftovers(found: FileList, header: Header, records: int) -> list[str]:
    """Returns the files that an interrupted write has left: they are not part of the receipt and can be deleted.

    Args:
      header: the header of the receipt.
      records: the number of records of the receipt.
    """
    partial = [name for name in found.names if name.endswith(PARTIAL) and _is_rewritten(name.removesuffix(PARTIAL))]
    listed = {header.program_file(i) for i in range(len(header.programs))}
    programs = [name for name in found.names if _PROGRAM.fullmatch(name) and name not in listed]
    return partial + programs + [changes.name_of(record) for record in found.changed if record > records]


def _is_rewritten(name: str) -> bool:
    is_tensors = any(files.record_of(name) is not None for files in (checkpoints, changes))
    return name in (SEAL, HEADER) or is_tensors or _PROGRAM.fullmatch(name) is not None


def check_names(found: FileList, listed: Iterable[str] | None, header: Header, log: StepLog) -> None:
    """Checks that a receipt has exactly the files that it should have.

    Args:
      found: the files of the receipt.
      listed: the names that the seal lists; None if there is no seal.
      header, log: the header and the step log of the receipt.
    Raises:
      ReceiptWrong: if a file is missing, is not part of the format, or is not listed in the seal.
    """
    needed = always_needed(header) | {changes.name_of(record) for record in log.change_records}
    if listed is not None:
        every = header.checkpoint_every
        kept = [log.record_of(step) for step in range(every, log.steps + 1, every)]
        needed |= {SEAL} | {checkpoints.name_of(record) for record in (*kept, log.records)}
    allowed = needed | {checkpoints.name_of(record) for record in found.kept if record <= log.records}
    if listed is None:
        allowed |= {*leftovers(found, header, log.records)}
    found.require(needed)
    for name in found.names:
        if name not in allowed:
            raise ReceiptWrong(name, "not a part of the receipt")
    if listed is not None:
        for name in sorted({*found.names} - {SEAL} ^ {*listed}):
            there = "in the receipt" if name in found.names else f"in {SEAL}"
            raise ReceiptWrong(name, f"only {there}, expected in the receipt and in {SEAL}")
