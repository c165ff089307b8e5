# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks the paths of files that a user names for output."""

from __future__ import annotations

import os
from pathlib import Path

from repro_mlir.base.errors import ReproError

RECEIPT_FILES = ("receipt.json", "steps.jsonl")
"""Files by which a folder is known to be a receipt; verification/receipts/form.py defines their contents."""

_ENDINGS = (
    *(".bin", ".ckpt", ".gguf", ".h5", ".html", ".joblib", ".json", ".keras", ".npy", ".npz", ".onnx", ".pickle"),
    *(".pkl", ".pt", ".pt2", ".pth", ".repro", ".safetensors"),
)
"""Endings that state the format of a file."""


def refuse_other_format(path: str | Path, ending: str) -> None:
    """Raises ReproError if the name of a file ends as those of another format; `ending` is that of the file's own."""
    found = Path(path).suffix
    if found.lower() in _ENDINGS and found.lower() != ending:
        raise ReproError(f"cannot write {path}: expected a name that ends in {ending}, got {found}: give another name")


def refuse_inside_receipt(path: str | Path) -> None:
    """Raises ReproError if a path is that of a receipt or within one, to which only the trainer of its run may add
    files: any other file makes the receipt wrong."""
    target = Path(os.path.realpath(path))
    for folder in (target, *target.parents):
        if all((folder / name).is_file() for name in RECEIPT_FILES):
            raise ReproError(
                f"cannot write {path}: {folder} is a receipt, which another file would make wrong: name a path outside"
            )
