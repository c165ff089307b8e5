# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Random PyTorch functions, each generated from a number, and functions read from the corpus."""

from __future__ import annotations

import ast
import linecache
import random
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch_operators import FLOATS, INTEGERS, OPERATORS

MOST_ELEMENTS = 2000
MOST_STEPS = 4
_TRIES = 60
_NAME = re.compile(r"\b[xv]\d+\b")
_SPECIAL = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, -3e-39, 1e30, -1.0, 0.5, 2.0, 3.0]
_EXTENTS = [0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 5, 5, 6, 7]


@dataclass(frozen=True)
class Input:
    """An input of a program.

    Attributes:
      dtype: the name of its element type in PyTorch.
      shape: its extents.
      values: the class of its values: "normal", "small" (whole numbers, so that some are equal), "special" (NaN,
        infinities, zeros of both signs, subnormals), "unit" (between 0 and 1), "sorted", or "below N" for an index.
      seed: the seed of its values.
    """

    dtype: str
    shape: tuple[int, ...]
    values: str
    seed: int

    def tensor(self) -> torch.Tensor:
        """Returns the tensor, which depends only on the attributes."""
        generator = torch.Generator().manual_seed(self.seed)
        dtype: torch.dtype = getattr(torch, self.dtype)
        if self.values.startswith("below"):
            return torch.randint(0, int(self.values.split()[1]), self.shape, generator=generator)
        if dtype == torch.bool:
            return torch.randint(0, 2, self.shape, generator=generator) == 0
        if not dtype.is_floating_point:
            low = 0 if dtype == torch.uint8 else -9
            return torch.randint(low, 10, self.shape, generator=generator, dtype=torch.int64).to(dtype)
        if self.values == "small":
            return torch.randint(-3, 4, self.shape, generator=generator).to(dtype)
        if self.values == "special":
            places = torch.randint(0, len(_SPECIAL), self.shape, generator=generator)
            return torch.tensor(_SPECIAL, dtype=torch.float64)[places].to(dtype)
        if self.values == "unit":
            return (torch.rand(self.shape, generator=generator, dtype=torch.float64) * 0.98 + 0.01).to(dtype)
        made = torch.randn(self.shape, generator=generator, dtype=torch.float64)
        return (made.sort(-1)[0] if self.values == "sorted" else made).to(dtype)


@dataclass(frozen=True)
class Program:
    """A function: inputs x0, x1, ...; one line for each value v0, v1, ...; and the values that are results."""

    inputs: tuple[Input, ...]
    lines: tuple[str, ...]
    results: tuple[str, ...]

    def source(self, name: str, around: str = "{}") -> str:
        """Returns the Python source of the function. `around` is a format for the expression of each value."""
        arguments = ", ".join(f"x{i}" for i in range(len(self.inputs)))
        body = [f"    v{i} = {around.format(line)}" for i, line in enumerate(self.lines)]
        return "\n".join([f"def {name}({arguments}):", *body, f"    return ({', '.join(self.results)},)", ""])

    def function(self, around: str = "{}", **names: Any) -> Callable[..., tuple[torch.Tensor, ...]]:
        """Returns the program as a Python function; `around` and `names` are passed to `functions`."""
        return functions([self], around, **names)[0]

    def text(self) -> str:
        """Returns the program as the text of a file of the corpus."""
        inputs = "".join(f"    {(i.dtype, i.shape, i.values, i.seed)!r},\n" for i in self.inputs)
        return f"INPUTS = [\n{inputs}]\n\n\n{self.source('f')}"


def functions(
    programs: Sequence[Program], around: str = "{}", **names: Any
) -> list[Callable[..., tuple[torch.Tensor, ...]]]:
    """Compiles the programs' functions under an invented file name. Registers their source with linecache, because
    Dynamo and error messages need the source lines."""
    source = "\n".join(program.source(f"f{i}", around) for i, program in enumerate(programs))
    file = f"/fuzz/programs_{hash(source) & 0xFFFFFFFF:08x}.py"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, **names}
    exec(compile(source, file, "exec"), space)
    return [space[f"f{i}"] for i in range(len(programs))]


def read(path: Path) -> Program:
    """Reads a program of the corpus."""
    tree = ast.parse(path.read_text())
    inputs, function = tree.body
    assert isinstance(inputs, ast.Assign) and isinstance(function, ast.FunctionDef)
    *lines, result = function.body
    assert isinstance(result, ast.Return) and isinstance(result.value, ast.Tuple)
    return Program(
        tuple(Input(*each) for each in ast.literal_eval(inputs.value)),
        tuple(ast.unparse(line.value) for line in lines if isinstance(line, ast.Assign)),
        tuple(ast.unparse(each) for each in result.value.elts),
    )


class _Making:
    """A program under construction; implements `torch_operators.Values`."""

    def __init__(self, number: int) -> None:
        self.choose = random.Random(number)
        self.kind = self.choose.choices(FLOATS, [12, 2, 2])[0]
        self.is_special = self.choose.random() < 0.25
        self.inputs: list[Input] = []
        self.lines: list[str] = []
        self.known: dict[str, torch.Tensor] = {}

    def of(self, name: str) -> torch.Tensor:
        return self.known[name]

    def new(self, like: torch.dtype | None, shape: Sequence[int], values: str = "normal") -> str:
        dtype = like or self.kind
        if values == "normal" and dtype.is_floating_point:
            usual = "special" if self.is_special and self.choose.random() < 0.7 else "normal"
            values = "small" if self.choose.random() < 0.15 else usual
        name = f"x{len(self.inputs)}"
        made = Input(str(dtype).removeprefix("torch."), tuple(shape), values, self.choose.randrange(1 << 20))
        self.inputs.append(made)
        self.known[name] = made.tensor()
        return name

    def take(self, kinds: str = "f", low: int = 0, high: int = 4) -> str:
        dtypes: list[torch.dtype] = []
        if "f" in kinds:
            dtypes += FLOATS
        if "i" in kinds:
            dtypes += INTEGERS
        if "b" in kinds:
            dtypes.append(torch.bool)
        found = [n for n, v in self.known.items() if v.dtype in dtypes and low <= v.dim() <= high]
        newest = [name for name in found if name.startswith("v")][-2:]
        if newest and self.choose.random() < 0.8:
            return self.choose.choice(newest)
        if found and self.choose.random() < 0.3:
            return self.choose.choice(found)
        dtype = self.choose.choice(dtypes)
        if dtype in FLOATS:
            dtype = self.kind
        rank = self.choose.choice([r for r in (0, 1, 1, 2, 2, 2, 3, 3, 4) if low <= r <= high] or [low])
        return self.new(dtype, [self.choose.choice(_EXTENTS) for _ in range(rank)])

    def attempt(self) -> bool:
        """Adds one line with a random operator; returns False, and adds nothing, if PyTorch rejects the call or its
        result is unsuitable."""
        inputs, known = list(self.inputs), dict(self.known)
        write = self.choose.choices([w for _, w, _ in OPERATORS], [weight for _, _, weight in OPERATORS])[0]
        try:
            calls = write(self)
            line = calls if isinstance(calls, str) else self.choose.choice(calls)
            value = eval(line, {"torch": torch, "F": torch.nn.functional}, dict(self.known))
            suits = isinstance(value, torch.Tensor) and value.dtype in (*FLOATS, *INTEGERS, torch.bool)
            if suits and value.numel() <= MOST_ELEMENTS and value.dim() <= 6:
                self.known[f"v{len(self.lines)}"] = value
                self.lines.append(line)
                return True
        except Exception:
            # PyTorch rejects the arguments, or the function that writes the call does.
            pass
        self.inputs, self.known = inputs, known
        return False


def program(number: int) -> Program:
    """Returns the program with the given number. Eager PyTorch has run each of its lines."""
    making = _Making(number)
    steps = making.choose.randint(1, MOST_STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(_TRIES):
            if making.attempt() and len(making.lines) == steps:
                break
    return _without_unused(making.inputs, making.lines)


def _without_unused(inputs: Sequence[Input], lines: Sequence[str]) -> Program:
    """Returns the program of the given lines, without the inputs that no line reads. Its results are the values that no
    line reads."""
    read = set(_NAME.findall(" ".join(lines)))
    kept = [i for i in range(len(inputs)) if f"x{i}" in read]
    renamed = {f"x{old}": f"x{new}" for new, old in enumerate(kept)}
    lines = [_renamed(line, renamed) for line in lines]
    results = [f"v{i}" for i in range(len(lines)) if f"v{i}" not in read]
    return Program(tuple(inputs[i] for i in kept), tuple(lines), tuple(results))


def smaller(program: Program) -> Iterator[Program]:
    """Yields variants of a program, each without one of its lines. If other lines read the removed value, an input
    replaces it."""
    values = _values(program)
    for i, line in enumerate(program.lines):
        others = [*program.lines[:i], *program.lines[i + 1 :]]
        names = {f"v{k}": f"v{k - 1}" for k in range(i + 1, len(program.lines))}
        inputs = program.inputs
        if f"v{i}" in _NAME.findall(" ".join(others)):
            if "x" not in line:
                continue
            value = values[f"v{i}"]
            names[f"v{i}"] = f"x{len(inputs)}"
            kind = str(value.dtype).removeprefix("torch.")
            inputs = (*inputs, Input(kind, tuple(value.shape), "normal", i))
        if others:
            yield _without_unused(inputs, [_renamed(other, names) for other in others])


def _renamed(line: str, names: Mapping[str, str]) -> str:
    return _NAME.sub(lambda match: names.get(match[0], match[0]), line)


def _values(program: Program) -> dict[str, torch.Tensor]:
    """Runs the program and returns its inputs and values by name."""
    known: dict[str, Any] = {f"x{i}": each.tensor() for i, each in enumerate(program.inputs)}
    for i, line in enumerate(program.lines):
        known[f"v{i}"] = eval(line, {"torch": torch, "F": torch.nn.functional}, known)
    return known
