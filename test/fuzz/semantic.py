# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs random canonical programs and changed programs on all targets: bits must be equal, or the program is refused.

python test/fuzz/semantic.py --count 10000 --journal build/fuzz/semantic.jsonl    resumes where it stopped
python test/fuzz/semantic.py --show 8        one program, reduced as far as possible
"""

from __future__ import annotations

import paths  # noqa: F401  # isort: skip

import random
import re
import sys

import campaign
import forked
import numpy as np
from repro_mlir import ReproError, ir
from repro_mlir.base.errors import CompileError, ProgramError, StepFailed
from repro_mlir.compilation import cpu
from repro_mlir.execute import qemu
from repro_mlir.passmanager import PassManager
from repro_mlir.program.canonical import to_bytes
from repro_mlir.sandbox import import_module
from support import inputs as values
from support import kit, random_programs
from support.catalogue import Case
from support.device_kit import check as check_device

LIMITS = forked.Limits(seconds=120, memory=16 << 30, batch=100)
LEVELS = [level for level in cpu.runnable_levels() if level.startswith("x86-64")] or [cpu.native_level()]
HERE = [kit.Configuration(level, threads) for level in LEVELS for threads in (1, 2)]
AARCH64 = kit.Configuration("aarch64", 2)
MOST_BYTES = 1 << 24
"""The maximum number of bytes of the tensors of a nearly canonical program; larger programs are not run."""


def verify(text: str) -> str | None:
    """Returns the reason why a text is not a canonical program; None if the text is canonical."""
    with ir.Context() as context:
        context.attach_diagnostic_handler(lambda _: True)
        try:
            module = ir.Module.parse(text)
            PassManager.parse("builtin.module(repro-verify-canonical)").run(module.operation)
        except ir.MLIRError as error:
            return str(error)
    return None


def targets(number: int) -> tuple[list[kit.Configuration], str | None]:
    """Returns the CPU configurations that run a program and, for every tenth program, the architecture of an emulated
    GPU."""
    where = list(HERE)
    if number % 50 == 7 and qemu.is_available():
        where.append(AARCH64)
    return where, ("sm_90" if number % 20 else "sm_75") if number % 10 == 0 else None


def compare(case: Case, number: int) -> str:
    """Runs a canonical program on all targets and returns the outcome (see forked.py)."""
    want = kit.reference(case.program, case.inputs)
    where, device = targets(number)
    try:
        kit.check(case.program, case.inputs, where, runs=1, want=want)
        if device is not None:
            check_device(case.program, case.inputs, device, want, checked=number % 50 == 0)
    except kit.Mismatch as error:
        return f"finding: {error}"
    return "failed step" if isinstance(want, StepFailed) else "ok"


def valid(number: int, steps: int | None = None) -> str:
    """Runs the generated program with the given number, or only its first `steps` steps, and returns the outcome."""
    case = random_programs.program(number, steps, checks=True)
    if (refusal := verify(case.program)) is not None:
        return f"finding: a generated program is refused: {refusal}"
    return compare(case, number)


_NUMBER = re.compile(r"(?<![\w%.])\d+(?![\w.]*[eE.])(?=\b|x)")
_WORDS = [
    ("floordiv", "ceildiv"),
    ("mod", "floordiv"),
    ("parallel", "reduction"),
    ("refold", "sequential"),
    ("extsi", "extui"),
    ("sitofp", "bitcast"),
    ("addf", "addf fastmath<fast>"),
]


def nearly(number: int) -> str:
    """Returns the text of the canonical program with the given number, in which one or two numbers or words are
    changed. The result may be canonical or not."""
    choose = random.Random(~number)
    text = random_programs.program(number).program
    for _ in range(choose.choice([1, 1, 2])):
        if choose.random() < 0.15:
            old, new = choose.choice(_WORDS)
            places = [m.start() for m in re.finditer(rf"\b{old}\b", text)]
            if places:
                at = choose.choice(places)
                text = text[:at] + new + text[at + len(old) :]
            continue
        # `_NUMBER` skips the numbers in constants, because changing them violates no rule.
        found = [m for m in _NUMBER.finditer(text)]
        match = choose.choice(found)
        old_number = int(match[0])
        near = [old_number + 1, old_number - 1, old_number * 2, 0, 1]
        far = [-1, -old_number, 2**31, 2**62, 2**63 - 1, 2**64 + 1]
        new_number = choose.choice(near * 3 + far)
        text = text[: match.start()] + str(new_number) + text[match.end() :]
    return text


def near(number: int) -> str:
    """Returns the outcome of the changed program with the given number: it must be refused, or all targets must
    agree."""
    text = nearly(number)
    try:
        # The text may crash the parser, so a child process parses it first.
        import_module(text.encode(), is_text=True)
        to_bytes(text)
    except ReproError:
        return "refused"
    known = kit.read(text)
    if sum(int(np.prod(kind.shape or ())) for kind in known.body.argument_types) * 8 > MOST_BYTES:
        return "large"
    arrays = tuple(
        values.random(kind.element.name, kind.shape or (), i) for i, kind in enumerate(known.body.argument_types)
    )
    case = Case(f"near-{number}", text, tuple(map(np.asarray, arrays)))
    try:
        return compare(case, number)
    except (ProgramError, MemoryError) as error:
        return f"finding: accepted by the verifier, refused by the interpreter: {error}"
    except CompileError as error:
        return f"finding: accepted by the verifier, refused by the compiler: {error}"


def smallest(number: int) -> int:
    """Returns the smallest number of steps with which the program with the given number is still a finding."""
    for steps in range(random_programs.MOST_STEPS):
        (result,) = forked.run([number], lambda n, steps=steps: valid(n, steps), LIMITS)
        if result.is_finding:
            return steps
    return random_programs.MOST_STEPS


def show(number: int) -> None:
    """Prints the program with the given number, reduced to the fewest steps with which it is still a finding, and the
    first operation whose results differ."""
    steps = smallest(number)
    case = random_programs.program(number, steps, checks=True)
    print(case.program)
    (result,) = forked.run([number], lambda n: valid(n, steps), LIMITS)
    print(result.outcome)
    print(kit.first_difference(case.program, case.inputs, HERE[0]))


def main() -> int:
    """Returns 1 if there is a finding, else 0."""
    parser = campaign.parser(__doc__)
    parser.add_argument("--near", action="store_true", help="nearly canonical programs")
    options = parser.parse_args()
    if options.show is not None:
        show(options.show)
        return 0
    check = near if options.near else valid
    journal = campaign.collect(options, lambda numbers: forked.run(numbers, check, LIMITS))
    print(f"{'nearly canonical' if options.near else 'canonical'} programs: {journal.summary()}")
    return int(bool(journal.findings()))


if __name__ == "__main__":
    sys.exit(main())
