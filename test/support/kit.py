# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs canonical programs on the reference interpreter and in compiled code, and compares every bit."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from repro_mlir.base.errors import StepFailed
from repro_mlir.base.numerics.formats import canonical, element_type, to_bits
from repro_mlir.compilation import cpu
from repro_mlir.execute.cores import CoresBackend
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.execute.qemu import QemuBackend
from repro_mlir.program.canonical import to_bytes
from repro_mlir.reference.interpreter import Interpreter, import_array
from repro_mlir.reference.program import ParsedProgram, ValueType
from repro_mlir.reference.stored import read_program

from support.guarded import Guarded

EVERYTHING = os.environ.get("REPRO_TESTS") == "all"
"""Whether tests run their exhaustive cases as well (REPRO_TESTS=all)."""


@dataclass(frozen=True)
class Configuration:
    """A CPU level and a number of threads with which a program runs."""

    level: str
    threads: int

    def __str__(self) -> str:
        return f"{self.level}, {self.threads} threads"


class Mismatch(AssertionError):
    """Raised if a target's result differs from that of the reference interpreter."""


Outcome = list[np.ndarray] | StepFailed
"""The results as unsigned bits with canonical NaNs, or the failure of the step (E1)."""


def configurations() -> list[Configuration]:
    """Returns the lowest CPU level with one thread, and the highest level of this machine with more threads; with
    REPRO_TESTS=all every configuration.

    REPRO_DIFFERENTIAL (for example "x86-64-v3/2 aarch64/1", the latter through an emulator) overrides the list.
    """
    chosen = os.environ.get("REPRO_DIFFERENTIAL")
    if chosen:
        pairs = (word.rsplit("/", 1) for word in chosen.split())
        return [Configuration(level, int(threads)) for level, threads in pairs]
    tested = levels()
    return every_configuration() if EVERYTHING else [Configuration(tested[0], 1), Configuration(tested[-1], 3)]


def every_configuration() -> list[Configuration]:
    """Returns every CPU level that this machine runs, with one thread, and the highest level also with more
    threads."""
    runnable = cpu.runnable_levels()
    return [*(Configuration(level, 1) for level in runnable), Configuration(runnable[-1], 3)]


def levels() -> list[str]:
    """Returns the lowest and the highest CPU level that this machine runs; with REPRO_TESTS=all every level."""
    runnable = cpu.runnable_levels()
    return runnable if EVERYTHING else list(dict.fromkeys([runnable[0], runnable[-1]]))


@functools.lru_cache(maxsize=8)
def read(program: str) -> ParsedProgram:
    """Parses a canonical program by way of its stored bytes."""
    return read_program(to_bytes(program))


def reference(program: str | ParsedProgram, inputs: Sequence[np.ndarray]) -> Outcome:
    """Runs the program on the reference interpreter and returns its outcome."""
    interpreter = Interpreter(read(program) if isinstance(program, str) else program)
    try:
        return bits_of(interpreter.run(*inputs), interpreter.program)
    except StepFailed as error:
        return error


def bits_of(results: Sequence[np.ndarray], program: ParsedProgram) -> list[np.ndarray]:
    """Returns the interpreter's results as bits."""
    return [to_bits(value, kind.element) for value, kind in zip(results, program.result_types, strict=True)]


def compiled(program: str, inputs: Sequence[np.ndarray], configuration: Configuration, runs: int = 2) -> Outcome:
    """Compiles a program and runs it `runs` times. Returns its outcome, which must be the same each time."""
    artifact = _artifact(program, configuration.level)
    backend = QemuBackend if configuration.level.startswith("aarch64") else CpuBackend
    executable = backend(artifact, configuration.threads)
    return executed(executable, read(program), inputs, str(configuration), runs)


def executed(
    executable: CpuBackend | QemuBackend | CoresBackend,
    known: ParsedProgram,
    inputs: Sequence[np.ndarray],
    what: str,
    runs: int = 2,
) -> Outcome:
    """Runs compiled code `runs` times. Returns its outcome, which must be the same each time."""
    arrays = [public(array, kind) for array, kind in zip(inputs, known.body.argument_types, strict=True)]
    given = arrays[known.num_state :]
    # (V4) The NaNs of states must be canonical. The API ensures this, but here the runtime is called directly, and it
    # does not check NaNs.
    old_states = [
        public(canonical(import_array(array, kind, "state"), kind.element), kind) if kind.element.is_float else array
        for array, kind in zip(arrays[: known.num_state], known.body.argument_types, strict=False)
    ]
    outcome: Outcome | None = None
    for run in range(runs):
        places = [
            [Guarded(array, at_end=(run + i) % 4 > 0) for i, array in enumerate(group)]
            for group in (old_states, given, [tensor.empty() for tensor in executable.outputs])
        ]
        states, passed, results = ([place.array for place in group] for group in places)
        try:
            executable.run(states, passed, results)
            typed = zip([*states, *results], known.result_types, strict=True)
            now: Outcome = [bits(value, kind) for value, kind in typed]
        except StepFailed as error:
            now = error
            _unchanged(states, old_states, "(E1) a failed step changed its state")
        _unchanged(passed, given, "a step changed its input")
        if not all(place.is_intact() for group in places for place in group):
            raise Mismatch(f"{what}: a step wrote beside its buffers")
        if outcome is not None:
            compare(known, outcome, now, f"{what}: run {run} differs from run 0")
        outcome = now
    assert outcome is not None
    return outcome


@functools.lru_cache(maxsize=8)
def _artifact(program: str, level: str) -> bytes:
    return cpu.compile(program, level, jobs=1)


def compare(program: ParsedProgram, want: Outcome, got: Outcome, what: str) -> None:
    """Raises Mismatch unless the outcomes are equal results, or both are failures."""
    if isinstance(want, StepFailed) or isinstance(got, StepFailed):
        if type(want) is not type(got):
            raise Mismatch(f"{what}: expected {_summary(want)}, got {_summary(got)}")
        return
    for i, (a, b, kind) in enumerate(zip(want, got, program.result_types, strict=True)):
        if a.shape != b.shape:
            raise Mismatch(f"{what}: result {i}: expected shape {a.shape}, got {b.shape}")
        wrong = np.argwhere(a != b)
        if len(wrong):
            first = tuple(int(x) for x in wrong[0])
            digits = 2 * a.dtype.itemsize
            raise Mismatch(
                f"{what}: result {i} ({kind}): {len(wrong)} of {a.size} elements differ, first at {list(first)}: "
                f"expected 0x{int(a[first]):0{digits}x}, got 0x{int(b[first]):0{digits}x}"
            )


def check(
    program: str,
    inputs: Sequence[np.ndarray],
    where: Sequence[Configuration] | None = None,
    runs: int = 2,
    want: Outcome | None = None,
) -> None:
    """Raises Mismatch if compiled code has another outcome than the interpreter in one of the configurations `where`.
    `want` is the interpreter's outcome, if it is known."""
    want = reference(program, inputs) if want is None else want
    known = read(program)
    for configuration in configurations() if where is None else where:
        compare(known, want, compiled(program, inputs, configuration, runs), str(configuration))


def first_difference(program: str, inputs: Sequence[np.ndarray], configuration: Configuration) -> str | None:
    """Returns a text that names an operation of @main after which compiled code differs and describes the difference,
    or None if compiled code does not differ."""
    from repro_mlir import ir

    def ends_after(count: int) -> tuple[str, str]:
        with ir.Context(), ir.Location.unknown():
            module = ir.Module.parse(program)
            main = module.body.operations[0].operation
            block = main.regions[0].blocks[0]
            operations = list(block.operations)
            last = operations[count - 1].operation
            for op in reversed(operations[count:]):
                op.operation.erase()
            results = list(last.results)
            with ir.InsertionPoint(block):
                ir.Operation.create("func.return", operands=results)
            kind = ir.FunctionType.get([a.type for a in block.arguments], [value.type for value in results])
            main.attributes["function_type"] = ir.TypeAttr.get(kind)
            main.attributes["repro.num_state"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
            if "res_attrs" in main.attributes:
                del main.attributes["res_attrs"]
            return str(module), str(last)

    operations = read(program).body.operations
    places = [
        i + 1
        for i, op in enumerate(operations)
        if op.results and all(kind.shape is not None for kind in op.result_types) and op.name != "tensor.empty"
    ]

    def difference(place: int) -> str | None:
        text, op = ends_after(place)
        try:
            check(text, inputs, [configuration], runs=1)
        except Mismatch as error:
            return f"{error}\n{op}"
        return None

    # Finds an operation with correct operands and a wrong result. This operation may not be the first one with a wrong
    # result, because later results can be equal again.
    low, high, found = 0, len(places), None
    while low < high:
        middle = (low + high) // 2
        here = difference(places[middle])
        if here is None:
            low = middle + 1
        else:
            high, found = middle, here
    return found


def public(array: np.ndarray, kind: ValueType) -> np.ndarray:
    """Converts an input to the Python API's format: f16 is numpy.float16, other storage types are their bits."""
    name = kind.element.name
    if not kind.element.is_storage:
        return np.ascontiguousarray(array).reshape(np.shape(array))
    bits = to_bits(import_array(array, kind, "input"), kind.element) if array.dtype.kind == "f" else array
    return bits.view(np.float16) if name == "f16" else bits


def bits(value: np.ndarray, kind: ValueType) -> np.ndarray:
    """Returns a result of the API as unsigned bits. NaNs stay as they are, because compiled code must make them
    canonical (V4)."""
    element = element_type(kind.element.name)
    if element.is_float:
        return np.ascontiguousarray(value).view(element.bits_dtype).reshape(np.shape(value))
    return to_bits(value, element)


def _unchanged(now: Sequence[np.ndarray], before: Sequence[np.ndarray], message: str) -> None:
    for a, b in zip(now, before, strict=True):
        if a.tobytes() != b.tobytes():
            raise Mismatch(message)


def _summary(outcome: Outcome) -> str:
    return f"a failed step ({outcome})" if isinstance(outcome, StepFailed) else "results"
