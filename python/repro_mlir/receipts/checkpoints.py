# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The states that a receipt keeps, as safetensors files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..arrays import TensorType, check_canonical, from_bytes
from ..errors import ReproError
from ..files import read_regular
from ..tensor_file import tensor_header, tensor_parts
from . import storage
from .form import CHECKPOINTS

_NAME = re.compile(CHECKPOINTS + r"/(0|[1-9][0-9]{0,15})\.safetensors", re.ASCII)


def name_of(step: int) -> str:
    """The file, within the receipt, with the state after a step; step 0 is the initial state."""
    return f"{CHECKPOINTS}/{step}.safetensors"


def step_of(name: str) -> int | None:
    """The step whose state a file is named after; None for another file."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


def path_of(receipt: Path, step: int) -> Path:
    """The file with the state after a step."""
    return receipt / name_of(step)


def write(receipt: Path, step: int, kinds: Sequence[TensorType], arrays: Sequence[np.ndarray]) -> None:
    """Keeps a state."""
    storage.write_whole(path_of(receipt, step), tensor_parts(kinds, arrays))


def read(receipt: Path, step: int, kinds: Sequence[TensorType]) -> list[np.ndarray]:
    """New arrays with the state after a step.

    Raises:
      ReproError: no such file, or one that is not as `write` writes it for these tensors, with canonical elements (V4).
    """
    path = path_of(receipt, step)
    header = tensor_header(kinds)
    sizes = [kind.nbytes for kind in kinds]
    size = len(header) + sum(sizes)
    data = read_regular(path, size)
    if len(data) != size:
        raise ReproError(f"{path}: expected {size} bytes, got {len(data)}")
    if not data.startswith(header):
        raise ReproError(f"{path}: expected the safetensors header of the program's state")
    arrays, begin = [], len(header)
    for kind, size in zip(kinds, sizes, strict=True):
        array = from_bytes(data[begin : begin + size], kind).copy()
        check_canonical(array, kind, str(path))
        arrays.append(array)
        begin += size
    return arrays
