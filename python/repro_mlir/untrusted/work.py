# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a child process does with program text."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable
from typing import Any

from .. import ir, tensor_record
from .._mlir_libs import _repro
from ..compiler import compile as compile_program
from ..errors import ReproError, StepFailed
from ..program import read_signature

_DIALECTS = ("arith", "builtin", "cf", "func", "linalg", "math", "repro", "tensor")
_MODULES = ["reference.interpreter", *(f"dialects.{name}" for name in _DIALECTS)]


def prepare() -> None:
    """Imports what is else imported when it is needed: a child has it already."""
    for name in _MODULES:
        importlib.import_module(f"..{name}", __package__)


def read(data: bytes, *, constant_bytes: int) -> bytes:
    """The text of a canonical program as MLIR prints it, which has been parsed and verified as well.

    Raises:
      ReproError: text that is no canonical program, or constants of more bytes.
    """
    text = data.decode()
    with ir.Context(), ir.Location.unknown():
        try:
            module = ir.Module.parse(text)
            _check_constants(module, constant_bytes)
            identity = _repro.program_hash(module)
            printed = str(module.operation.get_asm(enable_debug_info=True))
            # Whoever asked reads the printed text in the same way.
            if _repro.program_hash(ir.Module.parse(printed)) != identity:
                raise ReproError("the program is another one once it is printed")
        except (ir.MLIRError, ValueError) as error:
            raise ReproError(" ".join(line.strip() for line in str(error).splitlines()[:2])) from None
    return printed.encode()


def _check_constants(module: Any, limit: int) -> None:
    """ReproError where the constants have more bytes than `limit`: a splat takes none in the text."""
    total = 0

    def visit(operation: Any) -> Any:
        nonlocal total
        if operation.name == "arith.constant" and len(operation.results) == 1:
            total += _bytes_of(operation.results[0].type)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if total > limit:
        raise ReproError(f"constants of {total:,} bytes, expected at most {limit:,}")


def _bytes_of(kind: Any) -> int:
    """The bytes of a value; of a type that no canonical program has, none."""
    is_tensor = isinstance(kind, ir.RankedTensorType) and kind.has_static_shape
    element: Any = kind.element_type if is_tensor else kind
    width = 64 if isinstance(element, ir.IndexType) else getattr(element, "width", 0)
    return math.prod(kind.shape if is_tensor else ()) * -(-width // 8)


def compile_native(data: bytes, *, level: str) -> bytes:
    """An artifact. ValueError with the first error of the compiler."""
    from ..runtime.compilation import compile

    return compile(data.decode(), level)


def compile_device(data: bytes, *, architecture: str, assembled: bool) -> bytes:
    """Device code as the cache keeps it. ReproError where there is none."""
    from ..gpu_code import compile_text

    return compile_text(data.decode(), architecture, assembled)


def interpret(data: bytes, *, text_bytes: int) -> bytes:
    """The outputs of a program without state, from its text and its inputs.

    Returns:
      "=" and the outputs, or "!" and why there are none (E1).
    """
    program = read_signature(data[:text_bytes].decode())
    arrays = tensor_record.decode(data[text_bytes:], program.inputs, "an input")
    try:
        _, outputs = compile_program(program, "reference", 1)({}, *arrays)
    except StepFailed as error:
        return b"!" + str(error).encode()
    return b"=" + tensor_record.encode([*outputs.values()], program.outputs)


WORK: dict[str, Callable[..., bytes]] = {
    "read": read,
    "compile_native": compile_native,
    "compile_device": compile_device,
    "interpret": interpret,
}


def perform(request: bytes) -> bytes:
    """Does what a request says, a line of JSON and then its data: gives "+" and the result, "-" and what is wrong with
    the data, or "?" and a fault of ours."""
    line, _, data = request.partition(b"\n")
    given = json.loads(line)
    try:
        return b"+" + WORK[given["work"]](data, **given["options"])
    except MemoryError:
        raise
    except Exception as error:
        is_known = isinstance(error, (ReproError, ValueError))
        reason = str(error) if is_known else f"{type(error).__name__}: {error}"
        return (b"-" if is_known else b"?") + (reason.splitlines() or [""])[0].encode(errors="replace")
