# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tensors whose rows are divided among several processes, and their hashes (H1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from repro_mlir._mlir_libs import _repro
from repro_mlir.base.numerics.hashing import plain_bytes, tensor_bytes, tensor_header
from repro_mlir.base.numerics.tensors import TensorType


@dataclass(frozen=True)
class DividedTensor:
    """A tensor of which each process has consecutive rows, in the order of the processes.

    For the hash, a process sends a message about its rows: the 32-byte hashes of the largest subtrees of BLAKE3's tree
    that lie within these rows, and fewer than 1024 remaining bytes of rows at each end.

    Attributes:
      kind: the type of the whole tensor.
      rows: the rows of each process, along the first dimension; together, the processes have all rows.
    """

    kind: TensorType
    rows: tuple[range, ...]

    @cached_property
    def _ends(self) -> list[int]:
        """The offset at which each process's part of the hashed bytes ends. The part of process 0 begins with the
        header."""
        row = math.prod(self.kind.shape[1:]) * len(tensor_bytes(np.zeros(1, self.kind.dtype), self.kind.element))
        return [len(self._header) + each.stop * row for each in self.rows]

    @property
    def _header(self) -> bytes:
        return tensor_header(self.kind.element, self.kind.shape)

    def _begin(self, process: int) -> int:
        return self._ends[process - 1] if process else 0

    def size(self, process: int) -> int:
        """Returns the size in bytes of a process's message, see `told`."""
        size: int = _repro.hash_stretch_size(self._begin(process), self._ends[process], self._ends[-1])
        return size

    def told(self, process: int, rows: np.ndarray) -> bytes:
        """Returns the message that a process sends about its `rows`. From the messages of all processes, `digest`
        computes the hash."""
        data = np.frombuffer(plain_bytes(rows, self.kind.element), np.uint8) if rows.size else np.empty(0, np.uint8)
        if process == 0:
            data = np.concatenate([np.frombuffer(self._header, np.uint8), data])
        found: bytes = _repro.hash_stretch(data, self._begin(process), self._ends[-1])
        return found

    def digest(self, told: Sequence[bytes]) -> bytes:
        """(H1) Returns the digest of the whole tensor, from the messages of all processes."""
        digest: bytes = _repro.hash_of_stretches([*told], self._ends)
        return digest
