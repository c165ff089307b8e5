# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Fuzzes the readers of files and messages: each must succeed or raise one of our errors in bounded time and memory.

    python test/fuzz/readers.py --reader receipt --count 100000 --journal build/fuzz/receipt.jsonl
    python test/fuzz/readers.py --reader receipt --show 17 --save FILE    one mutation again, with its traceback

A reader reads mutations of its seeds, which are built in each run, and the unmodified files of corpus/READER
(`replay`). A reader whose name ends with -command runs a complete command (commands.py).
"""

from __future__ import annotations

import paths  # noqa: F401  # isort: skip

import argparse
import json
import os
import random
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import commands
import forked
import in_process
from damage import mutate
from journal import Journal
from repro_mlir import ReproError
from repro_mlir.base.files.tensor_file import read_tensors, write_tensors
from repro_mlir.compilation import cpu
from repro_mlir.compilation import gpu as device_code
from repro_mlir.execute import emulator
from repro_mlir.execute.artifact import checksum, read_artifact
from repro_mlir.program import Program
from repro_mlir.program.canonical import from_bytes, to_bytes
from repro_mlir.reference.canonical.program import check_canonical
from repro_mlir.reference.stored import read_program
from repro_mlir.runner import Bundle
from repro_mlir.runner.plan import PROCESSORS, read_plan, write_plan
from repro_mlir.sandbox import admit, import_module
from repro_mlir.sandbox.requests import NoProgram
from repro_mlir.verification.dispute import LocalChannel, Prover, settle
from repro_mlir.verification.receipts.consistency import check_consistency
from repro_mlir.verification.receipts.receipt import Receipt
from seeds import Reader, conversations, of_archive, of_receipt, runs, write_bundle_of_two_steps
from support import accumulated_blocks, block_programs, handmade, random_programs, stored_mutations
from support.mutations import change as change_tokens

LIMITS = forked.Limits(seconds=30, memory=8 << 30, batch=500)
MOST_FINDINGS = 10
CORPUS = Path(__file__).with_name("corpus")


def attempt(read: Callable[[], object], *refusals: type[Exception]) -> str:
    """Calls a reader and returns "read" or "refused". Errors other than the package's own and the documented `refusals`
    propagate and become findings."""
    try:
        read()
    except (ReproError, *refusals):
        return "refused"
    return "read"


# Receipts, bundles, program files -------------------------------------------------------------------------------------


def _read_receipt(path: Path) -> None:
    receipt = Receipt(path)
    for record in range(1, receipt.log.records + 1):
        if receipt.log[record].program is None:
            receipt.change(record)
        else:
            receipt.inputs(record)
    check_consistency(receipt, unfinished=False, key=None)


def _read_bundle(path: Path) -> None:
    bundle = Bundle(path)
    bundle.module()
    bundle.initial_state()
    for architecture in bundle.architectures:
        bundle.code(architecture)
    for step in range(min(bundle.steps, 4)):
        bundle.recorded_inputs(step)


def receipt(folder: Path) -> Reader:
    """Returns a reader of damaged receipts."""
    return of_receipt(folder, lambda path: attempt(lambda: _read_receipt(path)))


def bundle(folder: Path) -> Reader:
    """Returns a reader of damaged bundles."""
    return of_archive(folder, write_bundle_of_two_steps, lambda path: attempt(lambda: _read_bundle(path)))


def program(folder: Path) -> Reader:
    """Returns a reader of damaged program files."""
    return of_archive(folder, handmade.program().save, lambda path: attempt(lambda: Program.load(path)))


# Other files ----------------------------------------------------------------------------------------------------------


def tensors(folder: Path) -> Reader:
    """Returns a reader of damaged files of tensors."""
    program = handmade.program()
    right = write_tensors(program.state, program.initial)
    return Reader([right], lambda data: attempt(lambda: read_tensors(program.state, data, "a file")))


def artifact(folder: Path) -> Reader:
    """Returns a reader of damaged artifacts that calls `read_artifact`. test/fuzz/native tests the executor's
    reader."""

    def change(data: bytes, seeds: Sequence[bytes], draw: random.Random) -> bytes:
        changed = mutate(data, seeds, draw)
        body = changed[32:]
        # The size and checksum are corrected, so that the reader continues to the sections.
        mended = changed[:16] + struct.pack("<QQ", len(changed), checksum(body)) + body
        return mended if draw.random() < 0.9 else changed

    right = cpu.compile(random_programs.program(0).program, cpu.native_level())
    return Reader([right], lambda data: attempt(lambda: read_artifact(data)), change)


def plan(folder: Path) -> Reader:
    """Returns a reader of launch plans; an accepted plan must serialize to the same bytes."""

    def read_one(data: bytes, processor: str) -> None:
        if write_plan(read_plan(data, processor, "plan")) != data:
            raise AssertionError("the plan has two forms")

    def read(data: bytes) -> str:
        outcomes = [attempt(lambda processor=processor: read_one(data, processor)) for processor in PROCESSORS]
        return "read" if "read" in outcomes else "refused"

    program = random_programs.program(0).program
    on_cpu = write_plan(read_artifact(cpu.compile(program, cpu.native_level())).plan)
    return Reader([on_cpu, device_code.compile(program, "sm_90").plan, write_plan(handmade.plan())], read)


def text(folder: Path) -> Reader:
    """Returns a reader of canonical programs as text, in which tokens are mutated."""

    def change(data: bytes, seeds: Sequence[bytes], draw: random.Random) -> bytes:
        return change_tokens(data.decode(), draw).encode()

    seeds = [random_programs.program(number).program.encode() for number in range(60)]
    seeds += [block_programs.program(number)[0].program.encode() for number in range(20)]
    seeds += [accumulated_blocks.contraction(number).program.encode() for number in range(20)]
    return Reader(seeds, lambda data: attempt(lambda: import_module(data, is_text=True)), change)


def stored(folder: Path) -> Reader:
    """Returns a reader of programs in their stored form, whose verdict must be that of the checks in Python.

    Half of the mutations change types, operands, operations or attributes; a quarter changes a number in place.
    """

    def change(data: bytes, seeds: Sequence[bytes], draw: random.Random) -> bytes:
        which = draw.random()
        if which < 0.5:
            return stored_mutations.mutate(data, draw)
        if which < 0.75:
            return mutate(data, seeds, draw)
        changed = bytearray(data)
        at = draw.randrange(len(changed) - 8)
        changed[at : at + 8] = draw.choice([0, 1, 2, 7, 24, 25, 2**31, 2**40, 2**63 - 1, 2**63]).to_bytes(8, "little")
        return bytes(changed)

    def read(data: bytes) -> str:
        reason = ""
        try:
            check_canonical(read_program(data))
        except ReproError as error:
            reason = str(error)
        try:
            admit(data)
        except NoProgram:
            return "refused" if reason else "finding: accepted in Python, refused by the compiler"
        except ReproError:
            return "refused"
        if to_bytes(from_bytes(data)) != data:
            return "finding: the program has two forms"
        if reason:
            return "finding: accepted by the compiler, refused in Python"
        return "read"

    seeds = [to_bytes(random_programs.program(number).program) for number in range(60)]
    seeds += [to_bytes(block_programs.program(number)[0].program) for number in range(40)]
    seeds += [to_bytes(accumulated_blocks.contraction(number).program) for number in range(40)]
    return Reader(seeds, read, change)


def ptx(folder: Path) -> Reader:
    """Returns a reader that assembles mutated PTX text for the emulator."""

    def change(data: bytes, seeds: Sequence[bytes], draw: random.Random) -> bytes:
        if draw.random() < 0.3:
            return mutate(data, seeds, draw)
        return change_tokens(data.decode(errors="replace"), draw).encode()

    def read(data: bytes) -> str:
        return attempt(lambda: emulator.load(data.decode(errors="replace")), emulator.PtxError)

    return Reader([handmade.PTX], read, change)


# Messages of disputes -------------------------------------------------------------------------------------------------


class _Stranger(LocalChannel):
    """A channel that replaces one of the prover's answers, as a hostile party could."""

    def __init__(self, prover: Prover, place: int, answer: bytes) -> None:
        super().__init__(prover)
        self._left, self._answer = place, answer

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        answer = super().exchange(question, limit, timeout)
        self._left -= 1
        return self._answer if self._left == -1 else answer


def prover(folder: Path) -> Reader:
    """Returns a reader that sends damaged questions to a prover: the prover must answer each question and continue."""
    honest, _ = pair = runs()

    def read(data: bytes) -> str:
        # A prover takes part in one dispute only, so each question needs a new prover.
        return "refused" if "error" in json.loads(Prover(honest).answer(data)) else "read"

    return Reader([question for channel in conversations(pair) for question in channel.questions], read)


def referee(folder: Path) -> Reader:
    """Returns a reader that sends damaged answers to a referee: the honest party must never lose, and the referee must
    always return a verdict.

    The first byte selects the answer to replace, whether the damaged party comes first, and whether its other answers
    are honest.
    """
    honest, cheat = runs()

    def read(data: bytes) -> str:
        place, first, rest = data[0] & 15, data[0] >> 4 & 1, data[0] >> 5 & 1
        stranger = _Stranger(Prover(honest if rest else cheat), place, data[1:])
        channels = [stranger, LocalChannel(Prover(honest))]
        verdict = settle(*(channels if first else channels[::-1]))
        if ("B" if first else "A") in verdict.wrong:
            return f"finding: the honest party lost: {verdict}"
        return verdict.outcome

    def change(data: bytes, seeds: Sequence[bytes], draw: random.Random) -> bytes:
        return bytes([data[0] & 15 | draw.randrange(4) << 4]) + mutate(data[1:], [seed[1:] for seed in seeds], draw)

    answers = enumerate(conversations([honest, cheat])[1].answers)
    return Reader([bytes([place]) + answer for place, answer in answers], read, change)


READERS: dict[str, Callable[[Path], Reader]] = {
    make.__name__.replace("_", "-"): make
    for make in (
        artifact,
        bundle,
        plan,
        program,
        prover,
        ptx,
        receipt,
        referee,
        stored,
        tensors,
        text,
        *commands.READERS,
    )
}


def corpus(reader: str) -> list[Path]:
    """Returns the committed inputs of a reader. Readers such as `inspect-bundle-command` also use those of the reader
    of the file (`bundle`), and `verify-command` uses those of `receipt`."""
    names = [reader, *(["receipt"] if reader == "verify-command" else []), *reader.split("-")[1:2]]
    return sorted(path for name in names for path in (CORPUS / name).glob("*"))


def _folder() -> tempfile.TemporaryDirectory[str]:
    """Returns a temporary folder, in memory if the system supports it, because rewriting files on a disk is slow."""
    memory = "/dev/shm"
    return tempfile.TemporaryDirectory(prefix="repro-fuzz-", dir=memory if os.access(memory, os.W_OK) else None)


def _results(reader: Reader, numbers: Iterable[int], data: Callable[[int], bytes]) -> Iterator[forked.Result]:
    """Yields the outcomes of a reader for numbered mutations. A mutation that ends the process is repeated with the
    sandbox, as in normal use."""

    def quickly(number: int) -> str:
        in_process.begin()
        return reader.read(data(number))

    def as_in_use(number: int) -> str:
        return reader.read(data(number))

    if reader.is_command:
        return forked.run(numbers, as_in_use, LIMITS)
    return forked.run(numbers, quickly, LIMITS, as_in_use)


def run(reader: str, numbers: range, journal: Journal, seconds: float = float("inf")) -> None:
    """Runs the mutations of a reader that are not in the journal, for at most `seconds`."""
    end, found = time.monotonic() + seconds, len(journal.findings())
    with _folder() as folder:
        made = READERS[reader](Path(folder))
        for result in _results(made, journal.missing(numbers), made.mutation):
            journal.add(result)
            if result.is_finding:
                print(f"{reader} {result.number}: {result.outcome[-400:]}", flush=True)
                found += 1
            if time.monotonic() > end or found >= MOST_FINDINGS:
                break


def replay(reader: str) -> list[str]:
    """Returns the findings among the committed inputs of a reader."""
    inputs = corpus(reader)
    with _folder() as folder:
        made = READERS[reader](Path(folder))
        results = list(_results(made, range(len(inputs)), lambda n: inputs[n].read_bytes()))
    return [f"{inputs[result.number].name}: {result.outcome}" for result in results if result.is_finding]


def show(reader: str, number: int, save: Path | None) -> None:
    """Runs one mutation again in this process and prints its outcome; optionally saves the mutation."""
    with _folder() as folder:
        made = READERS[reader](Path(folder))
        data = made.mutation(number)
        if save is not None:
            save.write_bytes(data)
        print(made.read(data))


def main() -> int:
    """Returns status 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reader", choices=READERS, action="append", help="default: all, one after the other")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="for each reader")
    parser.add_argument("--journal", type=Path, default=Path(os.devnull), help="of one reader")
    parser.add_argument("--show", type=int, metavar="NUMBER")
    parser.add_argument("--save", type=Path, metavar="FILE", help="writes what --show reads")
    options = parser.parse_args()
    status = 0
    for reader in options.reader or READERS:
        if options.show is not None:
            show(reader, options.show, options.save)
            continue
        journal = Journal(options.journal)
        run(reader, range(options.count), journal, 60 * options.minutes)
        print(f"{reader}: {journal.summary()}", flush=True)
        status |= int(bool(journal.findings()))
    return status


if __name__ == "__main__":
    sys.exit(main())
