# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A canonical program as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from repro_mlir.base.errors import ProgramError, StepFailed
from repro_mlir.base.numerics.formats import ElementType


@dataclass(frozen=True)
class ValueType:
    """The type of a value: a tensor of static shape, or a scalar if `shape` is None."""

    element: ElementType
    shape: tuple[int, ...] | None

    def __str__(self) -> str:
        if self.shape is None:
            return self.element.name
        return f"tensor<{''.join(f'{extent}x' for extent in self.shape)}{self.element.name}>"


class Origin(NamedTuple):
    """The place in the user's source from which an operation comes.

    Attributes:
      name: the name of a module of the model or of a phase of the step; None if it is not known.
      file, line, column: the position in Python source; None and zeros if it is not known.
    """

    name: str | None = None
    file: str | None = None
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.file is not None else self.name or ""


NOWHERE = Origin()
"""The origin of an operation whose place is not known."""


@dataclass(frozen=True)
class Operation:
    """An operation.

    Attributes:
      operands, results: the numbers of the values, which are unique in the program.
      attributes: the attributes by name: integers as int, enumerations as the words of docs/verification/identity.md,
        lists as tuples, indexing maps as indexing.IndexMap, an order as folds.FoldOrder, the message of an assertion as
        str.
      encoded: the attributes as stored, without the message of an assertion.
      origin: the place in the user's source.
      constant: the array of an arith.constant, which must not be modified.
    """

    name: str
    operands: tuple[int, ...]
    operand_types: tuple[ValueType, ...]
    results: tuple[int, ...]
    result_types: tuple[ValueType, ...]
    attributes: dict[str, Any]
    encoded: bytes | memoryview
    regions: tuple[Body, ...]
    origin: Origin
    constant: np.ndarray | None = None

    def uses(self) -> set[int]:
        """Returns the numbers of the values that the operation reads: its operands, and outside values that its regions
        read."""
        return {*self.operands}.union(*(region.captured() for region in self.regions))

    @property
    def location(self) -> str:
        """`file:line:column` of the Python source line, else the name of a module of the model or of a phase of the
        step; empty if neither is known."""
        return str(self.origin)

    @property
    def place(self) -> str:
        """The location as the prefix of a message; empty if the location is not known."""
        return f"{self.location}: " if self.location else ""

    def error(self, message: str) -> ProgramError:
        """Returns the error for an invalid program; its message names the operation."""
        return ProgramError(f"{self.place}'{self.name}': {message}")

    def failure(self, message: str) -> StepFailed:
        """(E1) Returns the error for a step that fails at this operation."""
        return StepFailed(f"{self.place}'{self.name}': {message}")


@dataclass(frozen=True)
class Body:
    """A block: the numbers and types of its arguments, its operations, and the numbers of the values that its
    terminator yields. `end` is the origin of the terminator."""

    arguments: tuple[int, ...]
    argument_types: tuple[ValueType, ...]
    operations: tuple[Operation, ...]
    yields: tuple[int, ...]
    end: Origin = NOWHERE

    def captured(self) -> set[int]:
        """Returns the numbers of the values that the block reads and that are defined outside it."""
        defined = set(self.arguments)
        used = set(self.yields)
        for op in self.operations:
            defined.update(op.results)
            used.update(op.operands)
            for region in op.regions:
                used.update(region.captured())
        return used - defined


@dataclass(frozen=True)
class ParsedProgram:
    """The function @main of a module; its first `num_state` arguments and results are the state."""

    body: Body
    result_types: tuple[ValueType, ...]
    num_state: int
    argument_names: tuple[str, ...]
    result_names: tuple[str, ...]
