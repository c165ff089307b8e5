# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Builds the text of canonical programs (docs/contributors/architecture.md)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from repro_mlir import ir, passmanager

ROW = "#repro.order<chunk = 8192, lanes = 64, run = {run}, totals = refold>"
"""The reduction order that (P2) assigns to a fold over the last dimension of its input."""

COLUMN = "#repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>"
"""The reduction order that (P1) and (P2) assign to contractions and to all other folds."""

ANY = "#repro.any_order"
SEQUENTIAL = "#repro.sequential"


def order(chunk: int, lanes: int, run: int = 0, totals: str = "sequential") -> str:
    """Returns the order of a repro.fold as an MLIR attribute."""
    return f"#repro.order<chunk = {chunk}, lanes = {lanes}, run = {run}, totals = {totals}>"


def tensor(shape: Sequence[int], element: str) -> str:
    """Returns a tensor type in MLIR syntax."""
    return f"tensor<{''.join(f'{extent}x' for extent in shape)}{element}>"


_STORAGE = re.compile(r"\b(bf16|f16|f8E4M3FN|f8E5M2|f6E3M2FN|f6E2M3FN|f4E2M1FN|f8E8M0FNU)\b")


def _widened(text: str) -> str:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse("builtin.module(repro-widen-storage)").run(module.operation)
        return str(module)


@dataclass(frozen=True)
class Value:
    """An SSA value; `shape` is None for a scalar."""

    name: str
    shape: tuple[int, ...] | None
    element: str

    @property
    def type(self) -> str:
        """The type in MLIR syntax."""
        return self.element if self.shape is None else tensor(self.shape, self.element)


def typed(*operands: Value) -> str:
    """Returns the names of operands, then their types: `%a, %b : t, u`."""
    return f"{', '.join(x.name for x in operands)} : {', '.join(x.type for x in operands)}"


class Builder:
    """Collects the arguments and operations of a program's function @main.

    Attributes:
      arguments: the arguments so far.
    """

    def __init__(self) -> None:
        self.arguments: list[Value] = []
        self._lines: list[str] = []
        self._count = 0

    def _fresh(self, shape: Sequence[int] | None, element: str) -> Value:
        self._count += 1
        return Value(f"%v{self._count}", None if shape is None else tuple(shape), element)

    def argument(self, shape: Sequence[int] | None, element: str) -> Value:
        """Adds an argument of @main and returns its value."""
        value = Value(f"%arg{len(self.arguments)}", None if shape is None else tuple(shape), element)
        self.arguments.append(value)
        return value

    def scalar_arguments(self, count: int) -> list[Value]:
        """Adds i64 arguments of rank 0; returns their values as scalars."""
        arguments = [self.argument((), "i64") for _ in range(count)]
        return [self.extract(each) for each in arguments]

    def op(self, text: str, shape: Sequence[int] | None, element: str) -> Value:
        """Adds an operation with one result; `text` is the operation in MLIR syntax without `%result =`."""
        value = self._fresh(shape, element)
        self._lines.append(f"{value.name} = {text}")
        return value

    def ops(self, text: str, *results: tuple[Sequence[int] | None, str]) -> list[Value]:
        """Adds an operation with several results, or none; `results` has the shape and element type of each."""
        values = [self._fresh(shape, element) for shape, element in results]
        names = ", ".join(value.name for value in values)
        self._lines.append(f"{names} = {text}" if values else text)
        return values

    def call(self, operation: str, inputs: Sequence[Value], outputs: Sequence[Value]) -> list[Value]:
        """Adds an operation on tensors. The results have the types of the operation's destinations, `outputs`."""
        types = ", ".join(x.type for x in outputs)
        text = f"{operation} ins({typed(*inputs)}) outs({typed(*outputs)}) -> {types}"
        return self.ops(text, *((x.shape, x.element) for x in outputs))

    def extract(self, x: Value, *indices: Value) -> Value:
        """Adds a tensor.extract of one element."""
        return self.op(f"tensor.extract {x.name}[{', '.join(i.name for i in indices)}] : {x.type}", None, x.element)

    def slice(
        self,
        x: Value,
        offsets: Sequence[int],
        sizes: Sequence[int],
        strides: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
    ) -> Value:
        """Adds a tensor.extract_slice; `strides` are 1 by default; `shape` may leave out dimensions of extent 1."""
        shape = sizes if shape is None else shape
        where = f"{list(offsets)} {list(sizes)} {list(strides or [1] * len(sizes))}"
        return self.op(
            f"tensor.extract_slice {x.name}{where} : {x.type} to {tensor(shape, x.element)}", shape, x.element
        )

    def insert(
        self, part: Value, x: Value, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int] | None = None
    ) -> Value:
        """Adds a tensor.insert_slice of `part` into `x`."""
        where = f"{list(offsets)} {list(sizes)} {list(strides or [1] * len(sizes))}"
        text = f"tensor.insert_slice {part.name} into {x.name}{where} : {part.type} into {x.type}"
        return self.op(text, x.shape, x.element)

    def reshape(self, kind: str, x: Value, groups: str, shape: Sequence[int]) -> Value:
        """Adds a tensor.expand_shape or a tensor.collapse_shape; `groups` are the joined dimensions."""
        size = f"output_shape {list(shape)} " if kind == "expand" else ""
        text = f"tensor.{kind}_shape {x.name} {groups} {size}: {x.type} into {tensor(shape, x.element)}"
        return self.op(text, shape, x.element)

    def concat(self, dim: int, *parts: Value) -> Value:
        """Adds a tensor.concat."""
        shape = list(parts[0].shape or ())
        shape[dim] = sum((part.shape or ())[dim] for part in parts)
        names, types = ", ".join(part.name for part in parts), ", ".join(part.type for part in parts)
        element = parts[0].element
        return self.op(f"tensor.concat dim({dim}) {names} : ({types}) -> {tensor(shape, element)}", shape, element)

    def pad(self, x: Value, low: Sequence[int], high: Sequence[int], fill: Value) -> Value:
        """Adds a tensor.pad with a scalar."""
        shape = [a + e + c for a, e, c in zip(low, x.shape or (), high, strict=True)]
        indices = ", ".join(f"%i{d}: index" for d in range(len(shape)))
        return self.op(
            f"tensor.pad {x.name} low{list(low)} high{list(high)} {{\n  ^bb0({indices}):\n"
            f"    tensor.yield {fill.name} : {fill.element}\n  }} : {x.type} to {tensor(shape, x.element)}",
            shape,
            x.element,
        )

    def splat(self, scalar: Value, shape: Sequence[int]) -> Value:
        """Adds a tensor.splat."""
        return self.op(f"tensor.splat {scalar.name} : {tensor(shape, scalar.element)}", shape, scalar.element)

    def from_elements(self, shape: Sequence[int], *scalars: Value) -> Value:
        """Adds a tensor.from_elements."""
        element = scalars[0].element
        names = ", ".join(x.name for x in scalars)
        return self.op(f"tensor.from_elements {names} : {tensor(shape, element)}", shape, element)

    def constant(self, literal: str, shape: Sequence[int] | None, element: str) -> Value:
        """Adds a constant; `literal` uses MLIR syntax: 1.0, or dense<[1, 2]>."""
        kind = element if shape is None else tensor(shape, element)
        typed = literal if literal in ("true", "false") else f"{literal} : {kind}"
        return self.op(f"arith.constant {typed}", shape, element)

    def empty(self, shape: Sequence[int], element: str) -> Value:
        """Adds a tensor.empty."""
        return self.op(f"tensor.empty() : {tensor(shape, element)}", shape, element)

    def generic(
        self,
        shape: Sequence[int],
        inputs: Sequence[tuple[Value, str]],
        body: str,
        *elements: str,
        output: str | None = None,
        dims: Sequence[int] | None = None,
        yields: Sequence[str] | None = None,
    ) -> list[Value]:
        """Adds a linalg.generic over dimensions d0, d1, ... with results of one shape.

        `inputs` are values with the results of their index maps, such as "d0, d1". `body` uses %x0, %x1, ... and must
        define %r0, %r1, ..., one per element type, or the names in `yields` instead. `output` contains the results of
        the output's index map (by default the identity); `dims` contains the extents of the iteration space (by default
        `shape`).
        """
        rank = len(dims if dims is not None else shape)
        names = ", ".join(f"d{i}" for i in range(rank))
        inits = [self.empty(shape, element) for element in elements]
        maps = [results for _, results in inputs] + [names if output is None else output] * len(elements)
        written = ", ".join(f"affine_map<({names}) -> ({results})>" for results in maps)
        parameters = [f"%x{i}: {value.element}" for i, (value, _) in enumerate(inputs)]
        parameters += [f"%o{i}: {element}" for i, element in enumerate(elements)]
        ins = f"ins({typed(*(v for v, _ in inputs))})" if inputs else ""
        yielded = ", ".join(yields or [f"%r{i}" for i in range(len(elements))])
        kinds = ", ".join(['"parallel"'] * rank)
        return self.ops(
            f"linalg.generic {{indexing_maps = [{written}], iterator_types = [{kinds}]}} {ins}\n"
            f"    outs({typed(*inits)}) {{\n"
            f"  ^bb0({', '.join(parameters)}):\n    {body}\n    linalg.yield {yielded} : {', '.join(elements)}\n"
            f"  }} -> ({', '.join(v.type for v in inits)})",
            *[(shape, element) for element in elements],
        )

    def elementwise(self, body: str, *values: Value, element: str) -> Value:
        """Adds a linalg.generic over values of one shape and returns its result; `body` uses %x0, ... and defines
        %r0."""
        shape = values[0].shape or ()
        names = ", ".join(f"d{i}" for i in range(len(shape)))
        return self.generic(shape, [(value, names) for value in values], body, element)[0]

    def fold(
        self,
        ordering: str,
        iterators: str,
        inputs: Sequence[tuple[Value, str]],
        outputs: Sequence[tuple[Value, str]],
        body: str,
        accumulators: Sequence[str] | None = None,
        yields: Sequence[str] | None = None,
    ) -> list[Value]:
        """Adds a repro.fold; `iterators` has a letter p or r for each dimension d0, d1, ...

        `body` uses %x0, ... and the accumulators %a0, ..., and defines %r0, ... or the names in `yields`.
        """
        names = ", ".join(f"d{i}" for i in range(len(iterators)))
        kinds = ", ".join({"p": "parallel", "r": "reduction"}[letter] for letter in iterators)
        written = ", ".join(f"affine_map<({names}) -> ({results})>" for _, results in [*inputs, *outputs])
        elements = list(accumulators or [value.element for value, _ in outputs])
        parameters = [f"%x{i}: {value.element}" for i, (value, _) in enumerate(inputs)]
        parameters += [f"%a{i}: {element}" for i, element in enumerate(elements)]
        ins = f"ins({typed(*(v for v, _ in inputs))})" if inputs else ""
        outs = f"outs({typed(*(v for v, _ in outputs))})"
        yielded = ", ".join(yields or [f"%r{i}" for i in range(len(elements))])
        return self.ops(
            f"repro.fold {ordering}\n    maps [{written}]\n    iterators [{kinds}] {ins} {outs} {{\n"
            f"  ^bb0({', '.join(parameters)}):\n    {body}\n    repro.yield {yielded} : {', '.join(elements)}\n"
            f"  }} -> {', '.join(v.type for v, _ in outputs)}",
            *[(value.shape, value.element) for value, _ in outputs],
        )

    def is_used(self, value: Value) -> bool:
        """Whether an operation has the value as an operand."""
        name = re.compile(rf"{re.escape(value.name)}(?!\w)")
        return any(name.search(line.partition(" = ")[2] or line) for line in self._lines)

    def program(self, *results: Value, states: int = 0) -> str:
        """Returns the text of the program that returns `results`; the first `states` of them are the new states.

        Bodies may be written with arithmetic on bf16, f16 or f8. In the program this arithmetic is in f32 (V1).
        """
        arguments = ", ".join(f"{value.name}: {value.type}" for value in self.arguments)
        types = ", ".join(value.type for value in results)
        lines = "\n  ".join(self._lines)
        text = (
            f"func.func @main({arguments}) -> ({types}) attributes {{repro.num_state = {states} : i64}} {{\n  {lines}\n"
            f"  return {', '.join(value.name for value in results)} : {types}\n}}\n"
        )
        return _widened(text) if _STORAGE.search(text) else text
