# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A canonical program as a list of operators and the values between them.

An *operator* is an operation of the only block of `main`, except the return. Its index is its position in the block, so
the program's identity (H2) and the index identify the operator. Constants and `tensor.empty` are operators too, but
their results are *inline*: extracted parts contain copies of these operators instead of receiving the values as inputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from repro_mlir.base.numerics.formats import element_type
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.printing import foreign
from repro_mlir.program import Program
from repro_mlir.program.microbatches import MicrobatchProgram, StepProgram
from repro_mlir.reference.program import Operation, ValueType
from repro_mlir.reference.stored import read_program
from repro_mlir.verification.operators.unrolling import unroll

CONSTANT = "arith.constant"
EMPTY = "tensor.empty"


@dataclass(frozen=True)
class Value:
    """An argument of the program or a result of an operator.

    Attributes:
      producer: the index of the operator that computes the value; None for an argument.
      position: the position among the operator's results, or among the arguments.
      kind: the name, element type and shape of the value's array; `index` is stored as i64, and a scalar has shape ().
      element: MLIR's name of the element type.
      scalar: whether the value is not a tensor.
      inline: whether the value is a constant or a tensor without defined elements.
    """

    producer: int | None
    position: int
    kind: TensorType = field(compare=False)
    element: str = field(compare=False)
    scalar: bool = field(compare=False)
    inline: bool = field(compare=False)

    @property
    def name(self) -> str:
        """The name of the argument, or the name and index of the operator."""
        return self.kind.name

    @property
    def type(self) -> ValueType:
        """The type of the value in the program."""
        return ValueType(element_type(self.element), None if self.scalar else self.kind.shape)


@dataclass(frozen=True)
class Operator:
    """One operation of `main`.

    Attributes:
      index: the position in `main`.
      name: MLIR's name of the operation.
      operands: the distinct values that the operation uses: its operands, then the values that its regions capture.
      results: the results of the operation.
      location: `file:line:column` of the Python line that the operator comes from; else the module of the model or the
        phase of the step, such as `module encoder.0`; empty if neither is known.
      module: the module of the model that the operator belongs to, if both a line and the module are known; in a step
        in microbatches, the phase of the step, such as `microbatch 3`; else empty.
    """

    index: int
    name: str
    operands: tuple[Value, ...] = field(repr=False)
    results: tuple[Value, ...] = field(repr=False)
    location: str
    module: str = ""

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The operands except constants and tensors without defined elements."""
        return tuple(value for value in self.operands if not value.inline)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The results with defined elements; `tensor.empty` has none."""
        return () if self.name == EMPTY else self.results

    @property
    def inline(self) -> bool:
        """Whether the operator is a constant or a `tensor.empty`, which compute nothing."""
        return self.name in (CONSTANT, EMPTY)

    @property
    def line(self) -> str | None:
        """The `file:line` of the Python source, or else the operator's module or phase; None if neither is known."""
        parts = self.location.rsplit(":", 2)
        if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():
            return foreign(f"{parts[0]}:{parts[1]}")
        return foreign(self.location) if self.location else None

    def __str__(self) -> str:
        return f"operator {self.index} {self.name}" + (f" ({self.origin})" if self.origin else "")

    @property
    def origin(self) -> str:
        """The `line` and the `module`, as far as they are known."""
        return ", ".join(dict.fromkeys(part for part in (self.line, foreign(self.module)) if part))


class OperatorGraph:
    """The operators of a step, in order.

    Attributes:
      step: the step.
      program: the step as one canonical program: `step` itself, or the result of `unroll` for a step in microbatches.
      phases: for a step in microbatches, consecutive ranges of operators, each with a description; else empty.
      microbatches: for a step in microbatches, the values that each microbatch computes; else empty.
      arguments: the arguments of `main`: state, then inputs.
      operators: the operators; `operators[i].index == i`.
      results: the values that `main` returns: new state, then outputs.
    """

    def __init__(self, step: StepProgram, modules: Mapping[int, str] = MappingProxyType({})) -> None:
        """
        Args:
          modules: the modules of operators, by operator index, as far as they are known.
        Raises:
          ReproError: if a step in microbatches has too many operators.
        """
        self.step = step
        self.phases: tuple[tuple[range, str], ...] = ()
        gives: Sequence[Sequence[tuple[int | None, int]]] = ()
        if isinstance(step, MicrobatchProgram):
            unrolled = unroll(step)
            program, self.phases, gives = unrolled.program, unrolled.phases, unrolled.gives
            modules = {i: what for indices, what in self.phases for i in indices}
        else:
            program = step
        read = read_program(program.data)
        self.program = program
        body = read.body
        kinds = (*program.state, *program.inputs)
        values: dict[int, Value] = {}
        for position, (number, kind) in enumerate(zip(body.arguments, kinds, strict=True)):
            values[number] = Value(None, position, kind, kind.element, False, False)
        operators = []
        for index, operation in enumerate(body.operations):
            operands = tuple(values[number] for number in used_numbers(operation))
            results = tuple(
                _result(operation, index, position, kind) for position, kind in enumerate(operation.result_types)
            )
            values.update(zip(operation.results, results, strict=True))
            module = modules.get(index, "")
            operators.append(Operator(index, operation.name, operands, results, operation.location, module))
        self.arguments = tuple(values[number] for number in body.arguments)
        self.operators = tuple(operators)
        self.results = tuple(values[number] for number in body.yields)
        self.microbatches = tuple(tuple(self._value(*place) for place in places) for places in gives)
        self.operations = body.operations
        self._arguments = body.arguments

    def _value(self, producer: int | None, position: int) -> Value:
        return self.arguments[position] if producer is None else self.operators[producer].results[position]

    def number_of(self, value: Value) -> int:
        """Returns the number of a value in `operations`."""
        if value.producer is None:
            return self._arguments[value.position]
        return self.operations[value.producer].results[value.position]

    @cached_property
    def last_uses(self) -> dict[Value, int]:
        """For each value, the index of the last operator that uses it; for results of `main`, the number of
        operators."""
        uses = {value: operator.index for operator in self.operators for value in operator.operands}
        uses.update((value, len(self.operators)) for value in self.results)
        return uses

    def moves(self, operator: Operator) -> bool:
        """Returns whether an operator only moves data: its results consist of constants and elements of its
        operands."""
        if operator.name == "linalg.generic":
            (body,) = self.operations[operator.index].regions
            return all(operation.name == "linalg.index" for operation in body.operations)
        return operator.inline or operator.name.startswith("tensor.")

    @cached_property
    def users(self) -> dict[Value, tuple[int, ...]]:
        """For each value, the indices of the operators that use it."""
        found: dict[Value, list[int]] = {}
        for operator in self.operators:
            for value in operator.operands:
                found.setdefault(value, []).append(operator.index)
        return {value: tuple(indices) for value, indices in found.items()}


@dataclass(frozen=True)
class Extraction:
    """A part of a program as a program of its own (see extraction.py).

    Attributes:
      program: the part as a program without state; its inputs and outputs correspond to `inputs` and `outputs`.
      inputs: the values of the whole program that the part uses.
      outputs: the values of the whole program that the part computes.
    """

    program: Program = field(repr=False)
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]


def used_numbers(operation: Operation) -> list[int]:
    """Returns the numbers of the distinct values that an operation uses: its operands, then the values that its regions
    use."""
    captured = sorted(set().union(*(region.captured() for region in operation.regions)))
    return list(dict.fromkeys((*operation.operands, *captured)))


def _result(operation: Operation, index: int, position: int, kind: ValueType) -> Value:
    element = kind.element.name
    name = f"{operation.name}.{index}" + (f"#{position}" if len(operation.results) > 1 else "")
    held = TensorType(name, "i64" if element == "index" else element, kind.shape or ())
    return Value(index, position, held, element, kind.shape is None, operation.name in (CONSTANT, EMPTY))


def different_operators(first: tuple[OperatorGraph, str], second: tuple[OperatorGraph, str]) -> str:
    """Describes the first operators in which two different programs differ. Each program has a name for the text."""
    pairs = first, second
    computing = ([each for each in graph.operators if not each.inline] for graph, _ in pairs)
    for operators in itertools.zip_longest(*computing):
        if _computes(operators[0]) != _computes(operators[1]):
            told = (
                f"{each or 'none'}{_computes(each)[1]} in {name}"
                for each, (_, name) in zip(operators, pairs, strict=True)
            )
            return f"the first different operators are {', and '.join(told)}"
    return "the operators have equal names and types, so a constant, an attribute or the use of a value differs"


def _computes(operator: Operator | None) -> tuple[str, str]:
    """Returns the name of an operator and the types of its results."""
    if operator is None:
        return "", ""
    return operator.name, "".join(f" {value.element} {[*value.kind.shape]}" for value in operator.results)
