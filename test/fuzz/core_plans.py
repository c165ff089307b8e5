# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Maps random canonical programs onto random machines of many cores and simulates them: bits must be equal to those of
the reference interpreter, or the program must be refused because it does not fit.

python test/fuzz/core_plans.py --count 1000 --journal build/fuzz/core-plans.jsonl    resumes where it stopped
python test/fuzz/core_plans.py --show 8        the program and the machine with the number 8, and the outcome
"""

from __future__ import annotations

import paths  # noqa: F401  # isort: skip

import re
import sys
import tempfile

import campaign
import forked
from repro_mlir.base.errors import CompileError, ReproError, StepFailed
from repro_mlir.compilation import cores, cpu
from repro_mlir.execute.cores import CoresBackend
from support import kit, random_programs
from support.catalogue import Case
from support.random_machines import machine

LIMITS = forked.Limits(seconds=120, memory=16 << 30, batch=100)
MACHINES = 20
"""The number of different machines."""

_DOES_NOT_FIT = re.compile(r"expected an operation whose smallest tile fits into the \d+ data bytes of a core")


def plan(case: Case, number: int) -> bytes:
    """Returns the plan of a program for the machine with the given number."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(machine(number))
        file.flush()
        return cores.compile(case.program, file.name, cpu.native_level(), jobs=1)


def case_of(number: int) -> Case:
    """Returns the program with the given number."""
    return random_programs.program(number, checks=True)


def outcome(number: int) -> str:
    """Runs the program with the given number on a machine and returns the outcome (see forked.py)."""
    case = case_of(number)
    want = kit.reference(case.program, case.inputs)
    try:
        executable = CoresBackend(plan(case, number % MACHINES))
    except CompileError as error:
        if not _DOES_NOT_FIT.search(str(error)) or "\n" in str(error):
            return f"finding: {error}"
        return "does not fit"
    known = kit.read(case.program)
    try:
        got = kit.executed(executable, known, case.inputs, "cores")
        kit.compare(known, want, got, "cores")
    except (kit.Mismatch, ReproError) as error:
        return f"finding: {error}"
    if isinstance(want, StepFailed):
        message = kit.compiled(case.program, case.inputs, kit.Configuration(cpu.native_level(), 1), runs=1)
        return "failed step" if str(message) == str(got) else f"finding: cpu fails with {message}, cores with {got}"
    return "ok"


def main() -> int:
    """Returns 1 if there is a finding, else 0."""
    options = campaign.parser(__doc__).parse_args()
    if options.show is not None:
        print(case_of(options.show).program)
        print(machine(options.show % MACHINES))
        (result,) = forked.run([options.show], outcome, LIMITS)
        print(result.outcome)
        return int(result.is_finding)
    journal = campaign.collect(options, lambda numbers: forked.run(numbers, outcome, LIMITS))
    print(f"programs on many cores: {journal.summary()}")
    return int(bool(journal.findings()))


if __name__ == "__main__":
    sys.exit(main())
