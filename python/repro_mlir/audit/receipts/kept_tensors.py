# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The tensors that a receipt keeps, as safetensors files named after the record that they belong to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from repro_mlir.audit.receipts.form import CHANGES, CHECKPOINTS
from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import storage
from repro_mlir.base.files.packed_elements import packed_size, unpack
from repro_mlir.base.files.regular import read_regular
from repro_mlir.base.files.tensor_file import tensor_header, tensor_parts
from repro_mlir.base.numerics.tensors import TensorType, canonical_of, check_canonical


class KeptTensors:
    """The files of one folder of a receipt."""

    def __init__(self, folder: str) -> None:
        """
        Args:
          folder: its name within the receipt.
        """
        self._folder = folder
        self._name = re.compile(folder + r"/(0|[1-9][0-9]{0,15})\.safetensors", re.ASCII)

    def name_of(self, record: int) -> str:
        """The file of a record within the receipt; record 0 is the initial state."""
        return f"{self._folder}/{record}.safetensors"

    def record_of(self, name: str) -> int | None:
        """The record that a file is named after; None for another file."""
        found = self._name.fullmatch(name)
        return int(found[1]) if found else None

    def path_of(self, receipt: Path, record: int) -> Path:
        """The file of a record."""
        return receipt / self.name_of(record)

    def write(self, receipt: Path, record: int, kinds: Sequence[TensorType], arrays: Sequence[np.ndarray]) -> None:
        """Keeps tensors; makes the folder where it is not there."""
        path = self.path_of(receipt, record)
        if not path.parent.exists():
            path.parent.mkdir()
            storage.sync_directory(receipt)
        # The user may have written other NaNs, which hash alike.
        written = [canonical_of(array, kind.element) for array, kind in zip(arrays, kinds, strict=True)]
        storage.write_whole(path, tensor_parts(kinds, written))

    def read(self, receipt: Path, record: int, kinds: Sequence[TensorType]) -> list[np.ndarray]:
        """New arrays with the tensors of a record.

        Raises:
          ReproError: no such file, or one that is not as `write` writes it for these tensors, with canonical elements
            (V4).
        """
        path = self.path_of(receipt, record)
        header = tensor_header(kinds)
        sizes = [packed_size(kind) for kind in kinds]
        size = len(header) + sum(sizes)
        data = read_regular(path, size)
        if len(data) != size:
            raise ReproError(f"{path}: expected {size} bytes, got {len(data)}")
        if not data.startswith(header):
            raise ReproError(f"{path}: expected the safetensors header of the tensors of record {record}")
        arrays, begin = [], len(header)
        for kind, size in zip(kinds, sizes, strict=True):
            array = unpack(data[begin : begin + size], kind)
            check_canonical(array, kind, str(path))
            arrays.append(array)
            begin += size
        return arrays


checkpoints = KeptTensors(CHECKPOINTS)
"""The state after a record."""

changes = KeptTensors(CHANGES)
"""The tensors that differ after a change of the user's from those before it."""
