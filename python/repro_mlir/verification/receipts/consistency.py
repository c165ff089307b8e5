# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks that the parts of a receipt are consistent, without running a step."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator

from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.base.numerics.hashing import combine_digests
from repro_mlir.base.printing import count_of
from repro_mlir.base.progress import Progress
from repro_mlir.verification.receipts import signing
from repro_mlir.verification.receipts.commitments import Commitment, next_link
from repro_mlir.verification.receipts.file_list import FileList, always_needed, check_names, describe_file, list_files
from repro_mlir.verification.receipts.form import (
    HEADER,
    INPUTS,
    SEAL,
    STEPS,
    FileDigest,
    Record,
    Seal,
    committed_microbatches,
)
from repro_mlir.verification.receipts.kept_tensors import changes, checkpoints
from repro_mlir.verification.receipts.receipt import Receipt, digests_of
from repro_mlir.verification.receipts.step_log import StoredInputs, loss_of

MOST_SKIPPED = 1 << 20
"""The maximum number of batches without a step (E1) in a receipt; a verifier must process every one of them."""


class DigestsWrong(ReceiptWrong):
    """Raised for a record whose hashes do not match its root; running the step again shows which hash is wrong."""


def check_consistency(receipt: Receipt, *, unfinished: bool, key: bytes | None, states: bool = True) -> None:
    """Checks that programs, kept states, records, inputs, seal and signature agree; shows a progress bar.

    Args:
      unfinished: whether to accept a receipt without a seal.
      key: the ed25519 public key that must have signed the receipt; None to accept any key or no signature.
      states: whether to compare each kept state with its record; False if the caller compares them, between the steps
        that it runs, so that the first error is reported first.
    Raises:
      ReceiptWrong: if the receipt contradicts itself or a file is missing.
      ReproError: if a part has the wrong format, or the run has no steps.
    """
    seal = receipt.seal
    if seal is None and not unfinished:
        raise ReproError(
            f"{receipt.path}: expected a run that has ended, but the receipt has no {SEAL}: ask the author to "
            "end the run (repro train ... --resume; in a loop, a with statement or close() of the trainer); repro "
            "verify --unfinished checks the steps that the receipt has"
        )
    if seal is not None:
        _check_file(receipt, seal, HEADER)
        signing.check(seal, key)
    elif key is not None:
        raise ReceiptWrong(SEAL, f"expected a signature by {key.hex()}, got none")
    files = list_files(receipt.path)
    files.require(always_needed(receipt.header))
    # Read every program, because `program_at` compares it with the header.
    for i in range(len(receipt.header.programs)):
        receipt.program_at(i)
    steps = receipt.log.steps
    with Progress(steps, "checking") as progress:
        link, used = _check_records(receipt, files, progress.advance)
    if seal is not None:
        for wrong in contradictions(receipt, seal, link):
            raise wrong
    # An unfinished receipt may list one unused program: a program is listed before its first step.
    if used < len(receipt.header.programs) - (seal is None):
        raise ReceiptWrong(HEADER, f"lists {len(receipt.header.programs)} programs, but the steps use {used}")
    if not steps:
        raise ReproError(f"{receipt.path}: a run without steps: there is nothing to verify")
    if seal is not None:
        _check_size(receipt)
    check_names(files, None if seal is None else seal.files, receipt.header, receipt.log)
    if seal is not None:
        for name in sorted(seal.files):
            _check_file(receipt, seal, name)
    if states:
        for number in kept_states(receipt, files):
            receipt.state_after(number)


def kept_states(receipt: Receipt, files: FileList) -> list[int]:
    """Returns the records whose kept states a verification compares with them, ascending; the initial state is compared
    when it is read."""
    return [number for number in files.kept if 0 < number <= receipt.log.records]


def _check_file(receipt: Receipt, seal: Seal, name: str) -> None:
    listed = seal.files.get(name)
    if listed is None:
        raise ReceiptWrong(SEAL, f"does not list {name}")
    size = (receipt.path / name).lstat().st_size
    # A file of the wrong size is not read: it cannot be right, and may be huge.
    found = describe_file(receipt.path / name) if size == listed.size else FileDigest(size, "")
    if found == listed:
        return
    # For a state or change file, reading it raises a more precise error, which names the tensor.
    if (kept := checkpoints.record_of(name)) is not None:
        receipt.state_after(kept)
    if (changed := changes.record_of(name)) is not None:
        receipt.change(changed)
    if found.size != listed.size:
        sizes = f"expected {count_of(listed.size, 'byte')}, got {found.size:,}"
        raise ReceiptWrong(name, f"expected the file that {SEAL} names, got another: {sizes}")
    raise ReceiptWrong(name, f"expected the file that {SEAL} names, got another", None, listed.digest, found.digest)


def _check_records(receipt: Receipt, files: FileList, advance: Callable[[], None]) -> tuple[bytes, int]:
    """Checks all records in order. Returns the last link of the chain, and the number of programs that the steps use,
    at least 1."""
    log = receipt.log
    link, used = receipt.header.first_link(), 1
    before = Record(0, Commitment(0, ()), b"", link, None)
    for number in range(1, log.records + 1):
        record = log[number]
        _check_record(record, number, before)
        if record.program is None:
            files.require([changes.name_of(number)])
            receipt.change(number)
        else:
            used = _check_order(record, used)
            check_step(receipt, number, record)
            advance()
        before = record
    return before.chain, used


def _check_record(record: Record, number: int, before: Record) -> None:
    cursor = before.commitment.cursor
    if record.is_change and record.step != before.step:
        message = f"expected a change after this step, got one after step {record.step}"
        raise ReceiptWrong(STEPS, message, before.step, is_change=True)
    if not record.is_change and record.step != before.step + 1:
        raise ReceiptWrong(STEPS, f"expected the record of this step, got that of step {record.step}", before.step + 1)
    wrong = functools.partial(ReceiptWrong, STEPS, step=record.step, is_change=record.is_change)
    if record.commitment.cursor < cursor + (not record.is_change):
        least = f"a cursor of at least {cursor}" if record.is_change else f"a cursor above {cursor}"
        raise wrong(f"expected {least}, got {record.commitment.cursor}")
    if record.commitment.cursor - record.step > MOST_SKIPPED:
        raise wrong(f"expected at most {MOST_SKIPPED:,} batches without a step")
    root = record.commitment.root
    if record.root != root:
        message, hashes = f"the root is not that of the {_noun(record)}'s hashes", (record.root.hex(), root.hex())
        raise DigestsWrong(STEPS, message, record.step, *hashes, is_change=record.is_change)
    expected = next_link(before.chain, number, root)
    if record.chain != expected:
        message = f"the chain does not continue from {before.shown if number > 1 else 'link 0'}"
        raise wrong(message, expected=record.chain.hex(), actual=expected.hex())


def _noun(record: Record) -> str:
    return "change" if record.is_change else "step"


def _check_order(record: Record, used: int) -> int:
    """Checks that programs are listed in the order of their first steps, and returns the number of programs used up to
    and including this step."""
    assert record.program is not None
    if record.program > used:
        message = f"program {record.program} before program {used}: expected the order of their first steps"
        raise ReceiptWrong(STEPS, message, record.step)
    return max(used, record.program + 1)


def check_step(receipt: Receipt, number: int, record: Record) -> None:
    """Raises ReceiptWrong if a step's inputs or loss do not match the hashes of its record, or the record has the wrong
    number of microbatch digests."""
    assert record.program is not None
    due = committed_microbatches(receipt.header.microbatches_every, record.step, receipt.program_at(record.program))
    if len(record.commitment.microbatches) != due:
        found = len(record.commitment.microbatches)
        raise ReceiptWrong(STEPS, f"expected the digests of {due} microbatches, got {found}", record.step)
    receipt.inputs(number)
    _check_loss(receipt, record)


def _check_loss(receipt: Receipt, record: Record) -> None:
    assert record.program is not None
    outputs = receipt.header.programs[record.program].signature.outputs
    for kind, digest in zip(outputs, record.commitment.outputs, strict=True):
        if kind.name == "loss" and not kind.shape:
            form = StoredInputs([kind])
            if record.loss is None or len(record.loss) != form.size:
                raise ReceiptWrong(STEPS, f"expected a loss of {count_of(form.size, 'byte')}", record.step)
            (found,) = digests_of([kind], form.decode(record.loss, f"{receipt.path / STEPS}: step {record.step}"))
            if found != digest:
                message = "the loss is not that of the hash of output loss"
                raise ReceiptWrong(STEPS, message, record.step, digest.hex(), found.hex())
            _check_stop(receipt, record)
            return
    if record.loss is not None:
        raise ReceiptWrong(STEPS, "expected no loss, as the program has none", record.step)


def _check_stop(receipt: Receipt, record: Record) -> None:
    """Checks that a run with the option to stop at a non-finite loss has no step after such a loss."""
    if receipt.header.nonfinite_loss == "stop" and record.step < receipt.log.steps:
        loss = loss_of(record, receipt.header)
        if loss is not None and not math.isfinite(loss):
            raise ReceiptWrong(STEPS, f"the run continues after loss {loss} with nonfinite_loss 'stop'", record.step)


def contradictions(receipt: Receipt, seal: Seal, link: bytes) -> Iterator[ReceiptWrong]:
    """Yields what the seal and the records state differently.

    Args:
      link: the link of the last record.
    """
    log = receipt.log
    if log.steps != seal.steps:
        message = f"expected {count_of(seal.steps, 'step')}, as in {SEAL}, got {log.steps:,}"
        yield ReceiptWrong(STEPS, message, min(log.steps, seal.steps) + 1)
    if log.torn:
        yield ReceiptWrong(STEPS, "expected the end of the file after the last record")
    if link != seal.chain:
        yield ReceiptWrong(SEAL, "not the last link of the chain", None, seal.chain.hex(), link.hex())
    state = combine_digests(receipt.state_digests(log.records))
    if state != seal.state_hash:
        message = "the hash of the state is not that of the last record"
        yield ReceiptWrong(SEAL, message, None, seal.state_hash, state)


def _check_size(receipt: Receipt) -> None:
    log = receipt.log
    size, due = receipt.inputs_path.stat().st_size, log.inputs_end(log.records)
    if size != due:
        short = next((step for step in range(1, log.steps + 1) if log.inputs_end(log.record_of(step)) > size), None)
        raise ReceiptWrong(INPUTS, f"expected {count_of(due, 'byte')}, got {size:,}", short)
