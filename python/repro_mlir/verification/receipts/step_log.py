# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads steps.jsonl and inputs.bin."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import canonical_json, tensor_record
from repro_mlir.base.files.regular import open_regular
from repro_mlir.base.files.tensor_record import size_of
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.formats import element_type, from_bits
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.verification.receipts.form import Header, Record

_RECORD = 1024
"""The maximum number of bytes of a record without its digests of tensors."""

_DIGEST = 67
"""The number of bytes of a digest in a record, with quotes and comma."""

_CHUNK = 1 << 20


class StepLog:
    """The records of a run, indexed by their number from 1.

    Attributes:
      records: the number of complete records.
      torn: whether an incomplete record follows the last complete one.
    """

    def __init__(self, path: Path, header: Header) -> None:
        """Reads the file; each record is parsed on access."""
        self._path = path
        self._header = header
        tensors = [len(each.signature.inputs) + len(each.signature.outputs) for each in header.programs]
        state = len(header.state)
        longest = _RECORD + _DIGEST * (state + max(tensors))
        if header.microbatches_every is not None:
            # The greatest length of a record is unknown here, because it depends on the number of microbatches of the
            # programs.
            longest = canonical_json.LIMIT
        # The record of a change, which is the shortest, has the digests of the state, the root and the link.
        self._data = _read_lines(path, _DIGEST * (state + 2), longest)
        ends = np.flatnonzero(np.frombuffer(self._data, np.uint8) == ord("\n"))
        self._bounds = np.concatenate([[0], ends + 1]).astype(np.int64)
        self.records = len(ends)
        self.torn = self.bytes_of(self.records) < len(self._data)
        self._input_sizes = [size_of(each.stored_inputs(header.stored)) for each in header.programs]
        # For the records parsed so far: the end of each record's inputs in inputs.bin, its program and its cursor, and
        # which records are steps.
        self._input_ends = [0]
        self._programs: list[int | None] = [None]
        self._cursors = [0]
        self._step_records: list[int] = []
        self._change_records: list[int] = []

    def bytes_of(self, records: int) -> int:
        """Returns the size in bytes of the first `records` records."""
        return int(self._bounds[records])

    def __getitem__(self, record: int) -> Record:
        """Parses and returns a record. Raises ReproError if the record is malformed."""
        if not 1 <= record <= self.records:
            raise ReproError(f"{self._path}: expected a record from 1 to {self.records}, got {record}")
        line = self._data[self._bounds[record - 1] : self._bounds[record] - 1]
        found = Record.load(line, self._header, f"{self._path}, line {record}")
        if record == len(self._input_ends):
            size = 0 if found.program is None else self._input_sizes[found.program]
            self._input_ends.append(self._input_ends[-1] + size)
            self._programs.append(found.program)
            self._cursors.append(found.commitment.cursor)
            (self._change_records if found.program is None else self._step_records).append(record)
        return found

    @property
    def steps(self) -> int:
        """The number of records that are steps. Raises ReproError if a record is malformed."""
        self._see(self.records)
        return len(self._step_records)

    def record_of(self, step: int) -> int:
        """Returns the number of the record of a step; 0 for step 0. Raises ReproError if there is no such step, or a
        record before it is malformed."""
        while 0 < step > len(self._step_records) and len(self._input_ends) <= self.records:
            self._see(len(self._input_ends))
        if not 0 <= step <= len(self._step_records):
            raise ReproError(f"{self._path}: expected a step from 1 to {len(self._step_records)}, got {step}")
        return self._step_records[step - 1] if step else 0

    @property
    def change_records(self) -> Sequence[int]:
        """The records that are not steps, ascending. Raises ReproError as `steps` does."""
        self._see(self.records)
        return self._change_records

    def inputs_end(self, record: int) -> int:
        """Returns the number of bytes of inputs.bin up to and including a record. Raises ReproError as `steps` does."""
        self._see(record)
        return self._input_ends[record]

    def program_of(self, record: int) -> int | None:
        """Returns the number of a record's program; None if it is not a step. Raises ReproError as `steps` does."""
        self._see(record)
        return self._programs[record]

    def cursor_of(self, record: int) -> int:
        """Returns the cursor of a record. Raises ReproError as `steps` does."""
        self._see(record)
        return self._cursors[record]

    def whole(self) -> int:
        """Returns the number of records before the first malformed one."""
        try:
            self._see(self.records)
        except ReproError:
            pass
        return len(self._input_ends) - 1

    def _see(self, record: int) -> None:
        while len(self._input_ends) <= record:
            _ = self[len(self._input_ends)]


def loss_of(record: Record, header: Header) -> float | None:
    """Returns the loss of a step, converted to a float64; None if the record has no loss."""
    for kind in () if record.program is None else header.programs[record.program].signature.outputs:
        if kind.name == "loss" and not kind.shape and record.loss is not None:
            (value,) = StoredInputs([kind]).decode(record.loss, f"step {record.step}: loss")
            return (
                float(from_bits(value, element_type(kind.element))) if ELEMENTS[kind.element].is_bits else float(value)
            )
    return None


def _read_lines(path: Path, shortest: int, longest: int) -> bytes:
    """Reads a file of lines. Stops early if a line is longer than `longest`, or the average line is shorter than
    `shortest`: this bounds memory for a file that is not a step log."""
    data, begin, lines = bytearray(), 0, 0
    with open_regular(path) as file:
        while len(data) - begin <= longest and lines * shortest <= len(data) and (chunk := file.read(_CHUNK)):
            data += chunk
            lines += chunk.count(b"\n")
            begin = data.rfind(b"\n", begin) + 1 or begin
    return bytes(data)


class StoredInputs:
    """The layout of the inputs of a step in inputs.bin: the bytes (H1) of the inputs, concatenated.

    Attributes:
      size: the number of bytes of all inputs.
    """

    def __init__(self, kinds: Sequence[TensorType]) -> None:
        """
        Args:
          kinds: the names and types of the inputs.
        """
        self._kinds = kinds
        self.size = size_of(kinds)

    def encode(self, arrays: Sequence[np.ndarray]) -> bytes:
        """Returns the bytes of `arrays` as inputs.bin contains them."""
        return tensor_record.encode(arrays, self._kinds)

    def decode(self, data: bytes, where: str) -> list[np.ndarray]:
        """Returns read-only arrays from their bytes. Raises ReproError, which names `where`, for bytes that `encode`
        never returns (V4)."""
        return tensor_record.decode(data, self._kinds, where)

    def read(self, file: BinaryIO, path: Path, begin: int, where: str) -> list[np.ndarray]:
        """Reads the arrays at offset `begin` of the open file `path`. Raises ReproError if the file is too short."""
        there = os.fstat(file.fileno()).st_size - begin
        # The size is checked before `read` allocates a buffer of that size.
        if there < self.size:
            raise ReproError(f"{path}: expected {self.size:,} bytes for {where}, got {max(there, 0):,}")
        file.seek(begin)
        return self.decode(file.read(self.size), f"{path}: {where}")
