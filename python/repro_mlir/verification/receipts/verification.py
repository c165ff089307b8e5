# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Verifies receipts: their parts must be consistent, and their steps, run again, must compute the same results."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from repro_mlir.base.errors import ReceiptWrong, ReproError, StepFailed
from repro_mlir.base.printing import count_of
from repro_mlir.base.progress import Progress
from repro_mlir.program.microbatches import MicrobatchProgram, StepProgram
from repro_mlir.verification.executors import MicrobatchExecutable, StepExecutable, compile_step, default_target
from repro_mlir.verification.receipts.choice import choose, choose_steps
from repro_mlir.verification.receipts.commitments import commit
from repro_mlir.verification.receipts.comparison import differences
from repro_mlir.verification.receipts.consistency import DigestsWrong, check_consistency, kept_states
from repro_mlir.verification.receipts.file_list import leftovers, list_files
from repro_mlir.verification.receipts.form import INPUTS, STEPS, Record
from repro_mlir.verification.receipts.receipt import Receipt, digests_of
from repro_mlir.verification.receipts.script_inputs import ScriptInputs
from repro_mlir.verification.receipts.step_log import StepLog

InputSource = Callable[[int], Sequence[np.ndarray]]
"""Returns the inputs of a batch, hyper-parameters first, given the number of the batch: from 1, as `Commitment.cursor`
counts batches. The function is called in ascending order, also for batches without a record."""


MOST_EXECUTABLES = 8
"""The number of compiled programs in the cache, which evicts the least recently used one."""


@dataclass(frozen=True)
class Verified:
    """The result of a successful verification.

    Attributes:
      steps: the number of steps of the receipt.
      changes: the number of state changes by the user, which a verification accepts as data, like the batches.
      chosen: the steps that were to be verified.
      executed: the steps that were run: the chosen ones, and those between a kept state and a chosen step.
      microbatches: the number of microbatches that were run instead of their steps, if requested.
      in_part: the number of chosen steps to which these microbatches belong.
      chain: the last link, in hexadecimal.
      state_hash: the hash of the last state (H3), in hexadecimal; None for an unfinished run.
      state_claimed: the reason why the receipt only claims the last state, such as "step 20 was not run"; None if this
        verification computed the last state.
      signed_by: the public key of the signature, in hexadecimal; None if there is no signature.
      sealed: whether the run has ended.
      not_checked: the facts that this verification did not check, one line each (docs/verification/receipts.md,
        "What right means").
    """

    steps: int
    changes: int
    chosen: tuple[int, ...]
    executed: tuple[int, ...]
    chain: str
    state_hash: str | None
    state_claimed: str | None
    signed_by: str | None
    sealed: bool
    not_checked: tuple[str, ...]
    microbatches: int = 0
    in_part: int = 0


def verify(
    receipt: Receipt | str | Path,
    steps: str = "all",
    target: str | None = None,
    threads: int | None = None,
    *,
    unfinished: bool = False,
    changes: bool = True,
    key: bytes | None = None,
    chain: bytes | None = None,
    inputs: InputSource | None = None,
    draw: random.Random | None = None,
    microbatches: str | None = None,
) -> Verified:
    """Checks a receipt and runs steps of it again, with a progress bar if standard error is a terminal.

    Args:
      receipt: a receipt or its directory.
      steps: the steps to run: "all", "sample:N", "A-B", "A" or a list such as "3,5-7", see `choose` (choice.py).
      target, threads: see `compile`; the default target is cpu, or reference if the compiler is not installed.
      unfinished: whether to accept the receipt of an unfinished run.
      changes: whether to accept state changes by the user during the run.
      key: the ed25519 public key (32 bytes) that must have signed the receipt; None to accept any key or no signature.
      chain: the expected last link (32 bytes), known from a source other than the receipt; None to accept any link.
      inputs: returns the inputs of each batch; required if the receipt does not store the batches. If given, batches
        without a record must fail (E1).
      draw: the random generator that chooses the sample.
      microbatches: a choice of microbatches like `steps`, but from 0. If given, only steps that commit to their
        microbatches (C8) are chosen, and the chosen microbatches are run instead of the whole step.
    Returns:
      what was verified.
    Raises:
      ReceiptWrong: if the receipt contradicts itself, or the results of a step differ from those in the receipt.
      ReproError: if there is no receipt, the receipt has no steps or an unsupported version, or the target cannot run
        on this machine.
    """
    if not isinstance(receipt, Receipt):
        receipt = Receipt(receipt)
    target = default_target() if target is None else target
    try:
        check_consistency(receipt, unfinished=unfinished, key=key, states=False)
    except DigestsWrong as wrong:
        raise _located(receipt, wrong, target, threads) from None
    log = receipt.log
    link = log[log.records].chain
    if chain is not None and link != chain:
        message = "expected the run of the given link, got another"
        raise ReceiptWrong("chain", message, None, chain.hex(), link.hex(), is_given=True)
    if not changes and (changed := log.change_records):
        message = "the user changed the state, expected a run without changes"
        raise ReceiptWrong(STEPS, message, log[changed[0]].step, is_change=True)
    chosen = choose_steps(log, steps, draw, committed=microbatches is not None)
    files = list_files(receipt.path)
    kept = files.kept
    records = [log.record_of(step) for step in chosen]
    if microbatches is not None:
        executed = records_before(records, kept)
    else:
        # The last record may be a state change after the last step. If all steps are run, run this record too, and with
        # it the batches before it that have no record.
        executed = records_to_execute(records if len(chosen) < log.steps else [*records, log.records], kept)
    in_part: dict[int, list[int]] = {}
    if microbatches is not None:
        for record in sorted({*records} - {*executed}):
            numbers = range(len(log[record].commitment.microbatches))
            in_part[record] = choose(microbatches, numbers, "microbatches", draw)
    found = sum(map(len, in_part.values()))
    left = sum(len(log[record].commitment.microbatches) for record in in_part) - found
    with (
        closing(Replay(receipt, target, threads, inputs)) as replay,
        Progress(len(executed) + len(in_part), f"running on {target}") as progress,
    ):
        # Kept states are checked between the records, in order, so that the first error is reported first.
        unchecked = deque(kept_states(receipt, files))
        for record in sorted({*executed, *in_part}):
            while unchecked and unchecked[0] < record:
                receipt.state_after(unchecked.popleft())
            if record in in_part:
                replay.check_microbatches(record, in_part[record])
            else:
                replay.check(record)
            progress.advance(log[record].shown)
        for record in unchecked:
            receipt.state_after(record)
    run = tuple(log[record].step for record in executed if log[record].program is not None)
    return Verified(
        log.steps,
        len(log.change_records),
        tuple(chosen),
        run,
        link.hex(),
        receipt.seal.state_hash if receipt.seal else None,
        _state_claimed(log, {*executed}, in_part),
        receipt.seal.signature[0].hex() if receipt.seal and receipt.seal.signature else None,
        receipt.seal is not None,
        (
            *_left_of_steps(len(in_part), left),
            *_not_checked(receipt, {*executed}, in_part, key, chain, inputs),
        ),
        found,
        len(in_part),
    )


def _left_of_steps(steps: int, microbatches: int) -> Iterator[str]:
    if steps:
        chosen = count_of(steps, "chosen step")
        left = count_of(microbatches, "other microbatch", "other microbatches")
        others = f"{left} of {chosen}, " if microbatches else ""
        yield f"{others}the sums of {chosen}, and how {'it ends' if steps == 1 else 'these end'}: they were not run"


def _not_computed(log: StepLog, executed: Set[int], in_part: Collection[int]) -> Iterator[str]:
    """Yields the fact that records were run on kept states that were not computed, if there are such states."""
    starts = sorted({record - 1 for record in (*executed, *in_part)} - executed - {0})
    if starts:
        told = ", ".join(str(log[record].step) for record in starts[:5]) + (" and more" if len(starts) > 5 else "")
        yield f"whether the state after step {told} is right: it was not computed, and steps were run from it"


def _state_claimed(log: StepLog, executed: Set[int], in_part: Collection[int]) -> str | None:
    if log.records in executed:
        return None
    record = log.record_of(log.steps)
    if record in executed:
        return f"the change of the state after step {log.steps} was not checked"
    return f"step {log.steps} was {'run only in part' if record in in_part else 'not run'}"


def _not_checked(
    receipt: Receipt,
    executed: Set[int],
    in_part: Collection[int],
    key: bytes | None,
    chain: bytes | None,
    inputs: InputSource | None,
) -> Iterator[str]:
    log, seal = receipt.log, receipt.seal
    if seal is None:
        yield "how the run ends: it is not sealed"
        yield from _after_the_records(receipt)
    run = sum(log[record].program is not None for record in executed)
    if run < log.steps:
        yield f"{log.steps - run:,} of {count_of(log.steps, 'step')}: they were not run"
    yield from _not_computed(log, executed, in_part)
    if not isinstance(inputs, ScriptInputs):
        what = "program, names, signs of integers, hyper-parameters, initial state, batches and nonfinite_loss"
        yield f"whether {what} are the intended ones: no script was given (--script)"
    elif "nonfinite_loss" not in inputs.run:
        yield f"nonfinite_loss ({receipt.header.nonfinite_loss} in the receipt): the script does not set it"
    if receipt.header.microbatches_every is not None:
        yield f"microbatches_every ({receipt.header.microbatches_every} in the receipt): no option compares it"
    if all(log[number].program != 0 for number in range(1, log.records + 1)):
        yield f"program {receipt.header.programs[0].identity}, the first of the list: no step runs it"
    yield "environment, data.script and checkpoint_every: machine, script and kept states, stated for information"
    yield from _not_in_identities(receipt, inputs)
    changes = [log[record].step for record in log.change_records]
    if changes:
        told = ", ".join(map(str, changes[:5])) + (" and more" if len(changes) > 5 else "")
        yield f"whether the change of the state after step {told} is intended: the user made it, no step computed it"
    gaps = _skipped(receipt)
    open_gaps = [gap for record, gap in gaps.items() if inputs is None or record not in executed]
    if open_gaps:
        why = "without a script there is nothing to run" if inputs is None else "the steps after them were not run"
        told = f"{count_of(sum(open_gaps), 'batch', 'batches')} without a step"
        yield f"whether the {told} {'fails' if sum(open_gaps) == 1 else 'fail'}: {why}"
    if len(open_gaps) < len(gaps) and not isinstance(inputs, ScriptInputs):
        yield "which program fails on the batches without a step: without a script any that the receipt lists will do"
    if seal is None or seal.signature is None:
        yield "who vouches for the run: no signature"
    elif key is None:
        yield "whose signature it is: no key"
    if chain is None:
        yield "whether this is the run that was agreed on, with all of its steps: no link was given (--chain)"


def _not_in_identities(receipt: Receipt, inputs: InputSource | None) -> Iterator[str]:
    """Yields that nothing binds the sections of the program files which the identities (H2) do not cover. The exception
    is a file that has the bytes of the script's program."""
    what = "names, messages and origins in the files of programs"
    if not isinstance(inputs, ScriptInputs):
        yield f"{what}: neither the identities nor the chain cover them"
        return
    listed = [each.identity for each in receipt.header.programs]
    for same, why in ((False, f"they differ from those of {inputs.script}"), (None, "no step that was run has them")):
        found = [identity for identity in listed if inputs.same_files.get(identity) is same]
        if found:
            yield f"{what} ({', '.join(found[:3])}{' and more' if len(found) > 3 else ''}): {why}"


def _after_the_records(receipt: Receipt) -> Iterator[str]:
    """Yields what an unfinished receipt contains in addition to its complete records."""
    log = receipt.log
    surplus = receipt.inputs_path.stat().st_size - log.inputs_end(log.records)
    if surplus:
        yield f"the last {count_of(surplus, 'byte')} of {INPUTS}: they are the inputs of no record"
    if log.torn:
        yield f"the end of {STEPS}: it is not a whole record"
    left = leftovers(list_files(receipt.path), receipt.header, log.records)
    if left:
        yield f"{', '.join(left[:3])}{' and more' if len(left) > 3 else ''}: no record needs the file"


def _skipped(receipt: Receipt) -> dict[int, int]:
    """Returns, for each record, the number of batches without a record between the previous record and this one.
    Records without such batches are omitted."""
    skipped, cursor = {}, 0
    for number in range(1, receipt.log.records + 1):
        record = receipt.log[number]
        if gap := record.commitment.cursor - cursor - (record.program is not None):
            skipped[number] = gap
        cursor = record.commitment.cursor
    return skipped


def records_to_execute(chosen: Sequence[int], kept: Sequence[int]) -> list[int]:
    """Returns the records to run, ascending: each chosen one, and those before it back to the nearest kept state.

    Args:
      chosen: the chosen records, ascending.
      kept: the records after which the state is kept, ascending.
    """
    needed: list[int] = []
    for record in chosen:
        before = bisect_left(kept, record)
        begin = kept[before - 1] + 1 if before else 1
        needed += range(max(begin, needed[-1] + 1 if needed else 1), record + 1)
    return needed


def records_before(chosen: Sequence[int], kept: Sequence[int]) -> list[int]:
    """Returns, in ascending order, the records that must run to compute the state before each chosen record."""
    last = set(kept)
    return records_to_execute([record - 1 for record in chosen if record - 1 not in last], kept)


class Replay:
    """Runs records of a receipt again, in ascending order."""

    def __init__(
        self, receipt: Receipt, target: str = "cpu", threads: int | None = None, inputs: InputSource | None = None
    ) -> None:
        """Compiles the first program; other programs are compiled on first use. Raises ReproError for an unknown
        target, or if neither the receipt nor `inputs` has the batches."""
        if not receipt.header.stored and inputs is None:
            raise ReproError(f"{receipt.path}: the receipt does not store the batches: pass their script (--script)")
        self._receipt = receipt
        self._source = inputs
        self._target, self._threads = target, threads
        self._executables: dict[str, StepExecutable] = {}
        self._pool = ThreadPoolExecutor(self._executable(receipt.program).threads, "repro-hash")
        self._state: dict[str, np.ndarray] = {}
        self._position = -1
        # The inputs of the last step.
        self._given: list[np.ndarray] = []

    def _executable(self, program: StepProgram) -> StepExecutable:
        found = self._executables.pop(program.hash, None)
        if found is None:
            found = compile_step(program, self._target, self._threads)
        # Moves the program to the end of the dictionary: the first entry is the least recently used one.
        self._executables[program.hash] = found
        if len(self._executables) > MOST_EXECUTABLES:
            del self._executables[next(iter(self._executables))]
        return found

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown()

    def state_before(self, number: int) -> dict[str, np.ndarray]:
        """Returns the state before a record. This state must be kept or be the result of the last record that was
        run."""
        if self._position != number - 1:
            self._state = self._receipt.state_after(number - 1)
            self._position = number - 1
        return self._state

    def inputs(self, number: int) -> list[np.ndarray]:
        """Returns the inputs of the step of a record. If they do not come from the receipt, first checks that the
        batches between the previous record and this one, which have no record, fail (E1)."""
        record = self._receipt.log[number]
        assert record.program is not None
        if self._source is None:
            return self._receipt.inputs(number)
        self._pass_over(number, record)
        if isinstance(self._source, ScriptInputs) and record.step > 1:
            self._source.go_on_from(self._state)
        inputs = list(self._source(record.commitment.cursor))
        if isinstance(self._source, ScriptInputs):
            self._source.check_program(self._receipt.header.programs[record.program], record.step)
        return inputs

    def _pass_over(self, number: int, record: Record) -> None:
        """Runs the batches without a record between the previous record and this one: each must fail (E1)."""
        first = self._receipt.log[number - 1].commitment.cursor + 1 if number > 1 else 1
        last = record.commitment.cursor if record.program is None else record.commitment.cursor - 1
        for batch in range(first, last + 1):
            assert self._source is not None
            inputs = self._source(batch)
            if not any(self._fails(program, inputs) for program in self._candidates(number)):
                message = f"batch {batch} has no step, and the program does not fail on it"
                raise ReceiptWrong(STEPS, message, record.step, is_change=record.is_change)

    def _candidates(self, number: int) -> Iterator[StepProgram]:
        """Yields the programs that may have run on a batch without a record: the script's program, which the receipt
        need not list; without a script, any program of the receipt, because the receipt does not state which one."""
        if isinstance(self._source, ScriptInputs):
            yield self._source.program
            return
        log = self._receipt.log
        near = (log[each].program for each in range(number, log.records + 1))
        first = next((program for program in near if program is not None), 0)
        others = (program for program in range(len(self._receipt.header.programs)) if program != first)
        yield from (self._receipt.program_at(program) for program in (first, *others))

    def _fails(self, program: StepProgram, inputs: Sequence[np.ndarray]) -> bool:
        """Returns whether a program fails on inputs (E1), in the current state of the replay."""
        kinds, due = ([(each.dtype, each.shape) for each in some] for some in (inputs, program.inputs))
        if kinds != due or program.state != self._receipt.header.state:
            return False
        try:
            self._executable(program)({name: array.copy() for name, array in self._state.items()}, *inputs)
        except StepFailed:
            return True
        return False

    def run(self, number: int) -> Record:
        """Runs the step of a record, or applies its state change. The state before the record must be kept or be the
        result of the last record that was run. Returns the computed record, without root and link.

        Raises:
          ReceiptWrong: if the step fails a check of its program (E1).
        """
        state, record = self.state_before(number), self._receipt.log[number]
        if record.program is None:
            if self._source is not None:
                self._pass_over(number, record)
            # A change is data that is not computed; `Receipt.change` compares it with the record.
            for name, array in self._receipt.change(number).items():
                state[name][...] = array
            self._position = number
            return record
        inputs = self._given = self.inputs(number)
        microbatches: tuple[bytes, ...] = ()
        try:
            program = self._receipt.program_at(record.program)
            executable = self._executable(program)
            if record.commitment.microbatches and isinstance(program, MicrobatchProgram):
                outputs, microbatches = cast(MicrobatchExecutable, executable).commit(state, *inputs)
            else:
                _, outputs = executable(state, *inputs)
        except StepFailed as error:
            raise ReceiptWrong("step", f"a check of the program failed on these inputs: {error}", record.step) from None
        self._position = number
        # The step has updated the arrays of `state`, which are in the order of the program.
        computed = commit(
            program,
            record.commitment.cursor,
            list(state.values()),
            inputs,
            list(outputs.values()),
            self._pool,
            steps=record.commitment.steps,
            signature=record.commitment.signature,
            microbatches=microbatches,
        )
        return Record(record.step, computed, b"", b"", record.program)

    def check(self, number: int) -> None:
        """Runs a record. Raises ReceiptWrong, which names the first tensor, if the results differ from the receipt."""
        computed, recorded = self.run(number), self._receipt.log[number]
        for place, expected, actual in differences(self._receipt.header, recorded, computed):
            role, _, name = place.partition(" ")
            message = f"the receipt does not have the result of {self._target}"
            if role == "input":
                message = self._different_input(number, name)
            raise ReceiptWrong(place, message, recorded.step, expected, actual, is_change=recorded.is_change)

    def _different_input(self, number: int, name: str) -> str:
        """Describes an input of the step that was run last, which differs from its record: both values of a
        hyper-parameter."""
        record = self._receipt.log[number]
        assert record.program is not None
        if not isinstance(self._source, ScriptInputs):
            return "the input is not the one that the receipt records"
        signature = self._receipt.header.programs[record.program].signature
        at = [kind.name for kind in signature.inputs].index(name)
        if at >= signature.num_hyper_parameters or signature.inputs[at].shape:
            return (
                f"{self._source.script} gives other values than the receipt records: if they differ with each run of "
                "the script, set a seed before the data is made, such as torch.manual_seed(0), and record the run again"
            )
        ours, theirs = self._given[at], self._receipt.inputs(number)[at]
        return f"the receipt records {theirs!s}, {self._source.script} gives {ours!s}"

    def check_microbatches(self, number: int, chosen: Sequence[int]) -> None:
        """Runs microbatches of a step whose record commits to them, without changing the state. Raises ReceiptWrong if
        the results of a microbatch differ from the receipt."""
        record = self._receipt.log[number]
        assert record.program is not None
        program = self._receipt.program_at(record.program)
        assert isinstance(program, MicrobatchProgram)
        kept = cast(MicrobatchExecutable, self._executable(program)).keep(self.state_before(number))
        inputs = self._given = self.inputs(number)
        kinds = self._receipt.header.programs[record.program].signature.inputs
        for kind, expected, actual in zip(kinds, record.commitment.inputs, digests_of(kinds, inputs), strict=True):
            if expected != actual:
                message = self._different_input(number, kind.name)
                raise ReceiptWrong(f"input {kind.name}", message, record.step, expected.hex(), actual.hex())
        for each in chosen:
            try:
                found = kept.digest_of(each, *inputs)
            except StepFailed as error:
                message = f"a check of the program failed on microbatch {each}: {error}"
                raise ReceiptWrong("step", message, record.step) from None
            expected = record.commitment.microbatches[each]
            if found != expected:
                message = f"the receipt does not have the result of {self._target}"
                raise ReceiptWrong(f"microbatch {each}", message, record.step, expected.hex(), found.hex())


def _located(receipt: Receipt, wrong: DigestsWrong, target: str, threads: int | None) -> ReceiptWrong:
    """Runs the step of a wrong record again. Returns an error that names the tensor whose hash is wrong, if one is
    found, and `wrong` otherwise."""
    if wrong.step is None or not receipt.header.stored:
        return wrong
    try:
        log = receipt.log
        record = log.record_of(wrong.step)
        if wrong.is_change:
            record = log.records if wrong.step == log.steps else log.record_of(wrong.step + 1) - 1
        with closing(Replay(receipt, target, threads)) as replay:
            for number in records_to_execute([record], list_files(receipt.path).kept):
                replay.check(number)
    except ReceiptWrong as found:
        return found
    except ReproError:
        # The receipt is too damaged to run the step, so the error stays as it is.
        pass
    return wrong
