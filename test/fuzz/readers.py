# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Damaged files and messages at whoever reads them: an error of ours, in bounded time and memory, or success.

    python test/fuzz/readers.py --reader receipt --count 100000 --journal build/fuzz/receipt.jsonl
    python test/fuzz/readers.py --reader receipt --show 17 --save FILE    one mutation again, with its traceback

Every reader reads the files of corpus/READER as they are, and mutations of them and of its seeds, which are made anew.
"""

from __future__ import annotations

import paths  # noqa: F401  # isort: skip

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import blake3
import forked
import handmade
import numpy as np
import random_programs
import repro_mlir
from damage import mutate
from journal import Journal
from mutations import mutate as mutate_tokens
from repro_mlir import ReproError, emulator, runtime
from repro_mlir.bundling import expect, write_bundle
from repro_mlir.cli import main as command
from repro_mlir.dispute import LocalChannel, Prover, RecordedRun, settle
from repro_mlir.operators import OperatorGraph, Tracer
from repro_mlir.program import Program
from repro_mlir.receipts.consistency import check_consistency
from repro_mlir.receipts.options import ReceiptOptions
from repro_mlir.receipts.receipt import Receipt
from repro_mlir.receipts.recorder import Recorder
from repro_mlir.runner import Bundle
from repro_mlir.runtime.artifact import read_artifact
from repro_mlir.tensor_file import read_tensors, write_tensors
from repro_mlir.untrusted import admit

LIMITS = forked.Limits(seconds=30, memory=8 << 30, batch=500)
MOST_FINDINGS = 10
CORPUS = Path(__file__).with_name("corpus")

Change = Callable[[bytes, Sequence[bytes], random.Random], bytes]


@dataclass(frozen=True)
class Reader:
    """What reads bytes of strangers.

    Attributes:
      seeds: what is right.
      read: gives an outcome (see forked.py).
      change: makes a mutation of a seed.
    """

    seeds: Sequence[bytes]
    read: Callable[[bytes], str]
    change: Change = mutate

    def mutation(self, number: int) -> bytes:
        """The mutation with a number."""
        draw = random.Random(number)
        return self.change(draw.choice(self.seeds), self.seeds, draw)


def attempt(read: Callable[[], object], *refusals: type[Exception]) -> str:
    """An outcome: only errors of ours, or those that a function documents, are no finding."""
    try:
        read()
    except (ReproError, *refusals):
        return "refused"
    return "read"


# Archives: program files, bundles, and receipts as zips of their files ------------------------------------------------


def _members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


def change_member(data: bytes, seeds: Sequence[bytes], draw: random.Random) -> bytes:
    """Damages a member; half of the time its digest is mended wherever it is written."""
    members = _members(data)
    name = draw.choice([*members])
    old = members[name]
    members[name] = mutate(old, [*members.values()], draw)
    if draw.random() < 0.5:
        digests = [blake3.blake3(part).hexdigest().encode() for part in (old, members[name])]
        members = {n: part.replace(*digests) if n != name else part for n, part in members.items()}
    return packed(members)


def change_archive(data: bytes, seeds: Sequence[bytes], draw: random.Random) -> bytes:
    """Damages the bytes of a zip, or a member."""
    return (mutate if draw.random() < 0.4 else change_member)(data, seeds, draw)


def write_receipt(path: Path) -> None:
    """The finished receipt of three steps of a small program, with batches and checkpoints."""
    program = handmade.program()
    executable = repro_mlir.compile(program, "reference")
    recorder = Recorder(ReceiptOptions(path, checkpoint_every=2), program, "reference", 1)
    for inputs in handmade.steps(3):
        given = recorder.take(inputs)
        _, outputs = executable(recorder.state, *given)
        recorder.commit(given, list(outputs.values()))
    recorder.seal()
    recorder.close()


def write_bundle_of_two_steps(path: Path) -> None:
    steps = handmade.steps(2)
    codes = [handmade.code("sm_75"), handmade.code("sm_90", cubin=b"\x7fELF", constants=bytes(64))]
    write_bundle(path, handmade.program(), codes, steps=steps, expected=expect(handmade.program(), steps))


def _of_receipt(folder: Path, use: Callable[[Path], str]) -> Reader:
    write_receipt(folder / "right")
    files = {str(p.relative_to(folder / "right")): p for p in (folder / "right").rglob("*") if p.is_file()}

    def read(data: bytes) -> str:
        path = folder / "damaged"
        shutil.rmtree(path, ignore_errors=True)
        for name, content in _members(data).items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
        return use(path)

    return Reader([packed({name: path.read_bytes() for name, path in sorted(files.items())})], read, change_member)


def _of_archive(folder: Path, write: Callable[[Path], None], use: Callable[[Path], str]) -> Reader:
    write(folder / "right")

    def read(data: bytes) -> str:
        (folder / "damaged.rmb").write_bytes(data)
        return use(folder / "damaged.rmb")

    return Reader([(folder / "right").read_bytes()], read, change_archive)


def _read_receipt(path: Path) -> None:
    receipt = Receipt(path)
    for step in range(1, receipt.log.steps + 1):
        receipt.inputs(step)
    _ = receipt.program
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
    return _of_receipt(folder, lambda path: attempt(lambda: _read_receipt(path)))


def bundle(folder: Path) -> Reader:
    return _of_archive(folder, write_bundle_of_two_steps, lambda path: attempt(lambda: _read_bundle(path)))


def program(folder: Path) -> Reader:
    return _of_archive(folder, handmade.program().save, lambda path: attempt(lambda: Program.load(path)))


# Other files ----------------------------------------------------------------------------------------------------------


def tensors(folder: Path) -> Reader:
    program = handmade.program()
    right = write_tensors(program.state, program.initial)
    return Reader([right], lambda data: attempt(lambda: read_tensors(program.state, data, "a file")))


def artifact(folder: Path) -> Reader:
    """What inspects artifacts; test/fuzz/native has the reader of the executor."""
    right = runtime.compile(random_programs.program(0).program, runtime.native_level())
    return Reader([right], lambda data: attempt(lambda: read_artifact(data), ValueError))


def text(folder: Path) -> Reader:
    """Tokens of canonical programs."""

    def change(data: bytes, seeds: Sequence[bytes], draw: random.Random) -> bytes:
        return mutate_tokens([data.decode()], draw.getrandbits(48)).encode()

    seeds = [random_programs.program(number).program.encode() for number in range(60)]
    return Reader(seeds, lambda data: attempt(lambda: admit(data)), change)


def ptx(folder: Path) -> Reader:
    def change(data: bytes, seeds: Sequence[bytes], draw: random.Random) -> bytes:
        if draw.random() < 0.3:
            return mutate(data, seeds, draw)
        return mutate_tokens([data.decode(errors="replace")], draw.getrandbits(48)).encode()

    def read(data: bytes) -> str:
        return attempt(lambda: emulator.load(data.decode(errors="replace")), emulator.PtxError)

    return Reader([handmade.PTX], read, change)


# Messages of disputes -------------------------------------------------------------------------------------------------


class _Recording(LocalChannel):
    """Keeps what was asked and answered."""

    def __init__(self, prover: Prover) -> None:
        super().__init__(prover)
        self.questions: list[bytes] = []
        self.answers: list[bytes] = []

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        self.questions.append(question)
        self.answers.append(super().exchange(question, limit, timeout))
        return self.answers[-1]


class _Stranger(LocalChannel):
    """Gives other bytes as the answer to one question."""

    def __init__(self, prover: Prover, place: int, answer: bytes) -> None:
        super().__init__(prover)
        self._left, self._answer = place, answer

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        answer = super().exchange(question, limit, timeout)
        self._left -= 1
        return self._answer if self._left == -1 else answer


def _runs() -> tuple[RecordedRun, RecordedRun]:
    """An honest run, and one with a wrong bit in a step."""
    program = handmade.program()
    graph = OperatorGraph(program)
    tracer = Tracer(graph)

    def wrong(step: int, arrays: list[np.ndarray]) -> list[np.ndarray]:
        results = tracer.results(arrays)
        if step == 2:
            results = [array.copy() for array in results]
            results[0].view(np.uint32)[0, 0] ^= 1
        return results

    steps = handmade.steps(3)
    honest = RecordedRun(program, steps, lambda _, arrays: tracer.results(arrays), graph=graph)
    return honest, RecordedRun(program, steps, wrong, graph=graph)


def _conversations(runs: Sequence[RecordedRun]) -> list[_Recording]:
    channels = [_Recording(Prover(run)) for run in runs]
    settle(*channels)
    return channels


def prover(folder: Path) -> Reader:
    """Questions of a referee who is none: each gets an answer, and the prover goes on."""
    runs = _runs()

    def read(data: bytes) -> str:
        # A prover answers the questions of one dispute.
        return "refused" if "error" in json.loads(Prover(runs[0]).answer(data)) else "read"

    return Reader([question for channel in _conversations(runs) for question in channel.questions], read)


def referee(folder: Path) -> Reader:
    """Answers of a stranger: the honest party never loses, and there is always a verdict.

    The first byte says which answer it is, whether the stranger comes first, and whether the rest of it is honest.
    """
    honest, cheat = _runs()

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

    answers = enumerate(_conversations([honest, cheat])[1].answers)
    return Reader([bytes([place]) + answer for place, answer in answers], read, change)


# Whole commands -------------------------------------------------------------------------------------------------------


def _command(*arguments: object) -> str:
    """Exit status 0, 1 or 2, for 2 one line on standard error, and no raw characters of a stranger."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = command([str(argument) for argument in arguments])
    errors = err.getvalue()
    messages = [line for line in errors.splitlines() if line.startswith("repro: error: ")]
    if status not in (0, 1, 2) or "Traceback" in errors or (status == 2 and len(messages) != 1):
        return f"finding: status {status}: {errors}"
    said = out.getvalue() + errors
    if any(not (c.isprintable() or c in "\n\t") for c in said):
        return f"finding: raw characters: {said!r}"
    return f"status {status}"


def verify_command(folder: Path) -> Reader:
    return _of_receipt(folder, lambda path: _command("verify", path, "--steps", "2", "--target", "reference"))


def inspect_bundle_command(folder: Path) -> Reader:
    return _of_archive(folder, write_bundle_of_two_steps, lambda path: _command("inspect", path))


def inspect_program_command(folder: Path) -> Reader:
    return _of_archive(folder, handmade.program().save, lambda path: _command("inspect", path))


READERS: dict[str, Callable[[Path], Reader]] = {
    make.__name__.replace("_", "-"): make
    for make in (
        artifact,
        bundle,
        program,
        prover,
        ptx,
        receipt,
        referee,
        tensors,
        text,
        inspect_bundle_command,
        inspect_program_command,
        verify_command,
    )
}


def corpus(reader: str) -> list[Path]:
    """The committed inputs of a reader; a command reads those of its files."""
    names = [reader, *(["receipt"] if reader == "verify-command" else []), *reader.split("-")[1:2]]
    return sorted(path for name in names for path in (CORPUS / name).glob("*"))


def run(reader: str, numbers: range, journal: Journal, seconds: float = float("inf")) -> None:
    """Runs the mutations of a reader that the journal lacks, for so many seconds at most."""
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="repro-fuzz-") as folder:
        made = READERS[reader](Path(folder))
        for result in forked.run(journal.missing(numbers), lambda n: made.read(made.mutation(n)), LIMITS):
            journal.add(result)
            if result.is_finding:
                print(f"{reader} {result.number}: {result.outcome[-400:]}", flush=True)
            if time.monotonic() > end or len(journal.findings()) >= MOST_FINDINGS:
                break


def replay(reader: str) -> list[str]:
    """What the committed inputs of a reader give that is a finding."""
    inputs = corpus(reader)
    with tempfile.TemporaryDirectory(prefix="repro-fuzz-") as folder:
        made = READERS[reader](Path(folder))
        results = list(forked.run(range(len(inputs)), lambda n: made.read(inputs[n].read_bytes()), LIMITS))
    return [f"{inputs[result.number].name}: {result.outcome}" for result in results if result.is_finding]


def show(reader: str, number: int, save: Path | None) -> None:
    with tempfile.TemporaryDirectory(prefix="repro-fuzz-") as folder:
        made = READERS[reader](Path(folder))
        data = made.mutation(number)
        if save is not None:
            save.write_bytes(data)
        print(made.read(data))


def main() -> int:
    """The status 1 if there is a finding."""
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
