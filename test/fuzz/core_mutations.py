# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Changes plans of many cores at random: each changed plan must be refused, or compute the bits of the program at
different speeds of the machine.

python test/fuzz/core_mutations.py --count 1000 --journal build/fuzz/mutations.jsonl    resumes where it stopped
python test/fuzz/core_mutations.py --show 8        the change with the number 8, and what finds it
"""

from __future__ import annotations

import paths  # noqa: F401  # isort: skip

import difflib
import functools
import json
import random
import re
import struct
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import campaign
import core_plans
import forked
from repro_mlir import ir
from repro_mlir._mlir_libs import _repro
from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.compilation import cpu
from repro_mlir.execute.artifact import checksum
from repro_mlir.execute.cores import CoresBackend
from repro_mlir.passmanager import PassManager
from support import kit
from support.random_machines import machine

LIMITS = forked.Limits(seconds=120, memory=16 << 30, batch=100)
TOOLS = Path(_repro.__file__).parent
SPEEDS = 4
"""The number of machines that differ in their speeds and run a changed plan that the passes accept."""

_HEADER = 24
"""The number of bytes before the body of a core plan: magic, version and checksum."""

MAP = (
    "schedule,repro-map-split,repro-map-partition{{machine={0}}},repro-map-tile{{machine={0} level={1}}},"
    "repro-map-place{{machine={0}}},repro-map-schedule{{machine={0} level={1}}}"
)
PROGRAMS = (5, 8, 11, 12, 15, 20, 21, 23, 26, 34, 36, 46, 47, 49, 52, 57)
"""The random programs whose plans are changed: these plans use several cores, which wait for each other, and some make
checks."""


def run_passes(text: str, passes: str) -> str:
    """Runs passes on a module. Raises MLIRError with the diagnostics."""
    with ir.Context() as context:
        context.attach_diagnostic_handler(lambda _: True)
        module = ir.Module.parse(text)
        PassManager.parse(f"builtin.module({passes})").run(module.operation)
        return str(module)


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
    """Returns a plan of many cores next to the launch plan from which it is made."""
    case = core_plans.case_of(number)
    return run_passes(case.program, MAP.format(machine_file(number % core_plans.MACHINES), cpu.native_level()))


# ----------------------------------------------------------------------------------------------------------------------
# Changes of a text
# ----------------------------------------------------------------------------------------------------------------------

_OPERATION = re.compile(r"^ {6}(?:%\w+ = )?cores\.(\w+) ")
_RESULT = re.compile(r"^ *(%\w+) = ")
_VIEW = re.compile(r"^( *)(%\w+) = launch\.view (%\w+)\[(\d+)\] : (.*) to (memref<.*>)$")
_NUMBER = re.compile(r"(?<![\w%.@])\d+")


class Plan:
    """The lines of a plan of many cores."""

    def __init__(self, text: str, choose: random.Random) -> None:
        self.lines = text.splitlines()
        self.choose = choose
        self.begin = next(i for i, line in enumerate(self.lines) if "cores.plan" in line)
        self.end = len(self.lines) - 1

    def places(self, *kinds: str) -> list[int]:
        """Returns the lines with these operations of the dialect `cores`, or with all of them."""
        found = [(i, _OPERATION.match(line)) for i, line in enumerate(self.lines)]
        return [i for i, match in found if match and (not kinds or match[1] in kinds)]

    def pick(self, *kinds: str) -> int:
        """Returns one of these lines. Raises IndexError if there is none."""
        return self.choose.choice(self.places(*kinds))

    def program(self, line: int) -> int:
        """Returns the line at which the program of a line begins."""
        return max(i for i in range(line) if "cores.program at" in self.lines[i])

    def users(self, name: str) -> list[int]:
        """Returns the lines that use a value, from the line that defines it to the end of the program or plan."""
        word = re.compile(rf"{re.escape(name)}\b")
        return [i for i in range(self.begin, self.end) if word.search(self.lines[i]) and not self.defines(i, name)]

    def defines(self, line: int, name: str) -> bool:
        match = _RESULT.match(self.lines[line])
        return bool(match and match[1] == name)

    def visible(self, line: int) -> dict[str, str]:
        """Returns the types of the buffers that an operation at a line can use: those of the plan and its program."""
        begin = self.program(line)
        first = next(i for i in range(self.begin, self.end) if "cores.program at" in self.lines[i])
        types = {}
        for i in (*range(self.begin, first), *range(begin, line)):
            if match := _VIEW.match(self.lines[i]):
                types[match[2]] = match[6]
            elif match := re.match(r"^ *(%\w+) = launch.constant .* as (memref<.*>)$", self.lines[i]):
                types[match[1]] = match[2]
        for argument in re.finditer(r"(%\w+): (memref<[^{}]*?>)(?=[,) {])", self.lines[self.begin]):
            types[argument[1]] = argument[2]
        return types

    def number(self, line: int, first: int = 0) -> None:
        """Changes one number after position `first` of a line."""
        found = list(_NUMBER.finditer(self.lines[line], first))
        match = self.choose.choice(found)
        old = int(match[0])
        new = self.choose.choice([old + 1, max(old - 1, 0), old * 2, 0, 1, old + 4, old + 64])
        text = self.lines[line]
        self.lines[line] = text[: match.start()] + str(new) + text[match.end() :]


def drop(plan: Plan) -> None:
    """Removes an operation, and the wait of its transfer."""
    line = plan.pick(plan.choose.choice(["copy", "wait", "run", "release", "acquire", "check"]))
    match = _RESULT.match(plan.lines[line])
    for i in sorted([line, *(plan.users(match[1]) if match else [])], reverse=True):
        del plan.lines[i]


def repeat(plan: Plan) -> None:
    """Repeats an operation, at once or later."""
    line = plan.pick()
    text = plan.lines[line]
    again = [text]
    if match := _RESULT.match(text):
        again = [text.replace(match[1], "%again", 1), "      cores.wait %again"]
    later = [i for i in plan.places() if i >= line and plan.program(i) == plan.program(line)]
    at = plan.choose.choice([line, plan.choose.choice(later)])
    plan.lines[at + 1 : at + 1] = again


def move(plan: Plan) -> None:
    """Moves an operation up or down in its program; views move to the begin of the program before."""
    hoist(plan)
    line = plan.pick()
    begin = plan.program(line)
    same = [i for i in plan.places() if plan.program(i) == begin and i != line]
    to = min(same, key=lambda i: abs(i - line)) if plan.choose.random() < 0.5 else plan.choose.choice(same)
    plan.lines.insert(to, plan.lines.pop(line))


def hoist(plan: Plan) -> None:
    """Moves all views of a program's memory to the begin of the program."""
    begins = [i for i in range(plan.begin, plan.end) if "^bb0(" in plan.lines[i]]
    for begin in begins:
        end = next(i for i in range(begin, plan.end + 1) if plan.lines[i] == "    }")
        body = plan.lines[begin + 1 : end]
        views = [text for text in body if _VIEW.match(text)]
        plan.lines[begin + 1 : end] = views + [text for text in body if not _VIEW.match(text)]


def number(plan: Plan) -> None:
    """Changes a counter, a count, a core or another number of an operation."""
    line = plan.pick("release", "acquire", "send", "check")
    plan.number(line, plan.lines[line].index("cores.") + 6)


def retarget(plan: Plan) -> None:
    """Replaces an operand by another buffer of its type, or by another transfer."""
    line = plan.pick("copy", "run", "wait", "check")
    text = plan.lines[line]
    operands = re.findall(r"%\w+", text.split(" = ")[-1])
    old = plan.choose.choice(operands)
    if "cores.wait" in text:
        begin = plan.program(line)
        others = [m[1] for m in map(_RESULT.match, plan.lines[begin:line]) if m and m[1] != old]
    else:
        types = plan.visible(line)
        others = [name for name, kind in types.items() if kind == types[old] and name != old]
    new = plan.choose.choice(others)
    # The last occurrence is an operand, not the result.
    *_, match = re.finditer(rf"{re.escape(old)}\b", text.split(" : ")[0])
    plan.lines[line] = text[: match.start()] + new + text[match.end() :]


def swap_operands(plan: Plan) -> None:
    """Swaps two operands of equal type of a run."""
    line = plan.pick("run")
    text = plan.lines[line]
    types = plan.visible(line)
    operands = re.findall(r"%\w+", text)
    pairs = [(a, b) for i, a in enumerate(operands) for b in operands[:i] if a != b and types[a] == types[b]]
    a, b = plan.choose.choice(pairs)
    plan.lines[line] = re.sub(rf"({re.escape(a)}|{re.escape(b)})\b", lambda match: b if match[1] == a else a, text)


def kernel(plan: Plan) -> None:
    """Runs another kernel with the same types of buffers."""
    line = plan.pick("run")
    kinds: dict[str, list[str]] = {}
    for text in plan.lines[: plan.begin]:
        if match := re.search(r"func\.func private (@tile_\d+)\(", text):
            kinds[match[1]] = re.findall(r"memref<[^{}]*?> \{launch.access = #launch<access [a-z|]+>", text)
    old = re.search(r"@tile_\d+", plan.lines[line])[0]
    others = [name for name, kind in kinds.items() if kind == kinds[old] and name != old]
    plan.lines[line] = plan.lines[line].replace(old, plan.choose.choice(others))


def home(plan: Plan) -> None:
    """Swaps the cores of two programs."""
    begins = [i for i in range(plan.begin, plan.end) if "cores.program at" in plan.lines[i]]
    a, b = plan.choose.sample(begins, 2)
    core = re.compile(r"at \[\d+, \d+\]")
    first, second = core.search(plan.lines[a])[0], core.search(plan.lines[b])[0]
    plan.lines[a] = plan.lines[a].replace(first, second)
    plan.lines[b] = plan.lines[b].replace(second, first)


def offset(plan: Plan) -> None:
    """Moves a view by one element, by its size or by another number of bytes, for one of its users or for all."""
    views = [i for i in range(plan.begin, plan.end) if _VIEW.match(plan.lines[i])]
    line = plan.choose.choice(views)
    indent, name, source, old, source_type, kind = _VIEW.match(plan.lines[line]).groups()
    shape = [int(n) for n in re.findall(r"(\d+)x", kind.split(",")[0])]
    bits = re.search(r"(\d+)", re.split(r"x(?=[a-z])|<(?=[a-z])", kind.split(",")[0].rstrip(">"))[-1])
    size = max(int(bits[1]) // 8, 1)
    whole = size
    for extent in shape:
        whole *= extent
    by = plan.choose.choice([size, -size, whole, -whole, 64, -64, size * (shape[-1] if shape else 1)])
    new = int(old) + by
    if new < 0:
        raise IndexError
    moved = f"{source}[{new}] : {source_type} to {kind}"
    if plan.choose.random() < 0.5:
        plan.lines[line] = f"{indent}{name} = launch.view {moved}"
        return
    user = plan.choose.choice(plan.users(name))
    plan.lines[user] = re.sub(rf"{re.escape(name)}\b", "%moved", plan.lines[user], count=1)
    plan.lines.insert(user, f"      %moved = launch.view {moved}")


def shape(plan: Plan) -> None:
    """Copies a part of a box, or strides differently over the box."""
    line = plan.pick("copy")
    match = re.match(r"^( *%\w+ = cores.copy) (%\w+) to (%\w+) : (.*) to (.*)$", plan.lines[line])
    start, source, target, source_type, target_type = match.groups()
    types = {source: source_type, target: target_type}
    if plan.choose.random() < 0.5:
        name = plan.choose.choice([name for name, kind in types.items() if "strided" in kind])
        strides = re.search(r"strided<\[(.*?)\]", types[name])
        changed = [int(stride) for stride in strides[1].split(", ")]
        dim = plan.choose.choice(range(len(changed)))
        changed[dim] = max(changed[dim] + plan.choose.choice([-1, 1, changed[dim]]), 1)
        types[name] = types[name].replace(strides[0], f"strided<{changed}")
    else:
        extents = re.findall(r"(\d+)x", source_type.split(",")[0])
        dim = plan.choose.choice(range(len(extents)))
        extent = plan.choose.choice([int(extents[dim]) - 1, int(extents[dim]) // 2, int(extents[dim]) + 1])
        for name in types:
            kind = types[name]
            layout = re.search(r"strided<\[(.*?)\]", kind)
            sizes = [int(n) for n in extents]
            strides_of = [int(n) for n in layout[1].split(", ")] if layout else _row_major(sizes)
            sizes[dim] = extent
            element = re.match(r"memref<(?:\d+x)*(\w+)", kind)[1]
            space = ", #cores.memory<local>" if "local" in kind else ""
            types[name] = f"memref<{'x'.join(map(str, [*sizes, element]))}, strided<{strides_of}>{space}>"
    views = []
    names = {}
    for i, (name, kind) in enumerate(types.items()):
        defined = next((m for m in map(_VIEW.match, plan.lines) if m and m[2] == name), None)
        root, at, root_type = (defined[3], defined[4], defined[5]) if defined else (name, "0", None)
        if root_type is None:
            root_type = plan.visible(line)[name]
        names[name] = f"%part{i}"
        views.append(f"      %part{i} = launch.view {root}[{at}] : {root_type} to {kind}")
    plan.lines[line] = f"{start} {names[source]} to {names[target]} : {types[source]} to {types[target]}"
    plan.lines[line:line] = views


def _row_major(sizes: list[int]) -> list[int]:
    strides, step = [], 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step *= size
    return strides


def body(plan: Plan) -> None:
    """Changes a number of a tile's function or of a constant."""
    lines = [i for i, line in enumerate(plan.lines) if "arith.constant" in line or "affine_map" in line]
    inside = [i for i in range(plan.begin, plan.end) if "launch.constant" in plan.lines[i]]
    line = plan.choose.choice(lines + inside * 3)
    plan.number(line, plan.lines[line].index("=") + 2)


CHANGES: list[Callable[[Plan], None]] = [
    drop,
    drop,
    repeat,
    move,
    move,
    number,
    retarget,
    retarget,
    swap_operands,
    kernel,
    home,
    offset,
    offset,
    shape,
    shape,
    body,
]


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


# ----------------------------------------------------------------------------------------------------------------------
# Checks that find a change
# ----------------------------------------------------------------------------------------------------------------------


def translate(text: str) -> bytes:
    """Returns the core plan of a plan in the IR."""
    level = cpu.native_level()
    lowered = run_passes(text, f"cpu-expand{{level={level}}},cpu-lower{{level={level}}}")
    command = [TOOLS / "repro-translate", "--cores-to-plan", f"--level={level}"]
    found = subprocess.run(command, input=lowered.encode(), capture_output=True, check=False)
    if found.returncode:
        raise ReproError(found.stderr.decode())
    return found.stdout


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
    return plan[: _HEADER - 8] + struct.pack("<Q", checksum(body)) + body


def outcome(seed: int) -> str:
    """Returns the change with the given number and what finds it (see forked.py)."""
    program, change, text = changed(seed)
    try:
        text = run_passes(text, "repro-verify-cores")
    except ir.MLIRError as error:
        by = "repro-verify-cores" if "Failure while executing" in str(error) else "the dialect"
        return f"{change}: refused by {by}"
    try:
        text = run_passes(text, "repro-verify-core-mapping")
    except ir.MLIRError:
        return f"{change}: refused by repro-verify-core-mapping"
    case = core_plans.case_of(program)
    known, want = kit.read(case.program), kit.reference(case.program, case.inputs)
    described = _repro.many_core_text(machine_file(program % core_plans.MACHINES))
    try:
        plan = translate(text)
        for speed in range(SPEEDS):
            executable = CoresBackend(at_speed(plan, described, speed))
            got = kit.executed(executable, known, case.inputs, f"speed {speed}", runs=1)
            kit.compare(known, want, got, f"speed {speed}")
            if isinstance(want, StepFailed) and str(want) != str(got):
                return f"finding: {change}: expected the message {want}, got {got}"
    except (ir.MLIRError, kit.Mismatch, ReproError, ValueError) as error:
        return f"finding: {change}: {error}"
    return f"{change}: same bits"


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
    print(f"program {program}, machine {program % core_plans.MACHINES}: {change}")
    print("\n".join(difflib.unified_diff(base(program).splitlines(), text.splitlines(), lineterm="", n=3)))
    for passes in ("repro-verify-cores", "repro-verify-core-mapping"):
        try:
            text = run_passes(text, passes)
        except ir.MLIRError as error:
            print(error)
            break
    (result,) = forked.run([seed], outcome, LIMITS)
    print(result.outcome)
    return int(result.is_finding)


def main() -> int:
    """Returns 1 if there is a finding, else 0."""
    options = campaign.parser(__doc__).parse_args()
    if options.show is not None:
        return show(options.show)
    for program in PROGRAMS:
        base(program)  # the children inherit the plans
    journal = campaign.collect(options, lambda numbers: forked.run(numbers, outcome, LIMITS))
    print(table(journal.outcomes))
    return int(bool(journal.findings()))


if __name__ == "__main__":
    sys.exit(main())
