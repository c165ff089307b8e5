# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Changes plans of many cores at random: each changed plan must be refused, or compute the bits of the program at
different speeds of the machine.

python test/fuzz/core_mutations.py --count 1000 --journal build/fuzz/mutations.jsonl    resumes where it stopped
python test/fuzz/core_mutations.py --show 8        the change with the number 8, and what finds it

--of bytes changes one byte: of the text of a plan, of a stored core plan, or of a core plan whose checksum is then
computed again, as by the author of a plan. The last one may have other bits, since a core plan does not contain its
program. But no byte, except those of the code and of the numbers of work items, may end the process or make it hang.
"""

from __future__ import annotations

import paths  # noqa: F401  # isort: skip

import difflib
import functools
import json
import random
import re
import struct
import sys
import tempfile
from collections import Counter, defaultdict

import campaign
import core_plans
import forked
from core_changes import CHANGES, Plan
from core_plans import run_passes, translated
from repro_mlir import ir
from repro_mlir.base.errors import ReproError
from repro_mlir.compilation import cpu
from repro_mlir.compilation.cores import read_machine
from repro_mlir.execute.artifact import checksum
from repro_mlir.execute.cores import CoresBackend
from support import catalogue, kit
from support.catalogue import Case
from support.random_machines import machine

LIMITS = forked.Limits(seconds=120, memory=16 << 30, batch=100)
SPEEDS = 4
"""The number of machines that differ in their speeds and run a changed plan that the passes accept."""

VERIFICATIONS = ("repro-verify-cores", "repro-verify-core-mapping")

_HEADER = 24
"""The number of bytes before the body of a core plan: magic, version and checksum."""

EXACT = range(1000, 2000)
"""The programs with these numbers are exact contractions (K4), which use the matrix arrays of cores."""

PROGRAMS = (
    *(5, 8, 11, 12, 15, 20, 21, 23, 26, 34, 36, 46, 47, 49, 52, 57, 1002, 1005, 1009, 1029),
    *(core_plans.PRODUCTS + number for number in (3, 6, 39, 44)),
)
"""The programs whose plans are changed: these plans use several cores, which wait for each other or send boxes to each
other, and some make checks."""


def case_of(number: int) -> Case:
    """Returns a random program, or an exact contraction."""
    if number not in EXACT:
        return core_plans.case_of(number)
    return list(catalogue.exact_contractions())[EXACT.index(number)]


def machine_of(program: int) -> str:
    """Returns the machine onto which a program is mapped."""
    return "tiny-2x2" if program in EXACT else machine_file(program % core_plans.MACHINES)


@functools.cache
def machine_file(number: int) -> str:
    """Returns the path of a machine file that exists until the process ends."""
    file = tempfile.NamedTemporaryFile("w", prefix=f"machine-{number}-", suffix=".json")
    _FILES.append(file)
    file.write(machine(number))
    file.flush()
    return file.name


_FILES: list[object] = []


@functools.cache
def base(number: int) -> str:
    """Returns a plan of many cores, which the passes accept, next to the launch plan from which it is made."""
    options = f"machine={machine_of(number)} multicasts=all verify=false"
    text = run_passes(case_of(number).program, f"cores-map{{{options}}}")
    run_passes(text, ",".join(VERIFICATIONS))
    return text


def changed(seed: int) -> tuple[int, str, str]:
    """Returns the number of a program, the name of a change and the changed plan."""
    choose = random.Random(seed)
    while True:
        program, change = choose.choice(PROGRAMS), choose.choice(CHANGES)
        plan = Plan(base(program), choose)
        before = list(plan.lines)
        try:
            change(plan)
        except (IndexError, KeyError):
            continue  # the plan has no place for this change
        if plan.lines != before:
            return program, change.__name__, "\n".join(plan.lines) + "\n"


def translate(text: str) -> bytes:
    """Returns the core plan of a plan in the IR."""
    return translated(run_passes(text, f"cores-lower{{level={cpu.native_level()}}}"))


def at_speed(plan: bytes, text: str, seed: int) -> bytes:
    """Returns a core plan whose machine has other speeds."""
    choose = random.Random(seed)
    description = json.loads(text)

    def vary(section: str, key: str, factor: float) -> None:
        entry = description[section][key]
        entry["value"] = choose.choice([entry["value"], 1, factor])

    for key in description["cycles"]:
        vary("cycles", key, 1000)
    vary("network", "hop_cycles", 10000)
    vary("network", "link_bytes_per_cycle", 0.01)
    vary("dma", "setup_cycles", 10000)
    for channel in description["dram"]["channels"]:
        channel["bytes_per_second"]["value"] = choose.choice([1e5, 1e9, 1e13])
        channel["latency_seconds"]["value"] = choose.choice([0, 1e-6, 1e-3])
    old, new = text.encode(), json.dumps(description).encode()
    packed = struct.pack("<I", len(old)) + old
    assert plan.count(packed) == 1
    body = plan[_HEADER:].replace(packed, struct.pack("<I", len(new)) + new)
    return sealed(plan, body)


def sealed(plan: bytes, body: bytes) -> bytes:
    """Returns the core plan with another body."""
    return plan[: _HEADER - 8] + struct.pack("<Q", checksum(body)) + body


def outcome(seed: int) -> str:
    """Returns the change with the given number and what finds it (see forked.py)."""
    program, change, text = changed(seed)
    return judged(program, change, text)


def judged(program: int, change: str, text: str) -> str:
    """Returns a change of a plan's text and what finds it."""
    for passes in VERIFICATIONS:
        try:
            text = run_passes(text, passes)
        except ir.MLIRError as error:
            by = passes if "Failure while executing" in str(error) else "the dialect"
            return f"{change}: refused by {by}"
    described = read_machine(machine_of(program)).text
    try:
        plan = translate(text)
        for speed in range(SPEEDS):
            compare(program, at_speed(plan, described, speed), f"speed {speed}")
    except (ir.MLIRError, kit.Mismatch, ReproError, ValueError) as error:
        return f"finding: {change}: {error}"
    return f"{change}: same bits"


def compare(program: int, plan: bytes, name: str) -> None:
    """Raises Mismatch unless a core plan has the bits of the program, or its error. Raises ValueError or ReproError if
    the reader or the simulator refuses the plan."""
    case = case_of(program)
    known = kit.read(case.program)
    backend = CoresBackend(plan)
    tensors = [(kind.element, kind.shape) for kind in (*backend.states, *backend.inputs, *backend.outputs)]
    results = known.result_types[known.num_state :]
    if tensors != [(kind.element.name, tuple(kind.shape)) for kind in (*known.body.argument_types, *results)]:
        raise ValueError("the plan has other tensors than the program")
    core_plans.compare(case, backend, name, runs=1)


# ----------------------------------------------------------------------------------------------------------------------
# Changes of bytes
# ----------------------------------------------------------------------------------------------------------------------

BYTES = ("a byte of the text", "a byte of the stored plan", "a byte and the checksum of the stored plan")


@functools.cache
def stored(program: int) -> bytes:
    """Returns the core plan of a program."""
    return translate(run_passes(base(program), ",".join(VERIFICATIONS)))


def changed_byte(seed: int) -> tuple[int, str, bytes]:
    """Returns the number of a program, one of `BYTES`, and the text or the core plan with the changed byte."""
    choose = random.Random(f"byte {seed}")
    program, change = choose.choice(PROGRAMS), choose.choice(BYTES)
    if change == BYTES[0]:
        text = bytearray(base(program).encode())
        at = choose.randrange(len(text))
        text[at] = choose.choice([each for each in range(32, 127) if each != text[at]])
        return program, change, bytes(text)
    plan = bytearray(stored(program))
    if change == BYTES[1]:
        plan[choose.randrange(len(plan))] ^= 1 << choose.randrange(8)
        return program, change, bytes(plan)
    # The code and the numbers of its work items cannot be checked: the reader trusts the author of a plan.
    items = {at for name in re.finditer(rb"tile_\d+", plan) for at in range(name.end(), name.end() + 8)}
    places = [at for at in range(_HEADER, plan.index(b"\x7fELF")) if at not in items]
    plan[choose.choice(places)] ^= 1 << choose.randrange(8)
    return program, change, sealed(bytes(plan), bytes(plan[_HEADER:]))


def outcome_of_byte(seed: int) -> str:
    """Returns the kind of the change with the given number and what finds it (see forked.py)."""
    program, change, data = changed_byte(seed)
    if change == BYTES[0]:
        return judged(program, change, data.decode())
    try:
        compare(program, data, "changed")
    except ValueError:
        return f"{change}: refused by the reader"
    except ReproError:
        return f"{change}: refused by the simulator"
    except kit.Mismatch as error:
        return f"finding: {change}: {error}" if change == BYTES[1] else f"{change}: other bits"
    return f"finding: {change}: read" if change == BYTES[1] else f"{change}: same bits"


def table(outcomes: dict[int, str]) -> str:
    """Returns the numbers of the changes by what finds them, for each kind of change."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for text in outcomes.values():
        change, _, by = text.removeprefix("finding: ").partition(": ")
        counts[change]["finding" if text.startswith("finding") else by] += 1
    return "\n".join(f"{change}: {dict(sorted(each.items()))}" for change, each in sorted(counts.items()))


def show(seed: int) -> int:
    """Prints a change and its outcome."""
    program, change, text = changed(seed)
    print(f"program {program}, machine {machine_of(program)}: {change}")
    print("\n".join(difflib.unified_diff(base(program).splitlines(), text.splitlines(), lineterm="", n=3)))
    for passes in VERIFICATIONS:
        try:
            text = run_passes(text, passes)
        except ir.MLIRError as error:
            print(error)
            break
    return show_outcome(seed, outcome)


def show_byte(seed: int) -> int:
    """Prints a change of a byte and its outcome."""
    program, change, data = changed_byte(seed)
    print(f"program {program}, machine {machine_of(program)}: {change}")
    before = base(program).encode() if change == BYTES[0] else stored(program)
    at = next(i for i in range(_HEADER * (change != BYTES[0]), len(data)) if data[i] != before[i])
    print(f"byte {at}: {before[max(at - 60, 0) : at + 20]!r} to {data[max(at - 60, 0) : at + 20]!r}")
    return show_outcome(seed, outcome_of_byte)


def show_outcome(seed: int, work: forked.Work) -> int:
    (result,) = forked.run([seed], work, LIMITS)
    print(result.outcome)
    return int(result.is_finding)


def main() -> int:
    """Returns 1 if there is a finding, else 0."""
    parser = campaign.parser(__doc__)
    parser.add_argument("--of", choices=("operations", "bytes"), default="operations", help="what is changed")
    options = parser.parse_args()
    of_bytes = options.of == "bytes"
    if options.show is not None:
        return (show_byte if of_bytes else show)(options.show)
    for program in PROGRAMS:
        (stored if of_bytes else base)(program)  # the children inherit the plans
    work = outcome_of_byte if of_bytes else outcome
    journal = campaign.collect(options, lambda numbers: forked.run(numbers, work, LIMITS))
    print(table(journal.outcomes))
    return int(bool(journal.findings()))


if __name__ == "__main__":
    sys.exit(main())
