# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Random changes of the text of a plan of many cores, for core_mutations.py."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

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
    """Changes a number of a kernel, such as the length of the sums of an array of multipliers, or of a constant."""
    words = ("arith.constant", "affine_map", "cores.matrix")
    lines = [i for i, line in enumerate(plan.lines) if any(word in line for word in words)]
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
