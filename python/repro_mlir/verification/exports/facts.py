# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Collects the statements of a finished receipt about its run, for all exports."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from repro_mlir.base.files.regular import open_regular
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.formats import element_type, from_bits
from repro_mlir.base.numerics.hashing import combine_digests
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.verification.receipts.consistency import check_consistency
from repro_mlir.verification.receipts.form import HEADER, INPUTS, SEAL, STEPS, Header, Record, Seal
from repro_mlir.verification.receipts.kept_tensors import changes, checkpoints
from repro_mlir.verification.receipts.receipt import Receipt
from repro_mlir.verification.receipts.step_log import StoredInputs

_CHUNK = 1 << 23


@dataclass(frozen=True)
class File:
    """A file of a receipt.

    Attributes:
      name: the path within the receipt.
      size: the number of bytes.
      sha256: the SHA-256 hash, in hexadecimal.
    """

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class HyperParameter:
    """The values of a scalar hyper-parameter, which is an input of the steps.

    Attributes:
      name: the name of the input.
      first, last: the values in the first and in the last step that have this input, as decimal numbers.
      least, greatest: the smallest and the largest value of all steps; a NaN counts only if all values are NaN.
    """

    name: str
    first: str
    last: str
    least: str
    greatest: str

    def __str__(self) -> str:
        if self.first == self.last == self.least == self.greatest:
            return self.first
        return f"{self.first} at first, {self.last} at last, from {self.least} to {self.greatest}"


@dataclass(frozen=True)
class Batch:
    """The batch of a step.

    Attributes:
      step: the number of the step.
      number: the number of the batch in the order in which batches were taken from the data, counted from 1.
      tensors: the names of the tensors, each with its digest (H1).
    """

    step: int
    number: int
    tensors: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class Facts:
    """The statements of a finished receipt about its run.

    Attributes:
      receipt: the receipt.
      header, seal: its receipt.json and seal.json.
      files: all files of the receipt, by name.
      steps_of: the number of steps of each program, in the order of `header.programs`.
      hyper_parameters: the scalar hyper-parameters, in the order of their first use.
      batches: the batches of the steps, in the order of the steps.
      taken: the number of batches that were taken from the data, including those whose steps failed (E1).
      first_loss, last_loss: the losses of the first and of the last step as decimal numbers; None if a step has none.
      changed: the records that are changes of the state by the user.
    """

    receipt: Receipt
    header: Header
    seal: Seal
    files: dict[str, File]
    steps_of: tuple[int, ...]
    hyper_parameters: tuple[HyperParameter, ...]
    batches: tuple[Batch, ...]
    taken: int
    first_loss: str | None
    last_loss: str | None
    changed: tuple[int, ...]

    @property
    def result(self) -> File:
        """The file with the last state."""
        return self.files[checkpoints.name_of(self.receipt.log.records)]

    @property
    def initial(self) -> File:
        """The file with the initial state."""
        return self.files[checkpoints.name_of(0)]

    @property
    def changes(self) -> list[File]:
        """The files with the tensors that the user changed."""
        return [self.files[changes.name_of(record)] for record in self.changed]

    @property
    def programs(self) -> list[File]:
        """The files of the programs, in the order of `header.programs`."""
        return [self.files[self.header.program_file(i)] for i in range(len(self.header.programs))]

    @property
    def records(self) -> list[File]:
        """The files that record the run: receipt.json, steps.jsonl, inputs.bin and seal.json."""
        return [self.files[name] for name in (HEADER, STEPS, INPUTS, SEAL)]

    @property
    def signed_by(self) -> str | None:
        """The public key of the receipt's signature, in hexadecimal; None if the receipt is not signed."""
        return self.seal.signature[0].hex() if self.seal.signature else None

    @cached_property
    def data_hash(self) -> str:
        """The hash (H3) of the digests of all tensors of all batches, in the order of the steps."""
        return combine_digests([digest for batch in self.batches for _, digest in batch.tensors])

    @cached_property
    def different_batches(self) -> int:
        """The number of batches that differ from all batches before them."""
        return len({batch.tensors for batch in self.batches})


def facts_of(receipt: Receipt, key: bytes | None = None) -> Facts:
    """Returns the facts of a finished receipt, after checking the receipt for consistency.

    Args:
      key: the ed25519 public key that must have signed the receipt; None to accept any key or no signature.
    Raises:
      ReceiptWrong: if the receipt contradicts itself, or is not signed by the key.
      ReproError: if the run has not ended, or has no steps.
    """
    check_consistency(receipt, unfinished=False, key=key)
    seal, header, log = receipt.seal, receipt.header, receipt.log
    assert seal is not None
    batches, steps_of = [], Counter[int]()
    for number in range(1, log.records + 1):
        record = log[number]
        if record.program is None:
            continue
        steps_of[record.program] += 1
        signature = header.programs[record.program].signature
        count = signature.num_hyper_parameters
        named = zip(signature.inputs[count:], record.commitment.inputs[count:], strict=True)
        tensors = tuple((kind.name, digest) for kind, digest in named)
        batches.append(Batch(record.step, record.commitment.cursor, tensors))
    return Facts(
        receipt=receipt,
        header=header,
        seal=seal,
        files={name: _file(receipt, name) for name in sorted([*seal.files, SEAL])},
        steps_of=tuple(steps_of[i] for i in range(len(header.programs))),
        hyper_parameters=_hyper_parameters(receipt),
        batches=tuple(batches),
        taken=log[log.records].commitment.cursor,
        first_loss=_loss(log[log.record_of(1)], header),
        last_loss=_loss(log[log.record_of(log.steps)], header),
        changed=tuple(log.change_records),
    )


def _hyper_parameters(receipt: Receipt) -> tuple[HyperParameter, ...]:
    """Returns the scalar hyper-parameters of all steps, in the order of their first use."""
    kinds_of = [each.signature.inputs[: each.signature.num_hyper_parameters] for each in receipt.header.programs]
    if all(kind.shape for kinds in kinds_of for kind in kinds):
        return ()
    log, found = receipt.log, dict[str, list[Any]]()
    with open_regular(receipt.inputs_path) as file:
        for number in range(1, log.records + 1):
            program, step = log[number].program, log[number].step
            if program is not None and not all(kind.shape for kind in kinds_of[program]):
                kinds, begin = kinds_of[program], log.inputs_end(number - 1)
                arrays = StoredInputs(kinds).read(file, receipt.inputs_path, begin, f"step {step}")
                for kind, array in zip(kinds, arrays, strict=True):
                    if not kind.shape:
                        _add_value(found, kind.name, _value(array, kind))
    return tuple(HyperParameter(name, *map(str, values)) for name, values in found.items())


def _add_value(found: dict[str, list[Any]], name: str, value: Any) -> None:
    """Adds a value to the first, last, least and greatest value of each hyper-parameter."""
    first, _, least, greatest = found.setdefault(name, [value] * 4)
    least = value if value < least or least != least else least
    greatest = value if value > greatest or greatest != greatest else greatest
    found[name] = [first, value, least, greatest]


def _value(array: np.ndarray, kind: TensorType) -> Any:
    """Returns the element of an array of shape [] as a number whose text is the shortest that identifies it."""
    is_bits = ELEMENTS[kind.element].is_bits
    return (from_bits(array, element_type(kind.element)) if is_bits else array)[()]


def _loss(record: Record, header: Header) -> str | None:
    assert record.program is not None
    for kind in header.programs[record.program].signature.outputs:
        if kind.name == "loss" and not kind.shape and record.loss is not None:
            (array,) = StoredInputs([kind]).decode(record.loss, f"step {record.step}: loss")
            return str(_value(array, kind))
    return None


def _file(receipt: Receipt, name: str) -> File:
    hasher, size = hashlib.sha256(), 0
    with open_regular(receipt.path / name) as file:
        while chunk := file.read(_CHUNK):
            hasher.update(chunk)
            size += len(chunk)
    return File(name, size, hasher.hexdigest())
