# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Recognizes the form of a file with tensors by its first bytes, and reads its headers."""

from __future__ import annotations

import os
from typing import TypeAlias

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.archive import member_names
from repro_mlir.base.files.regular import open_regular
from repro_mlir.tensor_dumps.npy_files import read_npy, read_npz
from repro_mlir.tensor_dumps.pickled_tensors import read_checkpoint
from repro_mlir.tensor_dumps.safetensors_files import read_safetensors
from repro_mlir.tensor_dumps.stored_tensors import Span, StoredTensor

SUFFIXES = (".safetensors", ".npy", ".npz", ".pt", ".pth", ".bin", ".ckpt")
"""The ends of names of files with tensors."""

# A number is an f64, i64 or bool array of shape (). A text is any other value of a checkpoint, as repr writes it.
_BEGINNING = 512
"""The number of bytes at the beginning of a file that tell its form."""

Value: TypeAlias = StoredTensor | np.ndarray | str


def read_values(path: str, follow: bool) -> dict[str, Value]:
    """Returns the values of a file by name, in the order of the file; the name of the value of a .npy file, or of a
    checkpoint that is a single tensor, is "".

    Args:
      path: a regular file.
      follow: whether the path may be a symbolic link.
    Raises:
      ReproError: the file cannot be read, or has another form than .npy, .npz, safetensors or a zip file of torch.save.
    """
    with open_regular(path, follow=follow) as file:
        size = os.fstat(file.fileno()).st_size
        beginning = file.read(_BEGINNING)
    if beginning[:6] == b"\x93NUMPY":
        return {"": read_npy(Span(path, follow, 0, size))}
    if beginning[:4] in (b"PK\3\4", b"PK\5\6"):
        # torch.save writes this member first, and a file that was cut off has no list of its members.
        is_checkpoint = b"/data.pkl" in beginning or any(name.endswith("/data.pkl") for name in member_names(path))
        return {**(read_checkpoint if is_checkpoint else read_npz)(path, follow)}
    if beginning[8:9] == b"{":
        return {**read_safetensors(path, follow)}
    if beginning[:1] == b"\x80":
        raise ReproError(
            f"{path}: expected a zip file of torch.save, got a pickle, which was not executed: load the file with a "
            "PyTorch that you trust and save its state_dict"
        )
    raise ReproError(
        f"{path}: expected a safetensors file, a .npy or .npz file, or a checkpoint of torch.save, got "
        + ("an empty file" if size == 0 else "another file")
    )
