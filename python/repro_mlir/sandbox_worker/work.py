# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The functions that a child process runs on untrusted programs."""

from __future__ import annotations

import importlib
import itertools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from repro_mlir.base.compiler import has_compiler, install_extra
from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.base.files import tensor_record
from repro_mlir.program import modules, read_signature
from repro_mlir.program.canonical import read_module
from repro_mlir.reference.canonical.program import check_canonical
from repro_mlir.reference.program import Body, ValueType
from repro_mlir.reference.steps import StepInterpreter
from repro_mlir.reference.stored import read_program

_DIALECTS = ("arith", "builtin", "cf", "func", "linalg", "math", "repro", "tensor")


def prepare() -> None:
    """Imports modules that are otherwise imported on first use. The server calls this function before it forks, so its
    children have the modules already."""
    if has_compiler():
        for name in _DIALECTS:
            importlib.import_module(f"repro_mlir.dialects.{name}")


class TooMuch(Exception):
    """Raised when a program exceeds the limits. The program may be valid nevertheless."""


def read(data: bytes, *, constant_bytes: int, tensor_bytes: int) -> bytes:
    """Reads and verifies a stored program; returns empty bytes. Without the compiler, reference/canonical verifies that
    the program is canonical.

    Raises:
      ReproError: the data is not a stored program.
      TooMuch: the constants together exceed `constant_bytes`, or a tensor exceeds `tensor_bytes`.
    """
    largest, total = _sizes(data) if has_compiler() else _checked_sizes(data)
    if largest > tensor_bytes:
        raise TooMuch(f"expected tensors of at most {tensor_bytes:,} bytes in a program, got one of {largest:,}")
    if total > constant_bytes:
        raise TooMuch(f"expected constants of at most {constant_bytes:,} bytes, got {total:,}")
    return b""


def _sizes(data: bytes) -> tuple[int, int]:
    """Returns the size in bytes of the largest result of an operation, and of all constants together. A splat constant
    stores a single element, but its full size counts."""
    from repro_mlir import ir

    def size(kind: Any) -> int:
        is_tensor = isinstance(kind, ir.RankedTensorType)
        element: Any = kind.element_type if is_tensor else kind
        width = 64 if isinstance(element, ir.IndexType) else element.width
        return math.prod(kind.shape if is_tensor else ()) * -(-width // 8)

    with ir.Context():
        module = read_module(data)
        largest = total = 0

        def visit(operation: Any) -> Any:
            nonlocal largest, total
            sizes = [size(result.type) for result in operation.results]
            largest = max(largest, *sizes, 0)
            if operation.name == "arith.constant":
                total += sum(sizes)
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return largest, total


def _checked_sizes(data: bytes) -> tuple[int, int]:
    program = read_program(data)
    check_canonical(program)
    return _sizes_of_body(program.body)


def _sizes_of_body(body: Body) -> tuple[int, int]:
    """Returns the sizes that `_sizes` returns, for a program that the reference interpreter has read."""
    largest = total = 0
    for operation in body.operations:
        sizes = [_bytes_of(kind) for kind in operation.result_types]
        largest = max(largest, *sizes, 0)
        if operation.constant is not None:
            total += sum(sizes)
        for region in operation.regions:
            inner_largest, inner_total = _sizes_of_body(region)
            largest, total = max(largest, inner_largest), total + inner_total
    return largest, total


def _bytes_of(kind: ValueType) -> int:
    return math.prod(kind.shape or ()) * -(-kind.element.width // 8)


def import_module(data: bytes, **limits: int) -> bytes:
    """Converts a program in an MLIR module to the stored form and verifies it with `read`. Raises the same errors as
    `read`."""
    stored = modules.import_module(data, _lower_stablehlo)
    # The caller will parse the stored form in its own process, so this process verifies it first.
    read(stored, **limits)
    return stored


def _lower_stablehlo(data: bytes) -> bytes:
    """Lowers a StableHLO module to an imported program in linalg, with the MLIR bindings of jaxlib."""
    try:
        from repro_mlir.frontends.stablehlo.modules import lower_module
    except ImportError as error:
        raise ReproError(f"StableHLO needs jaxlib: {install_extra('jax')} ({error})") from None
    return lower_module(data).encode()


def compile_native(data: bytes, *, level: str) -> bytes:
    """Compiles a program; returns the artifact. Raises CompileError with the first error of the compiler."""
    from repro_mlir.compilation.cpu import compile

    return compile(data, level)


def analyze_native(data: bytes, *, level: str) -> bytes:
    """Returns an encoded `Analysis` of a program's code. Raises CompileError with the first error of the compiler."""
    from repro_mlir.compilation.cpu import analyze

    return analyze(data, level).to_bytes()


def compile_cores(data: bytes, *, machine: str, text: str, level: str) -> bytes:
    """Maps a program onto a machine of many cores; returns the core plan. Raises CompileError with the first error of
    the compiler."""
    from repro_mlir.compilation.cores import Machine, compile

    return compile(data, Machine(machine, text), level)


def describe_cores(data: bytes, *, machine: str, text: str) -> bytes:
    """Maps a program onto a machine of many cores; returns the description of the mapping as JSON. Raises CompileError
    with the first error of the compiler."""
    from repro_mlir.compilation.cores import Machine, describe

    return describe(data, Machine(machine, text)).encode()


def compile_step(data: bytes, *, name: str, sizes: Sequence[int]) -> bytes:
    """Compiles a program for a microcontroller; returns an encoded `StepObject`. Raises CompileError with the first
    error of the compiler.

    Args:
      data: the program, and then the states of the initial state, if there is one.
      sizes: the number of bytes of the program and of each state.
    """
    from repro_mlir.compilation.microcontroller import make_object

    ends = list(itertools.accumulate(sizes))
    program, *initial = (data[end - size : end] for end, size in zip(ends, sizes, strict=True))
    return make_object(program, name, initial).to_bytes()


def compile_device(data: bytes, *, architecture: str, assembled: bool) -> bytes:
    """Compiles a program for a GPU; returns the code in the format of the cache. Raises ReproError if the compilation
    fails."""
    from repro_mlir.compilation.device_code import compile_data

    return compile_data(data, architecture, assembled)


def interpret(data: bytes, *, program_bytes: int) -> bytes:
    """Computes the outputs of a program without state. `data` is the program, of `program_bytes` bytes, and then its
    inputs.

    Returns:
      "=" and the outputs, or "!" and the reason why the step failed (E1).
    """
    # `sandbox.admit` has accepted the program.
    program = read_signature(data[:program_bytes], untrusted=True)
    arrays = tensor_record.decode(data[program_bytes:], program.inputs, "an input")
    outputs = [np.empty(kind.shape, kind.dtype) for kind in program.outputs]
    try:
        StepInterpreter(program.data).run((), arrays, outputs)
    except StepFailed as error:
        return b"!" + str(error).encode()
    return b"=" + tensor_record.encode(outputs, program.outputs)


WORK: dict[str, Callable[..., bytes]] = {
    "read": read,
    "import_module": import_module,
    "compile_native": compile_native,
    "analyze_native": analyze_native,
    "compile_cores": compile_cores,
    "compile_step": compile_step,
    "describe_cores": describe_cores,
    "compile_device": compile_device,
    "interpret": interpret,
}


def perform(request: bytes) -> bytes:
    """Performs a request, which is a line of JSON followed by data.

    Returns:
      "+" and the result, "-" and the reason why the data is invalid, or "?" and the reason why its validity is unknown:
      exceeded limits or an internal error.
    """
    line, _, data = request.partition(b"\n")
    given = json.loads(line)
    try:
        return b"+" + WORK[given["work"]](data, **given["options"])
    except MemoryError:
        raise
    except Exception as error:
        is_known = isinstance(error, (ReproError, ValueError))
        reason = str(error) if is_known or isinstance(error, TooMuch) else f"{type(error).__name__}: {error}"
        return (b"-" if is_known else b"?") + (reason.splitlines() or [""])[0].encode(errors="replace")
