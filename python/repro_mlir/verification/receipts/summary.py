# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Summarizes a receipt, whose run may be unfinished. Only the format, the signature, and what the seal states about
records and names of files are checked."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.base.files.regular import open_descriptor
from repro_mlir.base.printing import count_of, foreign
from repro_mlir.verification.receipts import signing
from repro_mlir.verification.receipts.consistency import contradictions
from repro_mlir.verification.receipts.file_list import FileList, check_names, list_files
from repro_mlir.verification.receipts.form import SEAL, VERSION, Record, Seal
from repro_mlir.verification.receipts.receipt import Receipt
from repro_mlir.verification.receipts.step_log import loss_of

_MOST_LINES = 16
"""The maximum number of programs, and of environment entries, in a human-readable summary."""


@dataclass(frozen=True)
class Summary:
    """The summary of a receipt.

    Attributes:
      version: the version of the format.
      numerics: the version of the numerics page.
      programs: the number of steps of each program, by the program's identity.
      state_tensors, state_elements, state_bytes: the numbers of tensors, elements and bytes of the state.
      initial: the root of the initial state (C3), in hexadecimal.
      steps, changes: the numbers of records that are steps and state changes.
      batches: the number of batches taken from the data up to the last record.
      stored: whether the receipt has the batches.
      script: the name of the script that yields the batches, or None.
      script_blake3: the BLAKE3 hash of this script, in hexadecimal, as the receipt states; None without a script.
      losses: the loss of the first step and that of the last step, None for a step without a loss; empty if neither
        has one.
      checkpoints: the records after which the state is kept; 0 is the initial state.
      nonfinite_loss: the run's reaction to a loss that is NaN or infinite.
      microbatches_every: the steps from one that commits to its microbatches to the next; None if no step does.
      environment: the environment in which the run began.
      chain: the last link, in hexadecimal.
      finished: whether the run has ended.
      state_hash: the hash of the last state (H3), in hexadecimal; None for an unfinished run.
      signed_by: the public key of the valid signature, in hexadecimal; None if there is no signature.
      files, bytes: the number of files and their total number of bytes.
      conflicts: what the seal states otherwise than the records and the names of the files; such a receipt is wrong.
    """

    version: int
    numerics: int
    programs: dict[str, int]
    state_tensors: int
    state_elements: int
    state_bytes: int
    initial: str
    steps: int
    changes: int
    batches: int
    stored: bool
    script: str | None
    script_blake3: str | None
    losses: tuple[float | None, ...]
    checkpoints: tuple[int, ...]
    nonfinite_loss: str
    microbatches_every: int | None
    environment: dict[str, str]
    chain: str
    finished: bool
    state_hash: str | None
    signed_by: str | None
    files: int
    bytes: int
    conflicts: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yields the lines of a human-readable summary."""
        yield from _titled(
            "program", [f"{identity} ({count_of(steps, 'step')})" for identity, steps in self.programs.items()]
        )
        state = count_of(self.state_tensors, "tensor"), count_of(self.state_elements, "element")
        yield f"state    {', '.join(state)}, {count_of(self.state_bytes, 'byte')}"
        yield f"initial  {self.initial}"
        yield f"steps    {self.steps:,}, and {count_of(self.changes, 'change')} of the state by the user"
        if self.losses:
            first, last = ("not recorded" if loss is None else f"{loss:.6f}" for loss in self.losses)
            yield f"loss     {first} at first, {last} at last"
        script = "" if self.script is None else f", from {_quoted(self.script)}"
        kept = "stored in the receipt" if self.stored else "not stored: verifying needs the script"
        yield f"batches  {self.batches:,} taken{script}; those of the steps are {kept}"
        if self.script_blake3 is not None:
            yield f"script   {self.script_blake3} (BLAKE3)"
        shown = ", ".join(map(str, self.checkpoints[:8]))
        more = f", ... {self.checkpoints[-1]}" if len(self.checkpoints) > 8 else ""
        yield f"kept     {count_of(len(self.checkpoints), 'state')}, after record {shown}{more}"
        yield f"ended    {'yes' if self.finished else 'no: the run can be resumed'}"
        yield f"chain    {self.chain}"
        if self.state_hash is not None:
            yield f"result   {self.state_hash}"
        yield f"signed   {'by ' + self.signed_by if self.signed_by else 'no'}"
        # Target and threads come first, as the number of shown entries is bounded.
        names = sorted(self.environment, key=lambda name: (name not in ("target", "threads"), name))
        where = [f"{foreign(name)}: {foreign(self.environment[name])}" for name in names]
        # The author chooses these names: below a line of their own, none looks like a line of the summary.
        yield from _titled("run on", ["as the author states, and nothing checks:", *(f"  {each}" for each in where)])
        yield f"format   version {self.version}, numerics {self.numerics}; at a non-finite loss: {self.nonfinite_loss}"
        if self.microbatches_every is not None:
            yield f"commits  to each microbatch: every {count_of(self.microbatches_every, 'step')}"
        yield f"size     {count_of(self.files, 'file')}, {count_of(self.bytes, 'byte')}"
        for conflict in self.conflicts:
            yield f"CONFLICT {conflict}: run repro verify"


def _quoted(name: str) -> str:
    """Returns a name of the author, in quotation marks if it could be taken for words of the summary."""
    return name if re.fullmatch(r"[\w.-]+", name, re.ASCII) else f'"{foreign(name)}"'


def _titled(title: str, entries: list[str]) -> Iterator[str]:
    shown = entries[:_MOST_LINES]
    if len(entries) > len(shown):
        shown.append(f"and {len(entries) - len(shown):,} more")
    for i, entry in enumerate(shown):
        yield f"{title if i == 0 else '':8} {entry}"


def summarize(receipt: Receipt, key: bytes | None = None) -> Summary:
    """Returns the summary of a receipt. Reads all of it except its tensors and programs, in time proportional to the
    number of its records.

    Args:
      key: the ed25519 public key (32 bytes) that must have signed; None to accept any key or no signature.
    Raises:
      ReceiptWrong: if the signature is invalid, or was not made with `key`.
      ReproError: if a part does not have the format of docs/verification/receipts.md, or is not a regular file.
    """
    header, log, seal = receipt.header, receipt.log, receipt.seal
    if seal is not None:
        signing.check(seal, key)
    elif key is not None:
        raise ReceiptWrong(SEAL, f"the run has not ended, so there is no signature: expected one by {key.hex()}")
    files = list_files(receipt.path)
    for name in files.names:
        os.close(open_descriptor(receipt.path / name))
    steps = Counter[int]()
    first: Record | None = None
    last: Record | None = None
    record: Record | None = None
    for number in range(1, log.records + 1):
        record = log[number]
        if record.program is not None:
            steps[record.program] += 1
            first, last = first or record, record
    losses = [loss_of(each, header) for each in (first, last) if each is not None]
    link = record.chain if record else header.first_link()
    return Summary(
        version=VERSION,
        numerics=header.numerics,
        programs={each.identity: steps[i] for i, each in enumerate(header.programs)},
        state_tensors=len(header.state),
        state_elements=sum(kind.nbytes // kind.dtype.itemsize for kind in header.state),
        state_bytes=sum(kind.nbytes for kind in header.state),
        initial=header.initial,
        steps=steps.total(),
        changes=log.records - steps.total(),
        batches=record.commitment.cursor if record else 0,
        stored=header.stored,
        script=header.script[0] if header.script else None,
        script_blake3=header.script[1] if header.script else None,
        losses=tuple(losses) if any(loss is not None for loss in losses) else (),
        checkpoints=files.kept,
        nonfinite_loss=header.nonfinite_loss,
        microbatches_every=header.microbatches_every,
        environment=header.environment,
        chain=link.hex(),
        finished=seal is not None,
        state_hash=seal.state_hash if seal else None,
        signed_by=seal.signature[0].hex() if seal and seal.signature else None,
        files=len(files.names),
        bytes=_size(receipt, files.names),
        conflicts=() if seal is None else tuple(_conflicts(receipt, seal, link, files)),
    )


def _conflicts(receipt: Receipt, seal: Seal, link: bytes, files: FileList) -> Iterator[str]:
    for wrong in contradictions(receipt, seal, link):
        yield f"{wrong}" + (f": expected {wrong.expected}, got {wrong.actual}" if wrong.expected is not None else "")
    try:
        check_names(files, seal.files, receipt.header, receipt.log)
    except ReceiptWrong as wrong:
        yield f"{wrong}"


def _size(receipt: Receipt, names: tuple[str, ...]) -> int:
    try:
        return sum((receipt.path / name).lstat().st_size for name in names)
    except OSError as error:
        raise ReproError(f"cannot read {error.filename}: {error.strerror}") from None
