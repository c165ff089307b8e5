# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""steps.jsonl and inputs.bin, read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .. import tensor_record
from ..arrays import TensorType
from ..errors import ReproError
from ..files import open_regular
from ..reference.formats import element_type, from_bits
from .form import Signature, StepRecord

_RECORD = 1024
"""The most bytes of a record beside its digests of tensors."""

_DIGEST = 67
"""Bytes of a digest in a record, with quotes and comma."""

_CHUNK = 1 << 20


class StepLog:
    """The records of the steps, by their number from 1.

    Attributes:
      steps: how many whole records there are.
      torn: whether part of a record follows the last one.
    """

    def __init__(self, path: Path, signature: Signature) -> None:
        """Reads the file; the records are parsed when they are asked for."""
        self._path = path
        self._signature = signature
        count = len(signature.state) + len(signature.inputs) + len(signature.outputs)
        self._data = _read_lines(path, _DIGEST * (count + 2), _RECORD + _DIGEST * count)
        ends = np.flatnonzero(np.frombuffer(self._data, np.uint8) == ord("\n"))
        self._bounds = np.concatenate([[0], ends + 1]).astype(np.int64)
        self.steps = len(ends)
        self.torn = self.bytes_of(self.steps) < len(self._data)

    def bytes_of(self, steps: int) -> int:
        """The size of the first `steps` records."""
        return int(self._bounds[steps])

    def __getitem__(self, step: int) -> StepRecord:
        """The record of a step. ReproError for one without the form of a record."""
        if not 1 <= step <= self.steps:
            raise ReproError(f"{self._path}: expected a step from 1 to {self.steps}, got {step}")
        line = self._data[self._bounds[step - 1] : self._bounds[step] - 1]
        return StepRecord.load(line, self._signature, f"{self._path}: line {step}")


def loss_of(record: StepRecord, signature: Signature) -> float | None:
    """The loss of a step as a number, as far as a float64 holds it; None where its record has none."""
    for kind in signature.outputs:
        if kind.name == "loss" and not kind.shape and record.loss is not None:
            (value,) = StoredInputs([kind]).decode(record.loss, f"step {record.step}: loss")
            return float(from_bits(value, element_type(kind.element))) if kind.dtype.kind == "u" else float(value)
    return None


def _read_lines(path: Path, shortest: int, longest: int) -> bytes:
    """The file up to lines that are longer, or together shorter, than records: nothing is read that is no record's."""
    data, begin, lines = bytearray(), 0, 0
    with open_regular(path) as file:
        while len(data) - begin <= longest and lines * shortest <= len(data) and (chunk := file.read(_CHUNK)):
            data += chunk
            lines += chunk.count(b"\n")
            begin = data.rfind(b"\n", begin) + 1 or begin
    return bytes(data)


class StoredInputs:
    """The records of inputs.bin: for each step the bytes (H1) of some inputs, one after the other.

    Attributes:
      size: bytes of a record.
    """

    def __init__(self, kinds: Sequence[TensorType]) -> None:
        """
        Args:
          kinds: the inputs in a record.
        """
        self._kinds = kinds
        self.size = tensor_record.size_of(kinds)

    def encode(self, arrays: Sequence[np.ndarray]) -> bytes:
        """The record with these arrays."""
        return tensor_record.encode(arrays, self._kinds)

    def decode(self, record: bytes, where: str) -> list[np.ndarray]:
        """The arrays of a record, which cannot be written to. ReproError, with `where` it is, for bytes that `encode`
        does not give (V4)."""
        return tensor_record.decode(record, self._kinds, where)

    def read(self, path: Path, step: int) -> list[np.ndarray]:
        """The arrays of a step, from the file. ReproError where the file has no such record."""
        with open_regular(path) as file:
            there = os.fstat(file.fileno()).st_size - (step - 1) * self.size
            # Before so much is allocated.
            if there < self.size:
                raise ReproError(f"{path}: expected {self.size} bytes for step {step}, got {max(there, 0)}")
            file.seek((step - 1) * self.size)
            return self.decode(file.read(self.size), f"{path}: step {step}")
