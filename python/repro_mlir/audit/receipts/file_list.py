# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The files of a receipt: which there are, which there must be, and what the seal says of each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from repro_mlir.audit.receipts.form import (
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
from repro_mlir.audit.receipts.kept_tensors import changes, checkpoints
from repro_mlir.audit.receipts.step_log import StepLog
from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.base.files.regular import open_regular
from repro_mlir.base.files.storage import PARTIAL
from repro_mlir.base.numerics.digest import blake3_of_chunks

_CHUNK = 1 << 23
_FOLDERS = (CHECKPOINTS, CHANGES, PROGRAMS)
_PROGRAM = re.compile(PROGRAMS + r"/[0-9a-f]{64}\.repro", re.ASCII)


@dataclass(frozen=True)
class FileList:
    """What lies in a receipt's directory.

    Attributes:
      names: of all files, as paths within the receipt with "/", sorted; whatever is no regular file among them.
      kept: the records after which the state is kept, ascending.
      changed: the records of which there is a file with what the user changed, ascending.
    """

    names: tuple[str, ...]
    kept: tuple[int, ...]
    changed: tuple[int, ...]

    def require(self, needed: Iterable[str]) -> None:
        """ReceiptWrong for the first name of which there is no file."""
        for name in sorted({*needed} - self._there):
            raise ReceiptWrong(name, "no such file in the receipt")

    @cached_property
    def _there(self) -> frozenset[str]:
        return frozenset(self.names)


def list_files(receipt: Path) -> FileList:
    """The files of a receipt.

    Raises:
      ReproError: a folder of the receipt is no directory of its own, such as a link to one, or cannot be read.
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
    """Size and digest of every file but the seal."""
    names = [name for name in list_files(receipt).names if name != SEAL]
    return {name: describe_file(receipt / name) for name in names}


def describe_file(path: Path) -> FileDigest:
    """Size and digest of a file. ReproError for one that is not regular."""
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
    """The files that a receipt with this header has, whatever its records."""
    programs = {header.program_file(i) for i in range(len(header.programs))}
    return {HEADER, STEPS, INPUTS, checkpoints.name_of(0), *programs}


def leftovers(found: FileList, header: Header, records: int) -> list[str]:
    """The files that a write left behind when it was cut off; nothing reads them.

    Args:
      header: of the receipt.
      records: how many records the receipt has.
    """
    whole = (SEAL, HEADER) if header.version > 1 else (SEAL,)
    partial = [name for name in found.names if name.endswith(PARTIAL) and _is_kept(name.removesuffix(PARTIAL), whole)]
    if header.version == 1:
        return partial
    listed = {header.program_file(i) for i in range(len(header.programs))}
    programs = [name for name in found.names if _PROGRAM.fullmatch(name) and name not in listed]
    return partial + programs + [changes.name_of(record) for record in found.changed if record > records]


def _is_kept(name: str, whole: Sequence[str]) -> bool:
    is_tensors = any(files.record_of(name) is not None for files in (checkpoints, changes))
    return name in whole or is_tensors or _PROGRAM.fullmatch(name) is not None


def check_names(found: FileList, listed: Iterable[str] | None, header: Header, log: StepLog) -> None:
    """Checks which files there are.

    Args:
      found: those of the receipt.
      listed: the names that the seal has; None without a seal.
      header, log: of the receipt.
    Raises:
      ReceiptWrong: a file that is missing, or one that belongs to no receipt or is not listed.
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
            raise ReceiptWrong(name, "a file that is no part of such a receipt")
    if listed is not None:
        for name in sorted({*found.names} - {SEAL} ^ {*listed}):
            there = "in the receipt" if name in found.names else f"in {SEAL}"
            raise ReceiptWrong(name, f"only {there}, expected in the receipt and in {SEAL}")
