# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Whether the parts of a receipt agree with each other; no step is run."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..errors import ReceiptWrong, ReproError
from ..hashing import combine_digests
from . import checkpoints, signing
from .commitments import next_link
from .file_list import check_names, describe_file, list_files
from .form import HEADER, INPUTS, SEAL, STEPS, FileDigest, Seal, StepRecord
from .receipt import Receipt, digests_of
from .step_log import StoredInputs, loss_of

MOST_SKIPPED = 1 << 20
"""How many batches without a step (E1) a receipt may have: whoever has the batches must run them all."""


class DigestsWrong(ReceiptWrong):
    """A record whose hashes are not those of its root: running the step shows which of them was changed."""


def check_consistency(
    receipt: Receipt, *, unfinished: bool, key: bytes | None, advance: Callable[[], None] = lambda: None
) -> None:
    """Checks program, initial state, records, inputs, seal and signature against each other.

    Args:
      unfinished: whether a receipt without seal will do.
      key: the ed25519 public key that must have signed, or None for any or none.
      advance: called after each step.
    Raises:
      ReceiptWrong: a contradiction.
      ReproError: a part is missing or has another form.
    """
    seal = receipt.seal
    if seal is None and not unfinished:
        raise ReproError(f"{receipt.path}: no {SEAL}: the run has not ended")
    if seal is not None:
        _check_file(receipt, seal, HEADER)
        signing.check(seal, key)
    elif key is not None:
        raise ReceiptWrong(SEAL, f"no signature, expected one by {key.hex()}")
    files = list_files(receipt.path)
    # Reading it compares it with the header.
    _ = receipt.program
    link = _check_steps(receipt, advance)
    steps = receipt.log.steps
    if seal is not None and steps != seal.steps:
        raise ReceiptWrong(STEPS, f"has {steps} steps, and {SEAL} says {seal.steps}", min(steps, seal.steps) + 1)
    if not steps:
        raise ReproError(f"{receipt.path}: a run without steps: there is nothing to verify")
    if seal is not None:
        _check_end(receipt, seal, link)
    listed = None if seal is None else seal.files
    check_names(files, listed, steps, receipt.header.checkpoint_every)
    if seal is not None:
        for name in sorted(seal.files):
            _check_file(receipt, seal, name)


def _check_file(receipt: Receipt, seal: Seal, name: str) -> None:
    """Compares a file with what the seal says of it."""
    listed = seal.files.get(name)
    if listed is None:
        raise ReceiptWrong(SEAL, f"does not list {name}")
    size = (receipt.path / name).lstat().st_size
    # Nothing is read that cannot be right.
    found = describe_file(receipt.path / name) if size == listed.size else FileDigest(size, "")
    if found == listed:
        return
    step = checkpoints.step_of(name)
    if step is not None:
        # It names the tensor.
        receipt.state_after(step)
    if found.size != listed.size:
        raise ReceiptWrong(name, f"not the file that {SEAL} names: expected {listed.size} bytes, got {found.size}")
    raise ReceiptWrong(name, f"not the file that {SEAL} names", None, listed.digest, found.digest)


def _check_steps(receipt: Receipt, advance: Callable[[], None]) -> bytes:
    """The last link."""
    link, cursor = receipt.header.first_link(), 0
    for step in range(1, receipt.log.steps + 1):
        record = receipt.log[step]
        _check_record(record, step, link, cursor)
        _check_inputs(receipt, record)
        _check_loss(receipt, record)
        link, cursor = record.chain, record.commitment.cursor
        advance()
    return link


def _check_record(record: StepRecord, step: int, link: bytes, cursor: int) -> None:
    if record.step != step:
        raise ReceiptWrong(STEPS, f"expected the record of this step, got that of step {record.step}", step)
    if record.commitment.cursor <= cursor:
        raise ReceiptWrong(STEPS, f"expected a cursor above {cursor}, got {record.commitment.cursor}", step)
    if record.commitment.cursor - step > MOST_SKIPPED:
        raise ReceiptWrong(STEPS, f"expected at most {MOST_SKIPPED:,} batches without a step", step)
    root = record.commitment.root
    if record.root != root:
        message = "the root is not that of the step's hashes"
        raise DigestsWrong(STEPS, message, step, record.root.hex(), root.hex())
    expected = next_link(link, step, root)
    if record.chain != expected:
        message = "the chain does not go on from the step before"
        raise ReceiptWrong(STEPS, message, step, record.chain.hex(), expected.hex())


def _check_inputs(receipt: Receipt, record: StepRecord) -> None:
    kinds = receipt.header.stored_inputs
    stored = digests_of(kinds, receipt.inputs(record.step))
    for kind, expected, actual in zip(kinds, record.commitment.inputs, stored, strict=False):
        if expected != actual:
            message = f"input {kind.name} is not that of {STEPS}"
            raise ReceiptWrong(INPUTS, message, record.step, expected.hex(), actual.hex())


def _check_loss(receipt: Receipt, record: StepRecord) -> None:
    for kind, digest in zip(receipt.header.signature.outputs, record.commitment.outputs, strict=True):
        if kind.name == "loss" and not kind.shape:
            form = StoredInputs([kind])
            if record.loss is None or len(record.loss) != form.size:
                raise ReceiptWrong(STEPS, f"expected a loss of {form.size} bytes", record.step)
            (found,) = digests_of([kind], form.decode(record.loss, f"{receipt.path / STEPS}: step {record.step}"))
            if found != digest:
                message = "the loss is not that of the hash of output loss"
                raise ReceiptWrong(STEPS, message, record.step, digest.hex(), found.hex())
            _check_stop(receipt, record)
            return
    if record.loss is not None:
        raise ReceiptWrong(STEPS, "a loss, and the program has none", record.step)


def _check_stop(receipt: Receipt, record: StepRecord) -> None:
    """A run that declares to stop has no step after a loss that is not finite."""
    if receipt.header.nonfinite_loss == "stop" and record.step < receipt.log.steps:
        loss = loss_of(record, receipt.header.signature)
        if loss is not None and not math.isfinite(loss):
            raise ReceiptWrong(STEPS, f"the loss is {loss}, and the run that stops at such a loss goes on", record.step)


def _check_end(receipt: Receipt, seal: Seal, link: bytes) -> None:
    log = receipt.log
    if log.torn:
        raise ReceiptWrong(STEPS, "expected the end of the file after the last step", log.steps + 1)
    if link != seal.chain:
        raise ReceiptWrong(SEAL, "not the last link of the chain", None, seal.chain.hex(), link.hex())
    state = log[log.steps].commitment.state
    if combine_digests(state) != seal.state_hash:
        message = "the hash of the state is not that of the last step"
        raise ReceiptWrong(SEAL, message, None, seal.state_hash, combine_digests(state))
    size = receipt.inputs_path.stat().st_size
    if size != log.steps * receipt.stored_inputs.size:
        message = f"expected {log.steps * receipt.stored_inputs.size} bytes, got {size}"
        raise ReceiptWrong(INPUTS, message, size // max(receipt.stored_inputs.size, 1) + 1)
