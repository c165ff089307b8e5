# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a file that was given to a command is, told by its beginning or its members, and which commands take it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from repro_mlir.audit.receipts.form import HEADER, INPUTS, SEAL, STEPS
from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.archive import member_names
from repro_mlir.base.files.regular import open_regular
from repro_mlir.bundle.runner.manifest import MANIFEST
from repro_mlir.program.modules import is_module

_BEGINNING = 4096
"""Bytes of a file that are looked at."""

_PARTS = (HEADER, SEAL, STEPS, INPUTS)
_STORED = b"\x89repro-mlir\r\n\x1a\n\0"


@dataclass(frozen=True)
class FileKind:
    """A kind of files.

    Attributes:
      name: with its article.
      commands: that take such a file, and how.
    """

    name: str
    commands: str


PROGRAM = FileKind("a program file", "repro run, repro inspect, repro roofline predict")
BUNDLE = FileKind("a bundle", "repro run-bundle, repro inspect, repro roofline predict")
RECEIPT = FileKind("a receipt", "repro verify, repro inspect, repro diff, repro dispute, repro attest")
ANSWER = FileKind("the receipt of an answer", "repro verify --model")
SCRIPT = FileKind(
    "a Python script", "repro train, repro compile, repro precision, repro diff --targets, repro roofline predict"
)
ONNX = FileKind("an ONNX model", "repro compile, repro run, repro inspect, repro roofline predict")
SAVED_MODEL = FileKind("a SavedModel", "repro compile, repro run, repro inspect, repro roofline predict")
PART = FileKind("a file of a receipt", "no command: give the directory")
STORED = FileKind("a stored module", "repro-opt")
TENSORS = FileKind("a safetensors file", "repro run --state")
ARRAYS = FileKind("an .npz file", "repro run --inputs")
CHECKPOINT = FileKind("a file of torch.save", "no command: torch.load reads it")
MODULE = FileKind("an MLIR module", "repro compile, repro run, repro inspect, repro roofline predict")


def kind_of(path: str | Path) -> FileKind | None:
    """What a file or directory is; None where that is not to be seen, or it cannot be read."""
    path = Path(path)
    try:
        if path.is_dir():
            # To read a SavedModel runs code of it: what calls itself a receipt is none.
            if (path / HEADER).is_file():
                return RECEIPT
            return SAVED_MODEL if (path / "saved_model.pb").is_file() else None
        if path.name in _PARTS and (path.parent / HEADER).is_file():
            return PART
        with open_regular(path, follow=True) as file:
            data = file.read(_BEGINNING)
    except (OSError, ReproError, ValueError):
        return None
    # A bundle begins as a zip, or with the line of a script: Python runs it.
    if members := member_names(path):
        return _archive(members)
    if data.startswith(_STORED):
        return STORED
    if data[8:10] == b'{"' and int.from_bytes(data[:8], "little") <= path.stat().st_size:
        return TENSORS
    if path.suffix == ".py":
        return SCRIPT
    if path.suffix == ".onnx":
        return ONNX
    if data.lstrip().startswith(b"{"):
        # What else it says is for its reader.
        return ANSWER
    return MODULE if is_module(path) else None


def _archive(members: set[str]) -> FileKind | None:
    if MANIFEST in members:
        return BUNDLE
    if {"program.repro", "program.mlir"} & members:
        return PROGRAM
    if any(name.endswith("/data.pkl") for name in members):
        return CHECKPOINT
    return ARRAYS if all(name.endswith(".npy") for name in members) else None


def expect(path: str | Path, *kinds: FileKind) -> FileKind | None:
    """What a file is, which is one of `kinds` or not to be seen: its reader finds what is wrong with it.

    Raises:
      ReproError: it is of another kind, with the commands that take that.
    """
    found = kind_of(path)
    if found is not None and found not in kinds:
        raise ReproError(
            f"{path}: expected {' or '.join(kind.name for kind in kinds)}, got {found.name} (taken by {found.commands})"
        )
    return found
