# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs random PyTorch functions through each entry point of the package: results must be near those of eager PyTorch
and have equal bits on all targets.

python test/fuzz/torch_modules.py --count 20000 --journal build/fuzz/torch.jsonl    resumes where it stopped
python test/fuzz/torch_modules.py --show 8        one program, reduced as far as possible
"""

from __future__ import annotations

import paths  # noqa: F401  # isort: skip

import os
import re
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import campaign
import forked
import torch
import torch_programs
from journal import Journal
from repro_mlir.base.errors import ReproError
from repro_mlir.compilation import cpu
from torch._dynamo.exc import BackendCompilerFailed, TorchDynamoException
from torch_doors import DOORS, Case, Mismatch, Results, eager
from torch_nearness import verdict
from torch_programs import Program

CORPUS = Path(__file__).parent / "corpus" / "torch"
GROUP = 8
"""The number of programs that are captured together."""
LIMITS = forked.Limits(seconds=400, memory=12 << 30, batch=25 * GROUP)
LEVELS = [f"cpu:{level}" for level in cpu.runnable_levels()]
_TURNS = [
    "torch.compile",
    "compile",
    "torch.compile",
    "Trainer",
    "torch.compile",
    "compile",
    "torch.compile",
    "compile",
]


def targets(group: int) -> list[str]:
    """Returns the targets of a group of programs: the reference interpreter and, in a third of the groups, another
    target."""
    turn = group // len(_TURNS)
    others = [*LEVELS, "ptx-emulator"]
    return ["reference", *([others[turn // 3 % len(others)]] if turn % 3 == 0 else [])]


def case_of(program: Program, door: str) -> tuple[Case, Results]:
    """Returns a case and eager PyTorch's results. Gradients are computed if both the entry point and eager PyTorch can
    compute them."""
    try:
        case = Case(program, door != "compile")
        return case, eager(program.function(), case.tensors())
    except (RuntimeError, NotImplementedError):
        case = Case(program, False)
        return case, eager(program.function(), case.tensors())


def outcomes(programs: Sequence[Program], group: int, door: str) -> list[str]:
    """Runs the programs together and returns the outcome of each (see forked.py). If an error names a program, its
    outcome is this error or, if that would be a finding, the outcome of a run of the program alone. If the error names
    no program, each program is run alone."""
    known = [case_of(program, door) for program in programs]
    waiting = list(range(len(programs)))
    found = [""] * len(programs)
    while waiting:
        try:
            results = DOORS[door]([known[i][0] for i in waiting], targets(group))
        except Exception as error:
            if len(waiting) == 1:
                (i,) = waiting
                found[i] = _outcome(error)
                if found[i].startswith("finding") and _is_of_pytorch(error, known[i][0]):
                    found[i] = f"refused: AOTAutograd: {_root(error)}"
                break
            place = _place(error, [programs[i] for i in waiting])
            if place is None:
                for i in waiting:
                    (found[i],) = outcomes([programs[i]], group, door)
                break
            i = waiting.pop(place)
            found[i] = _outcome(error)
            if found[i].startswith("finding"):
                (found[i],) = outcomes([programs[i]], group, door)
            continue
        for i, result in zip(waiting, results, strict=True):
            found[i] = verdict(*known[i], result)
            if not found[i].startswith(("ok", "differs: ")):
                found[i] = f"finding: by {door}: {found[i]}"
        break
    return found


def _outcome(error: Exception) -> str:
    if isinstance(error, BackendCompilerFailed) and isinstance(error.inner_exception, ReproError):
        error = error.inner_exception
    if isinstance(error, ReproError):
        text = str(error)
        return f"refused: {text}" if "\n" not in text else f"finding: more than one line: {text}"
    if isinstance(error, TorchDynamoException) and not isinstance(error, BackendCompilerFailed):
        return f"refused: Dynamo: {str(error).splitlines()[0]}"
    if isinstance(error, Mismatch):
        return f"finding: bits: {error}"
    return f"finding: {type(error).__name__}: {''.join(traceback.format_exception(error, limit=-5))[-1500:]}"


def _is_of_pytorch(error: Exception, case: Case) -> bool:
    """Whether the error is PyTorch's: its backend `aot_eager`, which gets the same graph, fails with the same error."""
    torch._dynamo.reset()
    try:
        eager(torch.compile(case.program.function(), backend="aot_eager", fullgraph=True), case.tensors())
    except Exception as other:
        return _root(other) == _root(error)
    return False


def _root(error: Exception) -> str:
    """Returns the type and the first line of an error, or of the error of our backend that PyTorch has wrapped."""
    if isinstance(error, BackendCompilerFailed):
        error = error.inner_exception
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _place(error: Exception, programs: Sequence[Program]) -> int | None:
    """Returns the index of the program that contains the line number in an error message; None if there is no line
    number."""
    match = re.search(r"programs_\w{8}\.py:(\d+)", str(error))
    if match is None:
        return None
    line = int(match[1])
    for place, program in enumerate(programs):
        line -= len(program.lines) + 3
        if line <= 0:
            return place
    return None


def door_of(group: int) -> str:
    """Returns the entry point of a group. The entry points are used in turn."""
    return _TURNS[group % len(_TURNS)]


def work(known: dict[int, list[str]]) -> forked.Work:
    """Returns a function that returns the outcome of the program with a given number. For the first number of a group,
    it runs the whole group and stores the outcomes in `known`; for the other numbers, it looks up the outcome there."""

    def of(number: int) -> str:
        group, place = divmod(number, GROUP)
        if place == 0:
            programs = [torch_programs.program(number + i) for i in range(GROUP)]
            known[group] = outcomes(programs, group, door_of(group))
        if group in known:
            return known[group][place]
        return alone(number)

    return of


def alone(number: int) -> str:
    """Runs the program with the given number by itself and returns its outcome."""
    group = number // GROUP
    return outcomes([torch_programs.program(number)], group, door_of(group))[0]


def begin() -> None:
    """Runs in the parent the imports and initialization that every child would otherwise repeat: some imports take
    seconds."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    # Programs are different, so a cache of compiled code would never be hit.
    os.environ["REPRO_MLIR_CACHE"] = "off"
    program = Program((torch_programs.Input("float32", (2,), "normal", 0),), ("x0 * 2",), ("v0",))
    for door in DOORS:
        outcomes([program], 0, door)


# --- Findings ---


def smallest(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Reduces a failing program until no smaller variant of it fails, and returns it."""
    while True:
        for other in torch_programs.smaller(program):
            if fails(other):
                program = other
                break
        else:
            return program


def show(number: int) -> None:
    """Prints the reduced program with the given number and its outcome."""
    group = number // GROUP

    def fails(program: Program) -> bool:
        return forked_outcome(program, group, door_of(group)).startswith("finding")

    program = torch_programs.program(number)
    if fails(program):
        program = smallest(program, fails)
    print(program.text())
    print(door_of(group), forked_outcome(program, group, door_of(group)))


def forked_outcome(program: Program, group: int, door: str) -> str:
    """Runs a program in a child process and returns its outcome."""

    def of(_: int) -> str:
        return outcomes([program], group, door)[0]

    (result,) = forked.run([0], of, LIMITS)
    return result.outcome


def replay(door: str) -> list[str]:
    """Runs the programs of the corpus through an entry point and returns a line for each program whose outcome is not
    "ok"."""
    files = sorted(CORPUS.glob("*.py"))
    programs = [torch_programs.read(file) for file in files]
    found = zip(files, outcomes(programs, list(DOORS).index(door) + 1, door), strict=True)
    return [f"{file.name} by {door}: {outcome}" for file, outcome in found if outcome != "ok"]


_VARIED = re.compile(r"\S*programs_\w+\.py:\d+: |-?\b\d+\b")


def classes(journal: Journal) -> Counter[str]:
    """Counts the outcomes. Messages that differ only in numbers and source locations are counted as one."""
    return Counter(_VARIED.sub("", outcome.splitlines()[0])[:160] for outcome in journal.outcomes.values())


def main() -> int:
    """Returns 1 if there is a finding, else 0."""
    options = campaign.parser(__doc__, count=10 * GROUP).parse_args()
    begin()
    if options.show is not None:
        show(options.show)
        return 0
    journal = campaign.collect(options, lambda numbers: forked.run(numbers, work({}), LIMITS, alone))
    for kind, count in classes(journal).most_common():
        print(f"{count:7} {kind}")
    return int(bool(journal.findings()))


if __name__ == "__main__":
    sys.exit(main())
