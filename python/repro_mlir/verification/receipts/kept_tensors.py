# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The tensors that a receipt keeps, in safetensors files named after their records."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import storage
from repro_mlir.base.files.packed_elements import packed_size, unpack
from repro_mlir.base.files.regular import read_regular
from repro_mlir.base.files.tensor_file import tensor_header, tensor_parts
from repro_mlir.base.numerics.tensors import TensorType, canonical_of, check_canonical
from repro_mlir.verification.receipts.form import CHANGES, CHECKPOINTS


class TensorFolder:
    """The tensor files in one folder of a receipt."""

    def __init__(self, folder: str) -> None:
        """
        Args:
          folder: the name of the folder within the receipt.
        """
        self._folder = folder
        self._name = re.compile(folder + r"/(0|[1-9][0-9]{0,15})\.safetensors", re.ASCII)

    def name_of(self, record: int) -> str:
        """Returns the path of a record's file within the receipt; record 0 is the initial state."""
        return f"{self._folder}/{record}.safetensors"

    def record_of(self, name: str) -> int | None:
        """Returns the record that a file is named after; None for a file of another name."""
        found = self._name.fullmatch(name)
        return int(found[1]) if found else None

    def path_of(self, receipt: Path, record: int) -> Path:
        """Returns the path of a record's file."""
        return receipt / self.name_of(record)

    def write(self, receipt: Path, record: int, kinds: Sequence[TensorType], arrays: Sequence[np.ndarray]) -> None:
        """Writes the tensors of a record; creates the folder if it does not exist."""
        path = self.path_of(receipt, record)
        if not path.parent.exists():
            path.parent.mkdir()
            storage.sync_directory(receipt)
        # The user may have written non-canonical NaNs, which have the same hash; `read` accepts only canonical ones.
        written = [canonical_of(array, kind.element) for array, kind in zip(arrays, kinds, strict=True)]
        storage.write_whole(path, tensor_parts(kinds, written))

    def read(self, receipt: Path, record: int, kinds: Sequence[TensorType]) -> list[np.ndarray]:
        """Reads the tensors of a record into new arrays.

        Raises:
          ReproError: if there is no such file, or if it is not one that `write` writes for tensors of these types.
        """
        path = self.path_of(receipt, record)
        header = tensor_header(kinds)
        sizes = [packed_size(kind) for kind in kinds]
        size = len(header) + sum(sizes)
        data = read_regular(path, size)
        if len(data) != size:
            raise ReproError(f"{path}: expected {size:,} bytes, got {len(data):,}")
        if not data.startswith(header):
            raise ReproError(f"{path}: expected the safetensors header of the tensors of record {record}")
        arrays, begin = [], len(header)
        for kind, size in zip(kinds, sizes, strict=True):
            array = unpack(data[begin : begin + size], kind)
            check_canonical(array, kind, str(path))
            arrays.append(array)
            begin += size
        return arrays


checkpoints = TensorFolder(CHECKPOINTS)
"""The files with the whole state after a record."""

changes = TensorFolder(CHANGES)
"""The files with the tensors that a state change by the user has modified."""
