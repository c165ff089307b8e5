# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Detects the type of a command's input file by its first bytes or its archive members, and lists the commands that
accept each type."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.archive import member_names
from repro_mlir.base.files.regular import open_regular
from repro_mlir.program.microbatches import is_microbatch_data
from repro_mlir.program.modules import is_module
from repro_mlir.runner.manifest import MANIFEST
from repro_mlir.verification.receipts.form import HEADER, INPUTS, SEAL, STEPS

_BEGINNING = 4096
"""The number of bytes of a file that detection reads."""

_PARTS = (HEADER, SEAL, STEPS, INPUTS)
_STORED = b"\x89repro-mlir\r\n\x1a\n\0"


@dataclass(frozen=True)
class FileKind:
    """A file type.

    Attributes:
      name: the name of the type, with an article, for messages.
      commands: the commands that accept such a file, with the option by which it is passed, for messages.
    """

    name: str
    commands: str


PROGRAM = FileKind("a program file", "repro run, repro inspect, repro roofline predict, repro determinism")
BUNDLE = FileKind("a bundle", "repro run-bundle, repro inspect, repro roofline predict")
RECEIPT = FileKind("a receipt", "repro verify, repro inspect, repro diff, repro dispute, repro attest")
ANSWER = FileKind("the receipt of an answer", "repro verify --model")
SCRIPT = FileKind(
    "a Python script",
    "repro train, repro compile, repro precision, repro diff --targets, repro roofline predict, repro determinism",
)
ONNX = FileKind("an ONNX model", "repro compile, repro run, repro inspect, repro roofline predict, repro determinism")
SAVED_MODEL = FileKind(
    "a SavedModel", "repro compile, repro run, repro inspect, repro roofline predict, repro determinism"
)
PART = FileKind("a file of a receipt", "no command: give the directory")
STORED = FileKind("a stored module", "repro inspect, repro-opt")
STORED_STEP = FileKind("a stored step in microbatches", "repro inspect")
TENSORS = FileKind("a safetensors file", "repro run --state, repro diff --dumps")
ARRAYS = FileKind("an .npz file", "repro run --inputs, repro diff --dumps")
CHECKPOINT = FileKind("a file of torch.save", "repro diff --dumps")
MODULE = FileKind(
    "an MLIR module", "repro compile, repro run, repro inspect, repro roofline predict, repro determinism"
)


def file_kind_of(path: str | Path) -> FileKind | None:
    """Returns the type of a file or directory, or None if the type is unknown or the path cannot be read."""
    path = Path(path)
    try:
        if path.is_dir():
            # Reading a SavedModel runs code from it, so a directory with a receipt header is never treated as a
            # SavedModel.
            if (path / HEADER).is_file():
                return RECEIPT
            return SAVED_MODEL if (path / "saved_model.pb").is_file() else None
        if path.name in _PARTS and (path.parent / HEADER).is_file():
            return PART
        with open_regular(path, follow=True) as file:
            data = file.read(_BEGINNING)
    except (OSError, ReproError, ValueError):
        return None
    # A bundle starts like a zip file or with a `#!` line, because Python can run a bundle. Archive members identify
    # bundles.
    if members := member_names(path):
        return _archive(members)
    if data.startswith(_STORED):
        return STORED
    if is_microbatch_data(data):
        return STORED_STEP
    if data[8:10] == b'{"' and int.from_bytes(data[:8], "little") <= path.stat().st_size:
        return TENSORS
    if path.suffix == ".py":
        return SCRIPT
    if path.suffix == ".onnx":
        return ONNX
    if data.lstrip().startswith(b"{"):
        # Only the beginning of the JSON is checked here. The code that reads answers checks the rest.
        return ANSWER
    return MODULE if is_module(path) else None


def _archive(members: set[str]) -> FileKind | None:
    if MANIFEST in members:
        return BUNDLE
    if "signature.json" in members:
        return PROGRAM
    if any(name.endswith("/data.pkl") for name in members):
        return CHECKPOINT
    return ARRAYS if all(name.endswith(".npy") for name in members) else None


def expect(path: str | Path, *kinds: FileKind) -> FileKind | None:
    """Checks that a file has one of the types `kinds` and returns its type. Returns None if the type is unknown: the
    code that reads the file then reports the error.

    Raises:
      ReproError: the type is known but not one of `kinds`; the message lists the commands that accept files of this
        type.
    """
    found = file_kind_of(path)
    if found is not None and found not in kinds:
        raise ReproError(
            f"{path}: expected {' or '.join(kind.name for kind in kinds)}, got {found.name} (taken by {found.commands})"
        )
    return found
