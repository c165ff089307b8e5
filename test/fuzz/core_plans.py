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
        return cores.compile(case.program, cores.read_machine(file.name), cpu.native_level(), jobs=1)


def case_of(number: int) -> Case:
    """Returns the program with the given number."""
    return random_programs.program(number, checks=True)


def compare(case: Case, backend: CoresBackend, name: str, runs: int = 2) -> kit.Outcome:
    """Runs a plan and returns its outcome. Raises Mismatch unless this is the outcome of the reference interpreter; if
    a check fails, with the message of the target `cpu`."""
    known, want = kit.read(case.program), kit.reference(case.program, case.inputs)
    got = kit.executed(backend, known, case.inputs, name, runs)
    kit.compare(known, want, got, name)
    if isinstance(want, StepFailed):
        message = kit.compiled(case.program, case.inputs, kit.Configuration(cpu.native_level(), 1), runs=1)
        if str(message) != str(got):
            raise kit.Mismatch(f"cpu fails with {message}, {name} with {got}")
    return got


def outcome(number: int) -> str:
    """Runs the program with the given number on a machine and returns the outcome (see forked.py)."""
    case = case_of(number)
    try:
        executable = CoresBackend(plan(case, number % MACHINES))
    except CompileError as error:
        if not _DOES_NOT_FIT.search(str(error)) or "\n" in str(error):
            return f"finding: {error}"
        return "does not fit"
    try:
        got = compare(case, executable, "cores")
    except (kit.Mismatch, ReproError) as error:
        return f"finding: {error}"
    return "failed step" if isinstance(got, StepFailed) else "ok"


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
