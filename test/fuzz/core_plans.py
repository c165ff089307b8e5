# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Maps random canonical programs onto random machines of many cores and simulates them: bits must be equal to those of
the reference interpreter, or the program must be refused because it does not fit.

python test/fuzz/core_plans.py --count 1000 --journal build/fuzz/core-plans.jsonl    resumes where it stopped
python test/fuzz/core_plans.py --first 1000000 --count 1000                    chains of products, with multicasts
python test/fuzz/core_plans.py --show 8        the program and the machine with the number 8, and the outcome
"""

from __future__ import annotations

import paths  # noqa: F401  # isort: skip

import re
import sys
import tempfile

import campaign
import forked
from repro_mlir import ir
from repro_mlir.base.errors import CompileError, ReproError, StepFailed
from repro_mlir.compilation import cores, cpu
from repro_mlir.execute.cores import CoresBackend
from repro_mlir.passmanager import PassManager
from support import kit, random_products, random_programs
from support.catalogue import Case
from support.cores import tool
from support.random_machines import machine

LIMITS = forked.Limits(seconds=120, memory=16 << 30, batch=100)
MACHINES = 20
"""The number of different machines."""

_DOES_NOT_FIT = re.compile(r"expected an operation whose smallest tile fits into the \d+ data bytes of a core")


PRODUCTS = 1_000_000
"""The programs from this number on are chains of products of matrices. If their machine has one chip and routers that
multicast, all factors that several cores need are multicast."""


def plan(case: Case, number: int) -> bytes:
    """Returns the plan of a program, with the given number, for its machine."""
    level = cpu.native_level()
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(machine(number % MACHINES))
        file.flush()
        if number < PRODUCTS:
            return cores.compile(case.program, cores.read_machine(file.name), level, jobs=1)
        passes = f"cores-map{{machine={file.name} multicasts=all}},cores-lower{{level={level}}}"
        try:
            return translated(run_passes(case.program, passes))
        except ir.MLIRError as error:
            raise CompileError(error.error_diagnostics[0].message) from None


def run_passes(text: str, passes: str) -> str:
    """Runs passes on a module. Raises MLIRError with the diagnostics."""
    with ir.Context() as context:
        context.attach_diagnostic_handler(lambda _: True)
        module = ir.Module.parse(text)
        PassManager.parse(f"builtin.module({passes})").run(module.operation)
        return str(module)


def translated(lowered: str) -> bytes:
    """Returns the core plan of a plan in the IR, whose kernels are lowered."""
    return tool("repro-translate", "--cores-to-plan", f"--level={cpu.native_level()}", text=lowered)


def case_of(number: int) -> Case:
    """Returns the program with the given number."""
    if number >= PRODUCTS:
        return random_products.program(number - PRODUCTS)
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
        executable = CoresBackend(plan(case, number))
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
