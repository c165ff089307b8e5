# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The seeds of the fuzzers, and mutations of the seeds. Seeds are correct files and training runs, which each run of a
fuzzer creates again."""

from __future__ import annotations

import functools
import io
import os
import random
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import blake3
import numpy as np
import repro_mlir
from damage import mutate
from repro_mlir.bundle.writer import expect, write_bundle
from repro_mlir.verification.dispute import LocalChannel, Prover, RecordedRun, settle
from repro_mlir.verification.operators import OperatorGraph, Tracer
from repro_mlir.verification.receipts.options import ReceiptOptions
from repro_mlir.verification.receipts.recorder import Recorder
from support import handmade

Change = Callable[[bytes, Sequence[bytes], random.Random], bytes]

STEPS, WRONG_STEP = 3, 2


@dataclass(frozen=True)
class Reader:
    """A reader of untrusted bytes.

    Attributes:
      seeds: the correct inputs, which are mutated.
      read: reads an input and returns an outcome (see forked.py).
      change: mutates a seed.
      is_command: whether the reader is a complete command, which parses programs in child processes as in normal
        use.
    """

    seeds: Sequence[bytes]
    read: Callable[[bytes], str]
    change: Change = mutate
    is_command: bool = False

    def mutation(self, number: int) -> bytes:
        """Returns the mutation with the given number."""
        draw = random.Random(number)
        return self.change(draw.choice(self.seeds), self.seeds, draw)


# Several files in one: program files, bundles, and receipts as zips of their files ------------------------------------


def packed(members: dict[str, bytes]) -> bytes:
    """Returns a zip of the members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


@functools.lru_cache(maxsize=16)
def _unpacked(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def unpacked(data: bytes) -> dict[str, bytes]:
    """Returns the members of a zip."""
    return dict(_unpacked(data))


def packed_folder(path: Path) -> bytes:
    """Returns a zip of the files in a folder."""
    files = sorted(each for each in path.rglob("*") if each.is_file())
    return packed({str(each.relative_to(path)): each.read_bytes() for each in files})


def change_member(data: bytes, seeds: Sequence[bytes], draw: random.Random) -> bytes:
    """Damages one file in a zip. In half of the cases, replaces the file's old digest in all other files by the new
    one."""
    members = unpacked(data)
    name = draw.choice([*members])
    old = members[name]
    members[name] = mutate(old, [*members.values()], draw)
    if draw.random() < 0.5:
        digests = [blake3.blake3(part).hexdigest().encode() for part in (old, members[name])]
        members = {n: part.replace(*digests) if n != name else part for n, part in members.items()}
    return packed(members)


def change_archive(data: bytes, seeds: Sequence[bytes], draw: random.Random) -> bytes:
    """Damages either the bytes of a zip or one of its members."""
    return (mutate if draw.random() < 0.4 else change_member)(data, seeds, draw)


class Folder:
    """A folder with the contents of a zip; files that already have the right contents are not written again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process = 0
        self._held: dict[str, bytes] = {}

    def fill(self, data: bytes) -> Path:
        """Makes the folder contain exactly the files of the zip and returns its path."""
        if self._process != os.getpid():
            # This is a new child. Its predecessor may have died while it wrote, so the contents of the folder are
            # unknown.
            self._process, self._held = os.getpid(), {}
        path = self._path / str(self._process)
        members = unpacked(data)
        for name in self._held.keys() - members:
            (path / name).unlink()
        for name, content in members.items():
            if self._held.get(name) != content:
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_bytes(content)
        self._held = members
        return path


# Receipts and bundles of one small program ----------------------------------------------------------------------------


def write_receipt(path: Path, wrong_step: int | None = None) -> None:
    """Writes a receipt of three steps with batches and checkpoints. If `wrong_step` is given, the state is wrong from
    this step on."""
    program = handmade.program()
    executable = repro_mlir.compile(program, "reference")
    recorder = Recorder(ReceiptOptions(path, checkpoint_every=2), program, "reference", 1)
    for step, inputs in enumerate(handmade.steps(STEPS), 1):
        given = recorder.take(program, inputs)
        _, outputs = executable(recorder.state, *given)
        if step == wrong_step:
            _flip(recorder.state["w"])
        recorder.commit(given, list(outputs.values()))
    recorder.seal()
    recorder.close()


def write_bundle_of_two_steps(path: Path) -> None:
    """Writes a bundle with two recorded steps."""
    steps = handmade.steps(2)
    codes = [handmade.code("sm_75"), handmade.code("sm_90", cubin=b"\x7fELF", constants=bytes(64))]
    write_bundle(path, handmade.program(), codes, steps=steps, expected=expect(handmade.program(), steps))


def of_receipt(folder: Path, use: Callable[[Path], str], *, wrong: bool = False, is_command: bool = False) -> Reader:
    """Creates a reader of damaged receipts.

    Args:
      wrong: whether a receipt of a run with a wrong bit is also a seed.
    """
    write_receipt(folder / "right")
    seeds = [packed_folder(folder / "right")]
    if wrong:
        write_receipt(folder / "wrong", WRONG_STEP)
        seeds.append(packed_folder(folder / "wrong"))
    damaged = Folder(folder / "damaged")
    return Reader(seeds, lambda data: use(damaged.fill(data)), change_member, is_command)


def of_archive(
    folder: Path, write: Callable[[Path], None], use: Callable[[Path], str], *, is_command: bool = False
) -> Reader:
    """Creates a reader of damaged zips."""
    write(folder / "right")

    def read(data: bytes) -> str:
        (folder / "damaged.rmb").write_bytes(data)
        return use(folder / "damaged.rmb")

    return Reader([(folder / "right").read_bytes()], read, change_archive, is_command)


# Disputes about the receipt -------------------------------------------------------------------------------------------


def runs() -> tuple[RecordedRun, RecordedRun]:
    """Returns an honest run, and the same run with a wrong bit in the results of step `WRONG_STEP`."""
    program = handmade.program()
    graph = OperatorGraph(program)
    tracer = Tracer(graph)

    def wrong(step: int, arrays: list[np.ndarray]) -> list[np.ndarray]:
        results = tracer.results(arrays)
        if step == WRONG_STEP:
            results = [array.copy() for array in results]
            _flip(results[0])
        return results

    steps = handmade.steps(STEPS)
    honest = RecordedRun(program, steps, lambda _, arrays: tracer.results(arrays), graph=graph)
    return honest, RecordedRun(program, steps, wrong, graph=graph)


def _flip(array: np.ndarray) -> None:
    array.view(np.uint32)[0, 0] ^= 1


class Recording(LocalChannel):
    """A channel that records questions and answers."""

    def __init__(self, prover: Prover) -> None:
        super().__init__(prover)
        self.questions: list[bytes] = []
        self.answers: list[bytes] = []

    def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
        self.questions.append(question)
        self.answers.append(super().exchange(question, limit, timeout))
        return self.answers[-1]


def conversations(runs: Sequence[RecordedRun]) -> list[Recording]:
    """Settles a dispute between two runs. Returns the channel to each party with its recorded questions and answers."""
    channels = [Recording(Prover(run)) for run in runs]
    settle(*channels)
    return channels
