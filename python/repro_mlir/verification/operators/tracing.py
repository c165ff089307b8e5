# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs a step on any target and returns all values between its operators.

Compiled targets run the program in parts (see extraction.py), each of which returns all its values. A part is bounded
in operators and bytes, so memory is limited to the values of one part and those that the rest of the step still uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.formats import element_type, from_bits, to_bits
from repro_mlir.base.numerics.hashing import tensor_digest
from repro_mlir.base.progress import Progress
from repro_mlir.reference.interpreter import evaluate_operation
from repro_mlir.reference.program import Operation
from repro_mlir.verification.executors import StepExecutable, compile_step
from repro_mlir.verification.operators.extraction import extract
from repro_mlir.verification.operators.graph import Extraction, Operator, OperatorGraph, Value, used_numbers

_PART_BYTES = 256 << 20
_PART_OPERATORS = 128

Override = Callable[[Operator, tuple[np.ndarray, ...]], tuple[np.ndarray, ...]]
"""Maps an operator and its computed results to the results that the rest of the step uses instead."""


def value_hash(value: Value, array: np.ndarray) -> bytes:
    """Returns the hash (H1) of a value; a scalar counts as a tensor of rank 0."""
    return tensor_digest(array, value.kind.element)


class Tracer:
    """Runs steps of a program operator by operator.

    Arrays are in the representation of base/numerics/tensors.py.
    """

    def __init__(
        self,
        graph: OperatorGraph,
        target: str = "reference",
        threads: int | None = None,
        override: Override | None = None,
    ) -> None:
        """
        Args:
          graph: the operators of the step.
          target, threads: see `compile`.
          override: returns the results with which the step continues instead of the computed ones, to simulate an
            error; only for the target "reference".
        Raises:
          ReproError: if there is an override for another target.
        """
        if override is not None and target != "reference":
            raise ReproError(f"expected the target reference with overridden operators, got {target}")
        self.graph = graph
        self.target = target
        self._threads = threads
        self._override = override

    def run(self, arrays: Sequence[np.ndarray]) -> Iterator[tuple[Operator, tuple[np.ndarray, ...]]]:
        """Runs one step, with a progress bar, and yields each operator in order with its outputs (`Operator.outputs`).

        Args:
          arrays: one array per argument of the program: the state before the step, then the inputs.
        Raises:
          StepFailed: (E1) if a check of the program fails.
        """
        graph = self.graph
        if len(arrays) != len(graph.arguments):
            raise ReproError(f"expected {len(graph.arguments)} arrays, got {len(arrays)}")
        env = dict(zip(graph.arguments, arrays, strict=True))
        outputs = self._interpreted if self.target == "reference" else self._compiled
        with Progress(len(graph.operators), f"operators on {self.target}") as progress:
            for operator, values in outputs(env):
                yield operator, values
                progress.advance(operator.name)
                for value in {*operator.operands, *operator.results}:
                    if graph.last_uses.get(value, operator.index) <= operator.index:
                        env.pop(value, None)

    def results(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Returns the program's results for these arguments: new state, then outputs. Raises StepFailed like `run`."""
        found = dict(zip(self.graph.arguments, arrays, strict=True))
        wanted = set(self.graph.results)
        for operator, values in self.run(arrays):
            found.update((v, a) for v, a in zip(operator.outputs, values, strict=True) if v in wanted)
        return [found[value] for value in self.graph.results]

    # --- The interpreter ---

    def _interpreted(self, env: dict[Value, np.ndarray]) -> Iterator[tuple[Operator, tuple[np.ndarray, ...]]]:
        constants = dict(self._constants)
        for operator, operation in zip(self.graph.operators, self.graph.operations, strict=True):
            numbers = used_numbers(operation)
            given = {
                number: _imported(value, constants[value] if value.inline else env[value])
                for number, value in zip(numbers, operator.operands, strict=True)
            }
            results = evaluate_operation(operation, given)
            values = tuple(_exported(v, a) for v, a in zip(operator.outputs, results, strict=False))
            if self._override:
                values = self._override(operator, values)
            (constants if operator.inline else env).update(zip(operator.outputs, values, strict=True))
            yield operator, values

    @cached_property
    def _constants(self) -> dict[Value, np.ndarray]:
        """The values of constants, and zeros for the results of `tensor.empty` (F6)."""
        return {
            value: _inline(value, self.graph.operations[operator.index])
            for operator in self.graph.operators
            for value in operator.results
            if value.inline
        }

    # --- Compiled code ---

    @cached_property
    def _parts(self) -> list[tuple[range, Extraction]]:
        parts = []
        begin = size = 0
        # Parts end where microbatches end, so all microbatches have equal parts, which are compiled once.
        ends = {len(self.graph.operators), *(indices.stop for indices, _ in self.graph.phases)}
        for operator in self.graph.operators:
            size += sum(value.kind.nbytes for value in operator.outputs if not value.inline)
            end = operator.index + 1
            if size > _PART_BYTES or end - begin >= _PART_OPERATORS or end in ends:
                parts.append((range(begin, end), extract(self.graph, begin, end)))
                begin, size = end, 0
        return parts

    @cached_property
    def _executables(self) -> list[StepExecutable]:
        programs = {part.program.data: part.program for _, part in self._parts}
        compiled = {data: compile_step(program, self.target, self._threads) for data, program in programs.items()}
        return [compiled[part.program.data] for _, part in self._parts]

    def _compiled(self, env: dict[Value, np.ndarray]) -> Iterator[tuple[Operator, tuple[np.ndarray, ...]]]:
        for (indices, part), executable in zip(self._parts, self._executables, strict=True):
            _, outputs = executable({}, *(env[value] for value in part.inputs))
            env.update(zip(part.outputs, outputs.values(), strict=True))
            for index in indices:
                operator = self.graph.operators[index]
                yield operator, tuple(self._constants[v] if v.inline else env[v] for v in operator.outputs)


def _inline(value: Value, operation: Operation) -> np.ndarray:
    if operation.constant is None:
        return np.zeros(value.kind.shape, value.kind.dtype)
    return _exported(value, operation.constant)


@float_environment()
def _imported(value: Value, array: np.ndarray) -> np.ndarray:
    """Converts an array from the representation of base/numerics/tensors.py to that of the reference interpreter."""
    element = element_type(value.kind.element)
    if element.is_storage:
        return from_bits(array.view(f"u{array.dtype.itemsize}"), element)
    return array.astype(element.dtype, copy=False)


@float_environment()
def _exported(value: Value, array: np.ndarray) -> np.ndarray:
    """Converts an array from the representation of the interpreter to that of base/numerics/tensors.py, with canonical
    NaNs (V4)."""
    kind = element_type(value.kind.element)
    if kind.is_float:
        bits = to_bits(array, kind)
        return np.ascontiguousarray(bits).view(value.kind.dtype).reshape(value.kind.shape)
    return np.ascontiguousarray(array.astype(value.kind.dtype)).reshape(value.kind.shape)
