# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The reference interpreter of canonical programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from repro_mlir.base.errors import ProgramError
from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.formats import ElementType, canonical, from_bits, is_exact
from repro_mlir.reference.elementwise import evaluator
from repro_mlir.reference.movement import MOVEMENTS
from repro_mlir.reference.program import Operation, ParsedProgram, ValueType
from repro_mlir.reference.stored import read_program
from repro_mlir.reference.structured import STRUCTURED

Trace = Callable[[Operation, Sequence[np.ndarray], Sequence[np.ndarray]], None]
"""Called after each operation of @main with its operand and result arrays, in the representation of formats.py."""


class Interpreter:
    """Runs a canonical program exactly as docs/reference/numerics.md specifies."""

    def __init__(self, program: bytes | ParsedProgram) -> None:
        """Accepts a stored program, or a program that stored.py has parsed. Raises ProgramError for invalid bytes."""
        self.program = program if isinstance(program, ParsedProgram) else read_program(program)

    @float_environment()
    def run(self, *arrays: np.ndarray, trace: Trace | None = None) -> list[np.ndarray]:
        """Runs one step. Takes one array for each argument of @main (state, then inputs) and returns one for each
        result (new state, then outputs).

        Arrays are C-ordered NumPy arrays of the argument's type. An argument of a storage type is float32 with values
        that the type represents, float16 for f16, or unsigned integers with its bits. A result of a storage type is
        float32. Results contain canonical NaNs (V4). Raises ProgramError for unsuitable arguments, StepFailed (E1) if
        the step fails.
        """
        body = self.program.body
        if len(arrays) != len(body.arguments):
            raise ProgramError(f"expected {len(body.arguments)} arguments, got {len(arrays)}")
        env: dict[int, np.ndarray] = {}
        for i, (number, kind, array) in enumerate(zip(body.arguments, body.argument_types, arrays, strict=True)):
            env[number] = import_array(array, kind, f"argument {i} {self.program.argument_names[i]}".strip())
        last_use = {n: i for i, op in enumerate(body.operations) for n in op.uses()}
        last_use.update((n, len(body.operations)) for n in body.yields)
        for i, op in enumerate(body.operations):
            env.update(zip(op.results, evaluate_operation(op, env), strict=True))
            if trace:
                trace(op, [env[n] for n in op.operands], [env[n] for n in op.results])
            for number in {*op.uses(), *op.results}:
                if last_use.get(number, i) == i:
                    del env[number]
        final = zip(body.yields, self.program.result_types, strict=True)
        return [export_array(env[number], kind.element) for number, kind in final]


@float_environment()
def evaluate_operation(op: Operation, env: dict[int, np.ndarray]) -> list[np.ndarray]:
    """Returns the results of one operation of @main, as arrays in the representation of formats.py.

    `env` contains the values that the operation uses. Raises StepFailed (E1) if a check fails.
    """
    with np.errstate(all="ignore"):
        results = _evaluate(op, env)
    return [_checked(op, kind, value) for kind, value in zip(op.result_types, results, strict=True)]


def _evaluate(op: Operation, env: dict[int, np.ndarray]) -> Sequence[np.ndarray]:
    if op.name in STRUCTURED:
        return STRUCTURED[op.name](op, env)
    if op.name in MOVEMENTS:
        return [MOVEMENTS[op.name](op, env)]
    result = evaluator(op)(*[env[n] for n in op.operands])
    return result if isinstance(result, tuple) else (result,)


def _checked(op: Operation, kind: ValueType, value: np.ndarray) -> np.ndarray:
    """Returns the value after checking that it matches its type. Only a bug of the interpreter can make this check
    fail."""
    value = np.asarray(value)
    if value.shape != (kind.shape or ()) or value.dtype != kind.element.dtype:
        raise op.error(f"expected a result of type {kind}, computed {value.dtype} of shape {value.shape}")
    return value


@float_environment()
def import_array(array: np.ndarray, kind: ValueType, what: str) -> np.ndarray:
    """Converts a caller's array to the interpreter's representation."""
    element, shape = kind.element, kind.shape or ()
    array = np.asarray(array)
    if array.shape != shape:
        raise ProgramError(f"{what}: expected shape {shape}, got {array.shape}")
    accepted = np.dtype(_public(element))
    if element.is_storage and array.dtype == element.bits_dtype:
        return np.asarray(from_bits(array, element))
    if element.name == "f16" and array.dtype == np.float16:
        return array.astype(np.float32)
    if accepted.kind == "i" and array.dtype == np.dtype(f"u{accepted.itemsize}"):
        # Integers are signless (V1), so unsigned arrays are accepted too.
        array = array.view(accepted)
    if array.dtype != accepted:
        raise ProgramError(f"{what}: expected {accepted} for {kind}, got {array.dtype}")
    if element.is_storage:
        if not is_exact(array, element):
            raise ProgramError(f"{what}: expected float32 values that {element.name} represents")
        return array
    if element.name == "i1":
        return np.asarray(array.view(np.uint8) != 0)
    return array if element.is_float else array.astype(element.dtype)


@float_environment()
def export_array(array: np.ndarray, element: ElementType) -> np.ndarray:
    """Converts an array of the interpreter to the representation that callers get, with canonical NaNs (V4)."""
    return np.ascontiguousarray(canonical(array, element).astype(_public(element))).reshape(array.shape)


def _public(element: ElementType) -> np.dtype:
    if element.is_float or element.width == 1:
        return element.dtype
    return np.dtype(next(f"i{size}" for size in (1, 2, 4, 8) if element.width <= 8 * size))
